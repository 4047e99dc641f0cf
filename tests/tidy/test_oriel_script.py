"""The oriel script on machines with missing programs, with a Python that records its calls."""

import os
import pty
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.waiting import wait_until
from tests.tidy.project import ROOT

_TOOLS = ("awk", "bash", "chmod", "cat", "cmp", "cp", "cut", "dirname", "du", "env", "flock",
          "grep", "id", "mkdir", "readlink", "rm", "sleep", "tail", "touch")  # fmt: skip

_FAKE_PYTHON = """#!/usr/bin/env bash
[[ $1 == -c ]] && exit 0
[[ $1 == --version ]] && { echo "Python 3.11"; exit 0; }
echo "$*" >>"$NOTES"
[[ $1 == -P ]] && echo "JAVA_HOME=${JAVA_HOME:-}" >>"$NOTES"
if [[ $2 == venv ]]; then
    mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
fi
[[ "$*" == *"--require-hashes"* ]] || exit 0
echo "Collecting pyspark==4.2.0 (from -r $*)"
[[ -z ${PIP_WAITS:-} ]] || while [[ ! -e $PIP_WAITS ]]; do sleep 0.1; done
[[ "$*" != *"${PIP_FAILS:-never}" ]] || { echo "ERROR: no space left on device"; exit 1; }
"""

_BUILD = "requirements-build.lock"
_RUNTIME = "requirements-runtime.lock"
_DEVELOPMENT = "requirements.lock"


