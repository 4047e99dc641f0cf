"""The command lines of ``oriel run`` and ``oriel rebuild``, as parsers of ``argparse``.

``oriel run`` reads its arguments before it imports pyspark, so that Java can start first.
"""

from oriel.pipeline.arguments.client import add_client_options
from oriel.pipeline.arguments.data import add_data_option
from oriel.pipeline.arguments.kafka import DEFAULT_RECORDS, ReaderName, Start, check_kafka_arguments
from oriel.pipeline.arguments.parsers import rebuild_parser, run_parser

__all__ = [
    "DEFAULT_RECORDS",
    "ReaderName",
    "Start",
    "add_client_options",
    "add_data_option",
    "check_kafka_arguments",
    "rebuild_parser",
    "run_parser",
]
