"""The oriel script on machines that lack something, with a Python that only takes notes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tidy.project import ROOT

_TOOLS = ("bash", "env", "cat", "cmp", "dirname", "readlink", "id", "mkdir", "touch", "rm", "grep",
          "chmod", "cp", "flock")  # fmt: skip

_FAKE_PYTHON = """#!/usr/bin/env bash
[[ $1 == -c ]] && exit 0
[[ $1 == --version ]] && { echo "Python 3.11"; exit 0; }
echo "$*" >>"$NOTES"
[[ $1 == -P ]] && echo "JAVA_HOME=${JAVA_HOME:-}" >>"$NOTES"
if [[ $2 == venv ]]; then
    mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
fi
[[ "$*" == *"--require-hashes"* && -n ${PIP_FAILS:-} ]] && exit 1
exit 0
"""


class House:
    """A copy of the script and its locks in a folder with a space, and a PATH of a few tools."""

    def __init__(self, folder: Path) -> None:
        """Make the copy."""
        self.root = folder / "my project"
        self.bin = folder / "bin"
        self.notes = folder / "notes"
        for made in (self.root, self.bin):
            made.mkdir()
        shutil.copy(ROOT / "oriel", self.root)
        for name in ("requirements-build.lock", "requirements.lock"):
            (self.root / name).write_text(f"{name}\n")
        for tool in _TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)

    def add_python(self) -> None:
        """Put a Python there that writes down how it is called."""
        python = self.bin / "python3.11"
        python.write_text(_FAKE_PYTHON)
        python.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run the script from another folder."""
        return subprocess.run(
            [self.root / "oriel", *arguments],
            cwd="/",
            env={"PATH": str(self.bin), "NOTES": str(self.notes), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self) -> list[str]:
        """Return how Python was called since the last look."""
        found = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [call.replace(str(self.root), "ROOT") for call in found]


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A house without Python."""
    return House(tmp_path)


_VENV = "-m venv --clear ROOT/.venv"
_SERVE = "-P -m oriel serve --data my data"


def test_the_documentation_is_built_by_what_is_beside_the_package(house: House) -> None:
    """`oriel docs` becomes the tool, with its arguments."""
    house.add_python()
    assert house.run("docs", "--build", "my site").returncode == 0
    assert "-P -m tools.site --build my site" in house.calls()


def test_without_python_it_says_what_to_do(house: House) -> None:
    """Where there is no Python and none may be installed, the message names the package."""
    told = house.run("serve", "--data", "x")
    assert told.returncode == 1
    assert "Python 3.11 or newer is needed" in told.stderr
    assert "apt-get install python3" in told.stderr


def test_the_first_use_installs_and_the_second_does_not(house: House) -> None:
    """The environment is made once, from the hashed locks, and the command gets its arguments."""
    house.add_python()
    assert house.run("serve", "--data", "my data").returncode == 0
    first = house.calls()
    assert first[0] == _VENV
    installs = [call for call in first if " install " in call]
    assert [call.rsplit(" ", 1)[1] for call in installs] == [
        "ROOT/requirements-build.lock",
        "ROOT/requirements.lock",
    ]
    assert [call for call in installs if "--require-hashes" not in call] == []
    assert _SERVE in first
    assert house.run("serve", "--data", "my data").returncode == 0
    assert house.calls() == [_SERVE, "JAVA_HOME="]


def test_a_changed_lock_is_installed(house: House) -> None:
    """Packages follow the lock, without a new environment."""
    house.add_python()
    house.run("serve")
    house.calls()
    (house.root / "requirements.lock").write_text("another\n")
    house.run("serve")
    calls = house.calls()
    assert _VENV not in calls
    assert [call for call in calls if " install " in call], calls


def test_an_interrupted_install_is_done_anew(house: House) -> None:
    """After a failed install the next use starts from an empty environment."""
    house.add_python()
    failed = house.run("serve", PIP_FAILS="1")
    assert failed.returncode == 1
    assert "could not be installed" in failed.stderr
    assert "-P -m oriel" not in house.calls()
    assert house.run("serve").returncode == 0
    assert house.calls()[0] == _VENV


def test_a_moved_folder_gets_its_own_environment_anew(house: House) -> None:
    """An environment knows its folder; after a move its packages are checked again."""
    house.add_python()
    house.run("serve")
    house.calls()
    house.root = house.root.rename(house.root.with_name("moved"))
    house.run("serve")
    calls = house.calls()
    assert [call for call in calls if " install " in call], calls


@pytest.mark.parametrize(
    ("version", "is_used"), [("17.0.9", True), ("21", True), ("25.0.1", False)]
)
def test_only_a_java_that_spark_knows_is_used(house: House, version: str, is_used: bool) -> None:
    """JAVA_HOME is taken if it is 17 or 21; otherwise the search goes on."""
    house.add_python()
    java = house.root / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/usr/bin/env bash\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    house.run("run", "topology.py", JAVA_HOME=str(house.root / "jdk"))
    assert ("JAVA_HOME=ROOT/jdk" in house.calls()) == is_used


def test_serving_needs_no_java(house: House) -> None:
    """The service starts without a look for Java."""
    house.add_python()
    house.run("serve", JAVA_HOME="none")
    assert "JAVA_HOME=none" in house.calls()
