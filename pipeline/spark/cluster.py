"""A cluster instead of this machine: the masters that are clusters, and their settings of Spark.

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

#: Stopping a query while its Python worker runs can overflow the stack inside an error-matching
#: regular expression of Spark.
STACK_OPTION = "-Xss16m"

#: Seconds for which a master that does not listen is tried: it can be about to start.
_TRY_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_CONNECT_PAUSE_SECONDS = 0.25
#: Spark's standalone masters, of which one is active.
_STANDALONE = "spark://"

_LOCAL_MASTER = re.compile(r"local(\[[^\]]*\])?")
_PYTHON = "spark.pyspark.python"
#: Spark's own, and the names of AWS.
_SECRETS = "(?i)secret|password|token|access[._]?key|AWS_"

#: Settings that are lists, and what stands between their elements.
_SEPARATORS = {
    "spark.jars": ",",
    "spark.jars.packages": ",",
    "spark.jars.excludes": ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
}


def is_cluster(master: str | None) -> bool:
    """Whether a master (None: this machine) runs tasks in other processes than the driver's."""
    return master is not None and _LOCAL_MASTER.fullmatch(master) is None


def refuse_unreachable(master: str) -> None:
    """Check, before Java starts, that a standalone master of a cluster listens.

    Spark gives up after 60 s, with an error that names neither the master nor the reason.

    Raises:
        ClusterUnavailable: no master listens.
    """
    places = [place.rpartition(":") for place in master.removeprefix(_STANDALONE).split(",")]
    if not master.startswith(_STANDALONE) or not all(port.isdecimal() for _, _, port in places):
        return
    until = time.monotonic() + _TRY_SECONDS
    while True:
        reasons = []
        for host, _, port in places:
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
    """Spark settings of a cluster alone; ``cores``: how many of its cores to use, None: all."""
    return {
        "spark.executor.extraJavaOptions": STACK_OPTION,
        # Spark's standalone master would give an application each core that is free. Other
        # masters go by the number of executors and their cores.
        **({"spark.cores.max": str(cores)} if cores else {}),
    }


def object_settings() -> dict[str, str]:
    """Spark settings with which tasks reach objects as this process does, and share its copies.

    As Spark does it for its own file system of S3: what the environment says goes to the executors.
    Its user interface and its logs hide the values of secrets by the names of settings.
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
    """The Python of the workers: what the user says in one of Spark's ways, or this one's path."""
    return conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable


def with_conf(settings: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Settings with others, ``conf``, that override them; lists of them become longer instead."""
    lists = {
        name: separator.join([settings[name], conf[name]])
        for name, separator in _SEPARATORS.items()
        if name in settings and name in conf
    }
    return {**settings, **conf, **lists}


def tasks_at_a_time(spark: SparkSession) -> int:
    """How many tasks the session runs at a time: the cores of all executors that it has.

    On a cluster it waits for them as any job does: for the first one, or for as many as Spark's
    settings of minimal resources demand.
    """
    if is_cluster(spark.sparkContext.master):
        spark.range(0, 1, 1, 1).collect()
    return int(spark.sparkContext.defaultParallelism)
