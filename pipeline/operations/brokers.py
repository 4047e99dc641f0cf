"""A client of a Kafka cluster for the subcommands that do not run a pipeline."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from oriel.pipeline.errors import ReplayRejected
from oriel.pipeline.sources import JvmBrokers, kafka_settings
from oriel.pipeline.spark import LogFile, SparkStart


def brokers_for(command: str, servers: str, options: Mapping[str, str], logs: Path) -> JvmBrokers:
    """Return a client of a Kafka cluster, in a new JVM of ``oriel COMMAND``.

    Args:
        command: The name of the subcommand.
        servers: The bootstrap servers.
        options: The options of Kafka's client.
        logs: The directory for the log of the JVM.

    Raises:
        ReplayRejected: Java is not installed.
    """
    java = Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java"
    if not java.is_file() and shutil.which("java") is None:
        message = "Kafka's client needs Java 17 or 21. Install it, or set JAVA_HOME"
        raise ReplayRejected(message)
    log = LogFile(logs, command)
    start = SparkStart(cores=1, extra=kafka_settings(), is_short_run=True, log=log)
    spark = start.session(f"oriel {command}")
    return JvmBrokers(spark, servers, options)