class Checkout:
    """A copy of the script and its locks in a directory with a space, and a PATH of few tools."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "my project"
        self.bin = directory / "bin"
        self.notes = directory / "notes"
        for made in (self.root, self.bin):
            made.mkdir()
        shutil.copy(ROOT / "oriel", self.root)
        for name in (_BUILD, _RUNTIME, _DEVELOPMENT):
            (self.root / name).write_text(f"{name}\n")
        for tool in _TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)

    def add_python(self) -> None:
        """Add a Python that records its calls."""
        python = self.bin / "python3.11"
        python.write_text(_FAKE_PYTHON)
        python.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run the script from another directory."""
        return subprocess.run(
            [self.root / "oriel", *arguments],
            cwd="/",
            env=self._environment(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(
        self, *arguments: str, stderr: int = subprocess.DEVNULL, **environment: str
    ) -> "subprocess.Popen[bytes]":
        """Start the script from another directory."""
        return subprocess.Popen(
            [self.root / "oriel", *arguments], cwd="/", env=self._environment(environment),
            stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {"PATH": str(self.bin), "NOTES": str(self.notes), **more}

    def calls(self) -> list[str]:
        """Return the calls of Python since the last call of this method."""
        found = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [call.replace(str(self.root), "ROOT") for call in found]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a copy of the script without Python."""
    return Checkout(tmp_path)


_VENV = "-m venv --clear ROOT/.venv"
_SERVE = "-P -m oriel serve --data my data"


def test_the_documentation_is_built_with_the_tools_of_the_checkout(checkout: Checkout) -> None:
    """`oriel docs` runs the tool with its arguments."""
    checkout.add_python()
    assert checkout.run("docs", "--build", "my site").returncode == 0
    assert "-P -m tools.site --build my site" in checkout.calls()


def test_without_python_it_says_what_to_do(checkout: Checkout) -> None:
    """If Python is missing and cannot be installed, the message names the package."""
    ended = checkout.run("serve", "--data", "x")
    assert ended.returncode == 1
    assert "Python 3.11 or newer is not installed" in ended.stderr
    assert "apt-get install python3" in ended.stderr


def _installed(calls: list[str]) -> list[str]:
    """Return the lock files that pip installed, in order."""
    return [call.rsplit("/", 1)[1] for call in calls if " install " in call]


def test_the_first_use_installs_and_the_second_does_not(checkout: Checkout) -> None:
    """A command installs the runtime from hashed locks once, and receives its arguments."""
    checkout.add_python()
    assert checkout.run("serve", "--data", "my data").returncode == 0
    first = checkout.calls()
    assert first[0] == _VENV
    assert _installed(first) == [_BUILD, _RUNTIME]
    assert [call for call in first if " install " in call and "--require-hashes" not in call] == []
    assert _SERVE in first
    assert checkout.run("serve", "--data", "my data").returncode == 0
    assert checkout.calls() == [_SERVE, "JAVA_HOME="]


@pytest.mark.parametrize("command", ["test", "bench", "docs", "lock"])
def test_only_commands_for_development_add_its_packages(checkout: Checkout, command: str) -> None:
    """Commands of the product install the runtime. Tests and tools add their packages once."""
    checkout.add_python()
    (checkout.root / "benchmarks").mkdir()
    (checkout.root / "benchmarks" / "x.py").touch()
    arguments = {"test": ["unit"], "bench": ["x"]}.get(command, [])
    checkout.run("status")
    assert _installed(checkout.calls()) == [_BUILD, _RUNTIME]
    checkout.run(command, *arguments)
    assert _installed(checkout.calls()) == [_BUILD, _DEVELOPMENT]
    for again in ([command, *arguments], ["status"]):
        checkout.run(*again)
        assert _installed(checkout.calls()) == []


@pytest.mark.parametrize(
    ("lock", "by_status", "by_docs"),
    [
        (_BUILD, [_BUILD, _RUNTIME], [_BUILD, _DEVELOPMENT]),
        (_RUNTIME, [_BUILD, _RUNTIME], []),
        (_DEVELOPMENT, [], [_BUILD, _DEVELOPMENT]),
    ],
)
def test_a_changed_lock_is_installed(
    checkout: Checkout, lock: str, by_status: list[str], by_docs: list[str]
) -> None:
    """A command installs the locks that it needs if they changed, in the same environment."""
    checkout.add_python()
    checkout.run("docs")
    checkout.calls()
    (checkout.root / lock).write_text("another\n")
    for command, expected in (("status", by_status), ("docs", by_docs)):
        checkout.run(command)
        calls = checkout.calls()
        assert _installed(calls) == expected
        assert _VENV not in calls


@pytest.mark.parametrize("lock", [_BUILD, _RUNTIME, _DEVELOPMENT])
def test_an_interrupted_install_starts_again(checkout: Checkout, lock: str) -> None:
    """After a failed install, the next command starts from an empty environment."""
    checkout.add_python()
    failed = checkout.run("docs", PIP_FAILS=lock)
    assert failed.returncode == 1
    assert "ERROR: no space left on device" in failed.stderr
    assert "cannot be installed" in failed.stderr
    assert "-P -m tools.site" not in checkout.calls()
    assert checkout.run("docs").returncode == 0
    calls = checkout.calls()
    assert calls[0] == _VENV
    assert _installed(calls) == [_BUILD, _RUNTIME, _BUILD, _DEVELOPMENT]


def test_files_that_no_command_opens_are_deleted(checkout: Checkout) -> None:
    """After the packages are installed, the Spark libraries that Oriel never loads are deleted."""
    checkout.add_python()
    packages = checkout.root / ".venv" / "lib" / "python3.11" / "site-packages"
    unused, used = (
        packages / "pyspark" / "jars" / name for name in ("rocksdbjni-9.8.4.jar", "spark-core.jar")
    )
    unused.parent.mkdir(parents=True)
    for jar in (unused, used):
        jar.touch()
    checkout.run("serve")
    assert [jar.exists() for jar in (unused, used)] == [False, True]


def test_an_install_without_a_terminal_writes_two_lines(checkout: Checkout) -> None:
    """The output is start and end with seconds and size, and pip's output is in the log."""
    checkout.add_python()
    lines = checkout.run("serve").stderr.splitlines()
    assert lines[1] == f"oriel: installing the packages of {_RUNTIME}"
    assert re.fullmatch(
        rf"oriel: installed the packages of {_RUNTIME} in \d+ s: \.venv has \d+ MB", lines[2]
    )
    assert len(lines) == 3
    assert "Collecting pyspark" in (checkout.root / ".oriel" / "install.log").read_text()


def test_an_install_in_a_terminal_rewrites_one_line(checkout: Checkout) -> None:
    """The line has the current package of pip, and the result replaces it."""
    checkout.add_python()
    for lock in (_BUILD, _RUNTIME):
        (checkout.root / lock).write_text("pyspark==4.2.0\n")
    go_on = checkout.root / "go-on"
    terminal, end = pty.openpty()
    with checkout.start("serve", stderr=end, PIP_WAITS=str(go_on)) as process, os.fdopen(
        terminal, "rb", buffering=0
    ) as screen:  # fmt: skip
        os.close(end)
        shown = b""
        while b"installing packages: 1 of 2 (pyspark), " not in shown:
            shown += screen.read(1000)
        go_on.touch()
        with suppress(OSError):  # The end of a terminal.
            while more := screen.read(1000):
                shown += more
        assert process.wait() == 0
    assert b"\r\x1b[Koriel: installed the packages" in shown


def test_a_second_command_waits_for_the_install_of_the_first(checkout: Checkout) -> None:
    """Two commands that start together install once, and both run."""
    checkout.add_python()
    go_on = checkout.root / "go-on"
    with checkout.start("serve", PIP_WAITS=str(go_on)) as first:
        wait_until(lambda: _BUILD in checkout.notes.read_text(), "pip of the first command",
                   passing=(FileNotFoundError,))  # fmt: skip
        with checkout.start("status", stderr=subprocess.PIPE) as second:
            assert second.stderr is not None
            line = second.stderr.readline()
            assert b"waiting for another command that installs packages" in line
            go_on.touch()
            assert (first.wait(), second.wait()) == (0, 0)
    assert _installed(checkout.calls()) == [_BUILD, _RUNTIME]


def test_a_moved_directory_has_a_new_environment(checkout: Checkout) -> None:
    """An environment has the path of its directory, so its packages are checked after a move."""
    checkout.add_python()
    checkout.run("serve")
    checkout.calls()
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    checkout.run("serve")
    calls = checkout.calls()
    assert [call for call in calls if " install " in call], calls


@pytest.mark.parametrize(
    ("version", "is_used"), [("17.0.9", True), ("21", True), ("25.0.1", False)]
)
def test_only_a_java_that_spark_knows_is_used(
    checkout: Checkout, version: str, is_used: bool
) -> None:
    """JAVA_HOME is used if its version is 17 or 21. Otherwise, the search continues."""
    checkout.add_python()
    java = checkout.root / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/usr/bin/env bash\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    checkout.run("run", "topology.py", JAVA_HOME=str(checkout.root / "jdk"))
    assert ("JAVA_HOME=ROOT/jdk" in checkout.calls()) == is_used


def test_serving_needs_no_java(checkout: Checkout) -> None:
    """The service starts without a search for Java."""
    checkout.add_python()
    checkout.run("serve", JAVA_HOME="none")
    assert "JAVA_HOME=none" in checkout.calls()
