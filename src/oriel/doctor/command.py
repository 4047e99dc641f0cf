"""The command line of ``oriel doctor``."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from oriel.doctor.registry import as_json, examined
from oriel.doctor.results import Level, Subject

#: Columns of a terminal line: the level and the check, then the text.
_LEVEL_WIDTH, _CHECK_WIDTH = 9, 14


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each check found. Return 1 if there is at least one problem, otherwise 0.

    Example:
        ``oriel doctor --data data --kafka localhost:9092 --port 8080``
    """
    options = _parser().parse_args(arguments)
    counts = Counter[Level]()
    subject = Subject(
        data=options.data,
        index=options.index,
        event_log=options.event_log,
        kafka=tuple(filter(None, (options.kafka or "").split(","))),
        url=options.url,
        host=options.host,
        port=options.port,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
    )
    for name, result in examined(subject):
        counts[result.level] += 1
        if options.json:
            print(as_json(name, result), flush=True)
        else:
            head = f"{result.level:<{_LEVEL_WIDTH}}{name:<{_CHECK_WIDTH}}"
            print(f"{head}{result}", flush=True)
    if not options.json:
        print(f"{_counted(counts[Level.PROBLEM], 'problem')}, "
              f"{_counted(counts[Level.WARNING], 'warning')}.")  # fmt: skip
    return int(counts[Level.PROBLEM] > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel doctor",
        description="Check this machine, its directories and connections, and print what to do. "
        "This command changes nothing.",
    )
    parser.add_argument(
        "--data", type=_data, metavar="DIR",
        help="check rights, free space, commit times, pipelines and stores of this data directory, "
        "or access to s3://BUCKET/PREFIX",
    )  # fmt: skip
    parser.add_argument(
        "--index", type=Path, metavar="DIR",
        help="check the free space for indexes in this directory. Default: DATA/index",
    )  # fmt: skip
    parser.add_argument(
        "--event-log", type=Path, metavar="ROOT",
        help="check that this event log has topics that the user can read",
    )  # fmt: skip
    parser.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="check that each bootstrap server accepts connections. Separate servers with commas",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="use this address for --port. Default: 127.0.0.1",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, metavar="N",
        help="check that a service can listen on this port, or that a service of Oriel does",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="check when this PEM certificate expires"
    )
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE",
        help="check that this PEM key belongs to the certificate, and that other users cannot "
        "read it",
    )  # fmt: skip
    parser.add_argument(
        "--url", metavar="URL", help="check the readiness of the service at this URL"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return parser


def _data(text: str) -> Path:
    """Return the data directory as the other commands read it, if their packages are installed."""
    try:
        from oriel.storage import parse_data_directory  # noqa: PLC0415 - see the package
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "oriel":
            raise
        return Path(text)
    return parse_data_directory(text)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
