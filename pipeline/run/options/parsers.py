"""The command lines of ``oriel run`` and ``oriel rebuild``: what says what is run, and how."""

import argparse
from pathlib import Path

from oriel.pipeline.run.options.clock import add_clock_options
from oriel.pipeline.run.options.kafka import add_kafka_arguments
from oriel.pipeline.run.options.upkeep import add_upkeep_options
from oriel.storage import add_log_format, data_folder

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def run_parser() -> argparse.ArgumentParser:
    """The options of ``oriel run``."""
    parser = argparse.ArgumentParser(
        prog="oriel run",
        description="Run a topology over an event log or a Kafka topic.",
        epilog="Exit codes: 0: done or stopped by a signal, 1: an error, 2: an invalid option, 3: "
        "with --once, all records that the run read are dead letters.",
    )
    parser.set_defaults(stores=())
    _add_options(parser)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--trigger", type=_duration_ms, default=200, metavar="TIME",
        help="least time between two batches, like 200ms or 1s (default 200ms)",
    )  # fmt: skip
    pace.add_argument("--once", action="store_true", help="process all that is there, then stop")
    return parser


def rebuild_parser() -> argparse.ArgumentParser:
    """The options of ``oriel rebuild``, which is a run that ends by itself."""
    parser = argparse.ArgumentParser(
        prog="oriel rebuild",
        description="Compute stores again from their topics, and replace each in one step; or "
        "write all records of an output topic, `to(TOPIC)`, again.",
    )
    parser.add_argument(
        "stores", nargs="+", metavar="STORE",
        help="name of a store; the pipeline must not run. Several stores share one start of Spark",
    )  # fmt: skip
    _add_options(parser)
    parser.set_defaults(once=True)
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says what is run, over which log and into which folder."""
    parser.add_argument("topology", type=Path, help="Python file that defines `topology`")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--event-log", type=Path, metavar="ROOT", help="folder with <topic>/<partition>.jsonl"
    )
    source.add_argument("--kafka", metavar="HOST:PORT", help="bootstrap servers of a Kafka cluster")
    parser.add_argument(
        "--schema-registry", metavar="URL",
        help="registry of the schemas that Avro values name by their ids, like http://host:8081",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=data_folder, required=True, help="folder of tables and checkpoints"
    )
    parser.add_argument("--name", help="name of the checkpoint (default: the file's name)")
    parser.add_argument(
        "--max-batch-bytes", type=_positive, default=64 * 2**20,
        help="how much of a topic one batch reads at most (default 64 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--publish-to", metavar="HOST:PORT",
        help="Kafka cluster that `to` writes rows and records to (default: that of --kafka)",
    )  # fmt: skip
    add_kafka_arguments(parser, _positive, _duration_ms)
    parser.add_argument(
        "--key-groups", type=_positive, default=64,
        help="most tasks a store can ever use; fixed when the store is made (default 64)",
    )  # fmt: skip
    parser.add_argument("--cores", type=_positive, help="cores to use (default: all)")
    parser.add_argument(
        "--master",
        help="Spark's address of a cluster, like spark://HOST:7077 (docs/how-to/cluster.md)",
    )
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="KEY=VALUE",
        help="a setting of Spark's; may be given many times",
    )  # fmt: skip
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before committing: faster, unsafe on power loss",
    )  # fmt: skip
    add_clock_options(parser, _duration_ms)
    add_upkeep_options(parser, _duration_ms, _positive)
    add_log_format(parser)
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="where Spark's log goes (default: DATA/logs)"
    )


def _duration_ms(text: str) -> int:
    for unit, unit_ms in _UNITS_MS.items():
        number = text.removesuffix(unit)
        if number != text and number.isdecimal():
            return int(number) * unit_ms
    message = f"{text!r} is not a time like 200ms, 1s, 1m, 1h or 1d"
    raise argparse.ArgumentTypeError(message)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"{text!r} is not a positive whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        message = f"{text!r} is not a setting of Spark's like spark.executor.memory=4g"
        raise argparse.ArgumentTypeError(message)
    return name, value
