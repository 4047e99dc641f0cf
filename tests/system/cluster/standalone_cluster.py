"""A Spark cluster on loopback: one master and workers that know of each other by address only.

A worker has a folder and a Python environment of its own: the packages that tasks need are there,
``oriel`` is not. It gets no variable of this process that could lead to it.
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
    """A worker of one core; its executors are in its process group."""

    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / "env" / "bin" / "python3"

    @property
    def was_killed(self) -> bool:
        """Whether it is gone by ``kill``."""
        return self.process.returncode == -signal.SIGKILL

    def kill(self) -> None:
        """End it and its executors at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class StandaloneCluster:
    """A running cluster: its address, and its workers."""

    folder: Path
    master: str
    workers: list[Worker]

    def two_workers(self) -> list[Worker]:
        """Two workers that run: those that are there, and as many more as it takes."""
        while len(running := [each for each in self.workers if each.process.poll() is None]) < 2:
            self.start_worker()
        return running

    def start_worker(self) -> None:
        """Start one more worker, and wait until the master knows it."""
        folder = self.folder / f"worker-{len(self.workers)}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", f"{folder}/work", self.master]
        worker = Worker(folder, _start(folder, _WORKER, options))
        self.workers.append(worker)
        _waited_for(folder / "log", r"(Successfully registered)", worker.process)

    def run_options(self) -> list[str]:
        """What `oriel run` is told to run there, all over loopback."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "768m",
            # Of as many workers as there are cores each has a part.
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.executor.extraJavaOptions": java.options(),
            # A name that each machine looks up for itself.
            "spark.pyspark.python": "python3",
        }
        options = [f"--conf={name}={value}" for name, value in conf.items()]
        return ["--master", self.master, *options]


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Start a master and workers below ``folder``, and end them with the block."""
    process = _start(folder / "master", _MASTER, [])
    started: list[Worker] = []
    try:
        log = folder / "master" / "log"
        address = _waited_for(log, r"Starting Spark master at (spark://\S+)", process)
        cluster = StandaloneCluster(folder, address, started)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for each in (process, *(worker.process for worker in started)):
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


def _start(folder: Path, name: str, options: list[str]) -> "subprocess.Popen[bytes]":
    """Start one of Spark's processes, as of a machine that has nothing but ``folder``."""
    (folder / "tmp").mkdir(parents=True)
    _make_environment(folder / "env")
    java_home = os.environ.get("JAVA_HOME") or str(
        Path(shutil.which("java") or "").resolve().parents[1]
    )
    environment = {
        "PATH": os.pathsep.join([f"{folder}/env/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "JAVA_HOME": java_home,
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        "SPARK_DAEMON_JAVA_OPTS": java.options(),
        "TMPDIR": str(folder / "tmp"),
    }
    command = [str(_SPARK_HOME / "bin" / "spark-class"), name]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *options]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def _make_environment(folder: Path) -> None:
    """A Python environment with the packages of this one; a checkout's paths are not in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text("\n".join(site.getsitepackages()))


def _waited_for(log: Path, pattern: str, process: "subprocess.Popen[bytes]") -> str:
    """What ``pattern`` finds in a log, as soon as it is there."""
    text = wait_until(
        log.read_text, repr(pattern), lambda text: re.search(pattern, text), process=process
    )
    found = re.search(pattern, text)
    assert found
    return found[1]
