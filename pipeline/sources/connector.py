"""Spark's Kafka connector, which Spark downloads through Ivy.

Some copies of the public repository lack its dependency ``spark-token-provider-kafka`` in versions
above 4.0.0. This dependency only renews delegation tokens. So it is excluded, and version 4.0.0,
which is tested with this Spark, is added to the class path (docs/decisions/0008).
"""

import os
import subprocess
import sys
from pathlib import Path

from oriel.pipeline.errors import ConnectorUnavailable
from oriel.pipeline.spark import build_session
from oriel.storage import log_line, say

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
_TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"  # noqa: S105 - a name
_TOKEN_PROVIDER_VERSION = "4.0.0"  # noqa: S105


def kafka_settings() -> dict[str, str]:
    """Return the settings with which Spark adds the Kafka connector to the class path.

    Raises:
        ConnectorUnavailable: The token provider cannot be downloaded.
    """
    # Spark's cache, see build_session.
    jars = Path.home() / ".ivy2.5.2" / "jars"
    group, artifact = _TOKEN_PROVIDER.split(":")
    token_provider = jars / f"{group}_{artifact}-{_TOKEN_PROVIDER_VERSION}.jar"
    if not token_provider.is_file():
        phase = "downloading a part of the Kafka connector"
        say("starting", log_line("starting Spark", phase=phase))
        # In a separate Spark process, because a running JVM keeps its packages.
        subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", __spec__.name],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ,
        )
    if not token_provider.is_file():
        message = (
            f"Spark's Kafka connector could not be fetched ({token_provider.name}): check that "
            "this machine reaches a Maven repository, or copy the file into the Ivy cache by hand"
        )
        raise ConnectorUnavailable(message)
    return {
        "spark.jars.packages": _CONNECTOR,
        "spark.jars.excludes": _TOKEN_PROVIDER,
        "spark.jars": str(token_provider),
    }


if __name__ == "__main__":
    build_session(
        "fetch",
        cores=1,
        packages=[f"{_TOKEN_PROVIDER}:{_TOKEN_PROVIDER_VERSION}"],
        # These packages have 60 MB, and Spark and the connector contain later versions.
        extra={"spark.jars.excludes": "org.apache.hadoop:*,org.apache.kafka:*"},
    ).stop()
