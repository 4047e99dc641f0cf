"""The parsers of ``oriel run`` and ``oriel rebuild``."""

import argparse
from pathlib import Path

from oriel.pipeline.arguments.data import add_data_option
from oriel.pipeline.arguments.kafka import add_kafka_arguments
from oriel.pipeline.arguments.maintenance import add_maintenance_options
from oriel.pipeline.arguments.stream_time import add_stream_time_options
from oriel.storage import add_log_format

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def run_parser() -> argparse.ArgumentParser:
    """Return the parser of ``oriel run``."""
    parser = argparse.ArgumentParser(
        prog="oriel run",
        description="Run a topology over an event log or the topics of a Kafka cluster, until you "
        "stop it with Ctrl-C or SIGTERM. The batch in progress is then either committed or "
        "discarded as a whole.",
        epilog="Exit codes: 0: done or stopped by a signal, 1: an error, 2: an invalid option, 3: "
        "with --once, all records that the run read are dead letters.",
    )
    parser.set_defaults(stores=(), live=False)
    _add_options(parser)
    pace = parser.add_mutually_exclusive_group()
    _add_trigger(pace)
    pace.add_argument(
        "--once", action="store_true",
        help="process all existing records, print a summary as JSON, and stop",
    )  # fmt: skip
    pace.add_argument(
        "--explain", action="store_true",
        help="print the logical and the physical plan of the topology, and stop. Nothing is read "
        "or written",
    )  # fmt: skip
    parser.add_argument(
        "--standby", action="store_true",
        help="start Java and Spark, wait while another process runs this pipeline, and continue "
        "when that process has ended or has no heartbeat",
    )  # fmt: skip
    parser.add_argument(
        "--replace-after", type=_duration_ms, metavar="TIME", default=10_000,
        help="with --standby: replace a process that has no heartbeat for this long, because it is "
        "suspended or its machine is down. A heartbeat is written each second, in an object "
        "store each 4 s. Default: 10s",
    )  # fmt: skip
    return parser


def rebuild_parser() -> argparse.ArgumentParser:
    """Return the parser of ``oriel rebuild``, which is a run that ends by itself."""
    parser = argparse.ArgumentParser(
        prog="oriel rebuild",
        description="Compute stores again from the start of their topics, and replace each store "
        "in one step. Stop the pipeline first, or use --live. With the name 'to(TOPIC)', write all "
        "records of an output topic again.",
    )
    parser.add_argument(
        "stores", nargs="+", metavar="STORE",
        help="name of a store, or 'to(TOPIC)'. Several stores share one start of Spark. Name a "
        "store after the stores that it reads",
    )  # fmt: skip
    _add_options(parser)
    parser.add_argument(
        "--live", action="store_true",
        help="compute the stores while another process runs the pipeline. Then replace that "
        "process, and run the pipeline until you stop this command",
    )  # fmt: skip
    parser.add_argument(
        "--hold", action="store_true",
        help="with --live: follow the running process, and replace the stores only after `oriel "
        "diff STORE --accept`",
    )  # fmt: skip
    _add_trigger(parser)
    parser.set_defaults(explain=False, standby=False)
    return parser


def _add_trigger(to: argparse._ActionsContainer) -> None:
    to.add_argument(
        "--trigger", type=_duration_ms, metavar="TIME",
        help="wait at least this long between the starts of two batches, for example 1s. With 0ms, "
        "a batch starts when records exist and the previous batch is committed. Default: 0ms, but "
        "200ms with an object store or if Spark's connector reads Kafka",
    )  # fmt: skip


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both commands have."""
    parser.add_argument("topology", type=Path, help="Python file that defines `topology`")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--event-log", type=Path, metavar="ROOT",
        help="read the event log in this directory, ROOT/<topic>/<partition>.jsonl",
    )  # fmt: skip
    source.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="read from a Kafka cluster with these bootstrap servers",
    )  # fmt: skip
    parser.add_argument(
        "--schema-registry", metavar="URL",
        help="fetch the schemas that Avro values reference by id from this registry, for example "
        "http://registry:8081. Set its user and password in ORIEL_SCHEMA_REGISTRY_USER_INFO",
    )  # fmt: skip
    add_data_option(
        parser, "write tables and checkpoints into this data directory, or into s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--name", metavar="NAME",
        help="set the name of the checkpoint and of the pipeline. Default: the name of the "
        "topology file",
    )  # fmt: skip
    parser.add_argument(
        "--max-batch-bytes", type=_positive, default=64 * 2**20, metavar="N",
        help="read at most this many bytes of a topic per batch. Default: 67108864 (64 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--publish-to", metavar="HOST:PORT",
        help="write the output topics of `to` to this Kafka cluster. Default: the cluster of "
        "--kafka",
    )  # fmt: skip
    add_kafka_arguments(parser, _positive, _duration_ms)
    _add_spark_options(parser)
    add_stream_time_options(parser, _duration_ms)
    add_maintenance_options(parser, _duration_ms, _positive)
    add_log_format(parser)
    parser.add_argument(
        "--logs", type=Path, metavar="DIR",
        help="write the logs of Spark and Java into this directory. Default: DATA/logs",
    )  # fmt: skip


def _add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about tasks, the cluster and files."""
    parser.add_argument(
        "--key-groups", type=_positive, default=64, metavar="N",
        help="create new stores with this many key groups. A store uses at most one task per key "
        "group. To change an existing store, use oriel rescale. Default: 64",
    )  # fmt: skip
    parser.add_argument(
        "--cores", type=_positive, metavar="N",
        help="use this many cores. Default: all cores of the machine or of the cluster",
    )  # fmt: skip
    parser.add_argument(
        "--master", metavar="ADDRESS",
        help="run on this Spark cluster, for example spark://HOST:7077, yarn or k8s://https://HOST "
        "(docs/how-to/cluster.md). Default: this machine",
    )  # fmt: skip
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="KEY=VALUE",
        help="set an option of Spark, for example spark.driver.memory=4g. It overrides Oriel's "
        "value, except that lists of jars and Java options are appended. Can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--no-sync", action="store_true",
        help="do not force files to disk before a commit. This is faster, but loses data on power "
        "loss",
    )  # fmt: skip


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
        message = f"{text!r} is not a Spark option like spark.executor.memory=4g"
        raise argparse.ArgumentTypeError(message)
    return name, value
