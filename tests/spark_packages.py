"""Downloads of Spark packages through Ivy for tests, by one process at a time.

Two processes that fill an empty cache at the same time can corrupt each other's files. When the
packages are in the cache, each session finds them and does not wait.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import orjson

from oriel.pipeline.sources import kafka_settings
from oriel.pipeline.spark import build_session
from oriel.pipeline.spark.packages import with_resolved_packages
from tests.locks import only_one

#: Lets Spark read the project's tables in tests. The product does not need it.
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: The settings of a session that reads and writes Delta tables.
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta's own default of 50 tasks for reading a small log only costs time.
    "spark.databricks.delta.snapshotPartitions": "1",
    # This many tasks list directories for VACUUM, which has few. Spark's default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
_IVY = Path.home() / ".ivy2.5.2"


def fetch(settings: Mapping[str, str]) -> None:
    """Download the settings' packages into Ivy's cache."""
    with only_one("ivy"):
        if "spark.jars.packages" in with_resolved_packages(
            {"spark.jars.ivy": str(_IVY), **settings}
        ):
            # In a separate process, because a session has its packages from its first start.
            command = [sys.executable, "-P", "-m", "tests.spark_packages"]
            subprocess.run([*command, orjson.dumps(settings).decode()], check=True)


def fetch_connector() -> None:
    """Download Kafka's connector into Ivy's cache."""
    with only_one("ivy"):
        settings = kafka_settings()
    fetch(settings)


if __name__ == "__main__":
    build_session("fetch", cores=1, extra=orjson.loads(sys.argv[1])).stop()
