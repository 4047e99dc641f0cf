"""The commands that `oriel new` prints run the project that it creates."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote, split

import httpx
import pytest
import yaml
from compose_spec import PyCompose

from oriel.__main__ import main
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_until
from tests.tidy.project import ROOT

_SECONDS = 300


@pytest.fixture
def printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Create the project `shop` in an empty directory and return the output."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "shop"]) == 0
    return capsys.readouterr().out


def _commands(printed: str) -> list[str]:
    """Return the indented lines. This interpreter replaces the script of the clone."""
    lines = re.findall(r"^  (\S.*)$", printed, flags=re.MULTILINE)
    script, python = quote(str(ROOT / "oriel")), f"{quote(sys.executable)} -P -m"
    return [
        line.replace(f"{script} test", f"{python} pytest -p no:randomly").replace(
            script, f"{python} oriel"
        )
        for line in lines
    ]


def _run(command: str, directory: Path) -> str:
    """Run one line of a shell in the directory of the project and return the output."""
    ended = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=_environment(), capture_output=True, text=True,
        check=False, timeout=_SECONDS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src")}


@contextmanager
def _started(command: str, directory: Path) -> Iterator[None]:
    """Run a command during the block."""
    with subprocess.Popen(
        split(command), cwd=directory, env=_environment(), stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.e2e
def test_the_project_runs_by_the_commands_that_are_printed(printed: str, tmp_path: Path) -> None:
    """The test passes, the pipeline reads the sample log, and the service returns a window."""
    change, test, run, serve, curl = _commands(printed)
    assert change == "cd shop"
    directory = tmp_path / "shop"
    assert "2 passed" in _run(test, directory)
    assert '"applied":60' in _run(run, directory)
    port = reserved_port()
    url = curl.removeprefix("curl ").replace("localhost:8080", f"http://127.0.0.1:{port}")
    with _started(f"{serve} --port {port}", directory):
        response = wait_until(
            lambda: httpx.get(url, trust_env=False, timeout=WAIT_SECONDS), "windows",
            lambda found: found.status_code == httpx.codes.OK, passing=(httpx.TransportError,),
        )  # fmt: skip
    (window,) = response.json()["windows"]
    assert window["key"] == "berlin"
    assert window["revenue"] > 0


def test_an_existing_directory_is_not_changed(
    printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the directory exists, the command changes nothing."""
    assert printed
    topology = Path("shop/topology.py")
    topology.write_text("# mine\n")
    assert main(["new", "shop"]) == 1
    assert "already" in capsys.readouterr().err
    assert topology.read_text() == "# mine\n"


@pytest.mark.parametrize("name", ["", "Shop", "../shop", "a b", "-x", "x" * 64])
def test_a_name_that_is_invalid_for_containers_is_rejected(name: str) -> None:
    """The directory, the checkpoint and the compose project have this name."""
    with pytest.raises(SystemExit, match="2"):
        main(["new", "--", name])


def test_the_containers_use_the_files_of_the_project(printed: str) -> None:
    """The compose file mounts files of the project and uses its name."""
    assert printed
    text = Path("shop/docker-compose.yml").read_text()
    PyCompose.from_yaml(text).validate()
    compose = yaml.safe_load(text)
    # Compose uses the name of the directory, and its version 1 rejects a name in the file.
    assert "name" not in compose
    pipeline = compose["services"]["pipeline"]
    assert pipeline["command"][0] == "/opt/project/topology.py"
    assert "--name=shop" in pipeline["command"]
    mounted = [
        Path("shop", volume.split(":")[0])
        for service in compose["services"].values()
        for volume in service["volumes"]
        if volume.startswith(".")
    ]
    assert mounted
    assert [path for path in mounted if not path.exists()] == []
