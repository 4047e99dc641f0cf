"""``oriel status``: a check of one pipeline that costs little, and everything else.

A container's health check runs every few seconds, also while Spark needs the CPU to start, and the
imports of the full command cost half a second of CPU. So ``--check --pipeline`` reads only the
pipeline's status file, with the standard library alone. The full command decides in all other
cases, for example if the file reports a problem or the data directory is in an object store.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

#: As in ``oriel.storage.monitoring``, whose import would cost what this module saves.
HEARTBEAT_SECONDS_MAX = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``oriel status``. Return the exit code of the process."""
    options = _parsed(arguments)
    problem = None if options is None else _problem(Path(options.data), options.pipeline)
    if problem is None:
        code: int = import_module("oriel.pipeline.operations.status").main(arguments)
        return code
    sys.stdout.write(problem)
    return int(bool(problem))


def pipeline_name(text: str) -> str:
    """Return the name of a pipeline: the text, or the stem of a topology file."""
    return Path(text).stem if text.endswith(".py") else text


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace | None:
    """Return the arguments if they check one pipeline of a directory, and None otherwise."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--data", default="")
    parser.add_argument("--pipeline", type=pipeline_name)
    parser.add_argument("--check", action="store_true")
    try:
        options, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return None
    is_known = options.check and options.pipeline is not None and not others
    return options if is_known and (Path(options.data) / "checkpoints").is_dir() else None


def _problem(data: Path, name: str) -> str | None:
    """Return the line about a pipeline, empty if it is well, None if the file does not say it."""
    file = data / "checkpoints" / name / "status.json"
    try:
        seen = file.stat().st_mtime
        status = json.loads(file.read_bytes())
        is_alive = not status["has_ended"] and time.time() - seen <= HEARTBEAT_SECONDS_MAX
        if is_alive:
            return "" if status["problem"] is None else None
        retired_ms = status["retired_ms"]
    except FileNotFoundError:
        return f"Pipeline {name} has not run here. Start it with the same --data.\n"
    except (OSError, ValueError, KeyError, TypeError):
        # A file of an older version lacks these fields.
        return None
    if retired_ms:
        since = _time_text(retired_ms / 1000)
        return f"Pipeline {name} is retired since {since} UTC. To make it active again, start it.\n"
    since = _time_text(seen)
    return f"Pipeline {name} has not run since {since} UTC. Start it with the same --data.\n"


def _time_text(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
