"""Settings that only a cluster needs. The tests need no cluster."""

import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from oriel.pipeline.errors import ClusterUnavailable
from oriel.pipeline.spark import build_session, cluster, is_cluster, session, with_conf
from oriel.pipeline.spark.cluster import check_master_listens, cluster_settings, worker_python
from oriel.pipeline.spark.python_files import send_package
from tests.ports import reserved_port


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_one_machine_is_no_cluster(master: str) -> None:
    """These masters run tasks in the driver's process."""
    assert not is_cluster(master)


@pytest.mark.parametrize(
    "master", ["spark://a:7077,b:7077", "yarn", "k8s://https://h:6443", "local-cluster[2,1,1024]"]
)
def test_a_master_with_executors_is_a_cluster(master: str) -> None:
    """These masters run tasks in processes that start without this process's environment."""
    assert is_cluster(master)


def test_a_master_that_does_not_listen_is_named_before_java_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error has each address with its reason, and what to check."""
    monkeypatch.setattr(cluster, "_TRY_SECONDS", 0.0)
    monkeypatch.setattr(session, "local_python", lambda _: pytest.fail("Java is prepared"))
    first, second = reserved_port(), reserved_port()
    master = f"spark://127.0.0.1:{first},localhost:{second}"
    with pytest.raises(ClusterUnavailable) as refused:
        build_session("app", extra={"spark.master": master})
    assert str(refused.value) == (
        f"no session on the cluster {master}: no connection to 127.0.0.1:{first} (Connection "
        f"refused), no connection to localhost:{second} (Connection refused). Check the host and "
        "port of --master, that the master runs there, and that this machine reaches it"
    )


def test_a_master_that_starts_or_that_one_cannot_connect_to_by_name_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One standalone master of several is enough. Spark itself judges other masters."""
    for master in ("yarn", "k8s://https://nowhere.invalid:6443", "spark://nowhere.invalid"):
        check_master_listens(master)
    port = reserved_port()
    listening: list[socket.socket] = []
    # The master begins to listen while the check waits for it.
    monkeypatch.setattr(
        time, "sleep", lambda _: listening.append(socket.create_server(("127.0.0.1", port)))
    )
    check_master_listens(f"spark://nowhere.invalid:7077,127.0.0.1:{port}")
    (listener,) = listening
    listener.close()


def test_conf_overrides_settings_and_adds_to_lists() -> None:
    """A user's jar or Java option is added to Oriel's own, which are also needed."""
    ours = {"spark.jars": "a.jar", "spark.driver.extraJavaOptions": "-Xss16m", "spark.x": "1"}
    conf = {"spark.jars": "b.jar", "spark.driver.extraJavaOptions": "-Da=b", "spark.x": "2"}
    assert with_conf(ours, {**conf, "spark.jars.packages": "g:a:1"}) == {
        "spark.jars": "a.jar,b.jar",
        "spark.driver.extraJavaOptions": "-Xss16m -Da=b",
        "spark.x": "2",
        "spark.jars.packages": "g:a:1",
    }


def test_cores_bound_what_a_standalone_master_gives() -> None:
    """Without a number of cores, the master assigns all cores."""
    assert cluster_settings(6)["spark.cores.max"] == "6"
    assert "spark.cores.max" not in cluster_settings(None)


def test_workers_run_the_python_that_the_user_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's setting names the Python, then Spark's variable, then the path of this Python."""
    monkeypatch.setenv("PYSPARK_PYTHON", "variable")
    assert worker_python({"spark.pyspark.python": "setting"}) == "setting"
    assert worker_python({}) == "variable"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert worker_python({}) == sys.executable


class Sent:
    """Replaces a session and its context, and keeps the paths that are sent."""

    def __init__(self) -> None:
        self.files: list[str] = []

    @property
    def sparkContext(self) -> "Sent":  # noqa: N802 - Spark's name
        """Return the context of the session."""
        return self

    def addPyFile(self, path: str) -> None:  # noqa: N802
        """Keep the path."""
        self.files.append(path)


@pytest.mark.slow
def test_tasks_run_from_the_package_that_is_sent(tmp_path: Path) -> None:
    """The zip has all modules that tasks import, and no module that only the service needs."""
    session = Sent()
    send_package(session)  # type: ignore[arg-type]
    (sent,) = session.files
    code = "import oriel.pipeline.tasks, oriel.pipeline.event_log; print(oriel.__file__)"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": sent},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == f"{sent}/oriel/__init__.py", ran.stderr
    with zipfile.ZipFile(sent) as archive:
        names = archive.namelist()
    assert [name for name in names if name.startswith(("oriel/app/", "oriel/demo/"))] == []
