"""Clusters: which masters are clusters, and the Spark settings for them.

The driver is the process of ``oriel run`` (Spark's client mode), and executors run its tasks on
other machines. docs/reference/cluster.md lists the requirements.
"""

import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from oriel.pipeline.errors import ClusterUnavailable
from oriel.storage import is_object
from oriel.storage.files import CACHE_RUN, CACHE_SETTINGS

#: The setting that names the cluster, or this machine.
MASTER = "spark.master"

#: If a query stops while its Python worker runs, a regular expression of Spark that matches errors
#: can overflow the stack.
STACK_OPTION = "-Xss16m"

#: For this many seconds, connections to a master are tried again, because it can be starting.
_TRY_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_CONNECT_PAUSE_SECONDS = 0.25
#: The prefix of the addresses of Spark's standalone masters. One master is active.
_STANDALONE = "spark://"

_LOCAL_MASTER = re.compile(r"local(\[[^\]]*\])?")
_PYTHON = "spark.pyspark.python"
#: Spark's own pattern, and the names of AWS.
_SECRETS = "(?i)secret|password|token|access[._]?key|AWS_"

#: Settings that are lists -> the separator of their elements.
_SEPARATORS = {
    "spark.jars": ",",
    "spark.jars.packages": ",",
    "spark.jars.excludes": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
}


def is_cluster(master: str | None) -> bool:
    """Return whether a master runs tasks outside of the driver's process. False for None."""
    return master is not None and _LOCAL_MASTER.fullmatch(master) is None


def check_master_listens(master: str) -> None:
    """Check, before Java starts, that a standalone master of a cluster listens.

    Spark needs 60 s to fail, and its error names neither the master nor the reason.

    Raises:
        ClusterUnavailable: No master listens.
    """
    addresses = [place.rpartition(":") for place in master.removeprefix(_STANDALONE).split(",")]
    if not master.startswith(_STANDALONE) or not all(port.isdecimal() for _, _, port in addresses):
        return
    until = time.monotonic() + _TRY_SECONDS
    while True:
        reasons = []
        for host, _, port in addresses:
            try:
                address = host.strip("[]"), int(port)
                socket.create_connection(address, _CONNECT_SECONDS).close()
            except (OSError, OverflowError) as error:
                reason = getattr(error, "strerror", None) or error
                reasons.append(f"no connection to {host}:{port} ({reason})")
            else:
                return
        if time.monotonic() >= until:
            break
        time.sleep(_CONNECT_PAUSE_SECONDS)
    message = (
        f"no session on the cluster {master}: {', '.join(reasons)}. Check the host and port of "
        "--master, that the master runs there, and that this machine reaches it"
    )
    raise ClusterUnavailable(message)


def cluster_settings(cores: int | None) -> dict[str, str]:
    """Return the Spark settings of a cluster, to use ``cores`` of its cores. None: all cores."""
    return {
        "spark.executor.extraJavaOptions": STACK_OPTION,
        # By default, Spark's standalone master assigns all free cores to an application. Other
        # masters use the number of executors and their cores.
        **({"spark.cores.max": str(cores)} if cores else {}),
    }


def object_settings() -> dict[str, str]:
    """Return the Spark settings with which tasks use the object store as this process does.

    Tasks on one machine share the local copies of objects. As Spark does for its own S3 file
    system, settings of the environment are sent to the executors. Spark's user interface and logs
    hide the values of secrets, which they recognize by the names of settings.
    """
    os.environ.setdefault(CACHE_RUN, uuid.uuid4().hex)
    names = (name for name in os.environ if name.startswith("AWS_") or name in CACHE_SETTINGS)
    return {
        "spark.redaction.regex": _SECRETS,
        **{f"spark.executorEnv.{name}": os.environ[name] for name in names},
    }


def session_conf(data: Path, master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings of a run: ``conf``, its master, and those of its data directory."""
    settings = {**conf, **({MASTER: master} if master else {})}
    return object_settings() | settings if is_object(data) else settings


def worker_python(conf: Mapping[str, str]) -> str:
    """Return the Python of the workers, from a setting of Spark, or the path of this Python."""
    return conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable


def with_conf(settings: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings with ``conf``, which overrides settings but extends lists."""
    lists = {
        name: separator.join([settings[name], conf[name]])
        for name, separator in _SEPARATORS.items()
        if name in settings and name in conf
    }
    return {**settings, **conf, **lists}


def tasks_at_a_time(spark: SparkSession) -> int:
    """Return the number of tasks that the session runs at a time: the cores of all executors.

    On a cluster, it waits for executors as any job does: for the first one, or for the number that
    Spark's settings of minimal resources require.
    """
    if is_cluster(spark.sparkContext.master):
        spark.range(0, 1, 1, 1).collect()
    return int(spark.sparkContext.defaultParallelism)
