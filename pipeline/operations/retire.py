"""``oriel retire PIPELINE``: record that a stopped pipeline will not run again."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.errors import AlreadyRunning, CheckpointError
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.status_check import pipeline_name
from oriel.storage import DataLayout, absolute, current_files, is_object, uri
from oriel.storage.monitoring import run_status_files


def main(arguments: Sequence[str] | None = None) -> int:
    """Retire a stopped pipeline, so that health checks, metrics and alerts ignore it.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel retire",
        description="Retire a stopped pipeline: health checks, metrics and alerts ignore it. Its "
        "tables and its checkpoint stay. Start it with `oriel run` to activate it again.",
    )
    parser.add_argument(
        "pipeline", type=pipeline_name, help="name of the pipeline or topology file"
    )
    add_data_option(parser, "retire a pipeline of this data directory")
    options = parser.parse_args(arguments)
    try:
        _retire(DataLayout(absolute(options.data)), options.pipeline)
    except EXPECTED as error:
        print_error("retire", error)
        return 1
    print(f"{options.pipeline} is retired. To activate it again, start it with `oriel run`.")
    return 0


def _retire(layout: DataLayout, name: str) -> None:
    current_files().reach(layout.root)
    files = run_status_files(layout)
    reported = {
        one: run_status for one, file in files.items() if (run_status := file.read()) is not None
    }
    if name not in reported:
        names = ", ".join(reported) or "no pipeline"
        message = (
            f"{uri(layout.root)} has no pipeline {name!r}. Its pipelines: {names}. Name one of "
            "these."
        )
        raise CheckpointError(message)
    if is_object(layout.root) and reported[name][1]:
        # A checkpoint in an object store has no lock.
        message = f"pipeline {name!r} runs on {reported[name][0].host}. Stop it first."
        raise AlreadyRunning(message)
    # The lock of the checkpoint keeps a run from starting meanwhile.
    with Checkpoint(layout.checkpoint(name), sync=True):
        run, _ = files[name].read() or reported[name]
        retired_ms = time.time_ns() // 1_000_000
        files[name].write(replace(run, has_ended=True, retired_ms=retired_ms), sync=True)
