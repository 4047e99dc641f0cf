"""A Spark cluster on loopback: a master and workers that share only addresses.

A worker has its own directory and Python environment. The environment has the packages that tasks
need, without ``oriel``. A worker receives no variable of this process that could lead to ``oriel``.
"""

import os
import re
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests import java
from tests.storage.waiting import wait_until

_SPARK_HOME = Path(pyspark.__file__).parent

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True)
class Worker:
    """A worker with one core. Its executors are in its process group."""

    directory: Path
    process: "subprocess.Popen[bytes]"

    @property
    def python(self) -> Path:
        """Return its Python."""
        return self.directory / "env" / "bin" / "python3"

    @property
    def was_killed(self) -> bool:
        """Return whether ``kill`` ended it."""
        return self.process.returncode == -signal.SIGKILL

    def kill(self) -> None:
        """End it and its executors immediately, like a power cut."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class StandaloneCluster:
    """A running cluster: its directory, its address, and its workers."""

    directory: Path
    master: str
    workers: list[Worker]

    def two_workers(self) -> list[Worker]:
        """Return two running workers, and start as many as are missing."""
        while len(running := [each for each in self.workers if each.process.poll() is None]) < 2:
            self.start_worker()
        return running

    def start_worker(self) -> None:
        """Start one more worker, and wait until the master has registered it."""
        directory = self.directory / f"worker-{len(self.workers)}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", f"{directory}/work", self.master]
        worker = Worker(directory, _start(directory, _WORKER, options))
        self.workers.append(worker)
        _waited_for(directory / "log", r"(Successfully registered)", worker.process)

    def run_options(self) -> list[str]:
        """Return the options for `oriel run` on this cluster, with all connections on loopback."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "768m",
            # The run starts only when all cores are registered, so each worker has tasks.
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.executor.extraJavaOptions": java.options(),
            # Each machine resolves this name itself.
            "spark.pyspark.python": "python3",
        }
        options = [f"--conf={name}={value}" for name, value in conf.items()]
        return ["--master", self.master, *options]


@contextmanager
def running_cluster(directory: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Start a master and workers below ``directory``, and end them with the block."""
    process = _start(directory / "master", _MASTER, [])
    started: list[Worker] = []
    try:
        log = directory / "master" / "log"
        address = _waited_for(log, r"Starting Spark master at (spark://\S+)", process)
        cluster = StandaloneCluster(directory, address, started)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for each in (process, *(worker.process for worker in started)):
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


def _start(directory: Path, name: str, options: list[str]) -> "subprocess.Popen[bytes]":
    """Start one of Spark's processes, as on a machine that has only ``directory``."""
    (directory / "tmp").mkdir(parents=True)
    _make_environment(directory / "env")
    java_home = os.environ.get("JAVA_HOME") or str(
        Path(shutil.which("java") or "").resolve().parents[1]
    )
    environment = {
        "PATH": os.pathsep.join([f"{directory}/env/bin", "/usr/bin", "/bin"]),
        "HOME": str(directory),
        "JAVA_HOME": java_home,
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(directory / "tmp"),
        "SPARK_DAEMON_JAVA_OPTS": java.options(),
        "TMPDIR": str(directory / "tmp"),
    }
    command = [str(_SPARK_HOME / "bin" / "spark-class"), name]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *options]
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=directory, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def _make_environment(directory: Path) -> None:
    """Create a Python environment with the packages of this one, without a checkout's paths."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text("\n".join(site.getsitepackages()))


def _waited_for(log: Path, pattern: str, process: "subprocess.Popen[bytes]") -> str:
    """Return the first group of ``pattern`` in a log, and wait for it."""
    text = wait_until(
        log.read_text, repr(pattern), lambda text: re.search(pattern, text), process=process
    )
    found = re.search(pattern, text)
    assert found
    return found[1]
