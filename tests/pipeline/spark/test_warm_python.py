"""The Python that tests have Spark's processes forked off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_python import COMMAND

_CLIENT = Path(__file__).parents[2] / "warm_python_client.py"


@pytest.fixture
def client(warm_python: None) -> list[str]:
    """The client's command; without the warm Python it would fail to start one that isn't there."""
    assert warm_python is None
    address = Path(os.environ[COMMAND]).with_name("socket")
    return [sys.executable, "-I", "-S", str(_CLIENT), str(address), "/no/such/python"]


@pytest.mark.slow
def test_it_has_the_files_the_folder_and_the_environment_of_its_client(
    client: list[str], tmp_path: Path
) -> None:
    """As a process that Spark starts."""
    program = "print(os.getcwd(), os.environ['ASKED'], input())"
    command = [*client, "-m", "timeit", "-n1", "-r1", "-s", "import os", program]
    environment = {**os.environ, "ASKED": "by a test = this"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, input="a line\n", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.startswith(f"{tmp_path} by a test = this a line\n"), done.stderr


def test_without_it_a_python_is_started(client: list[str], tmp_path: Path) -> None:
    """As when its process was killed."""
    *start, _, _ = client
    command = [*start, str(tmp_path / "no socket"), sys.executable, "-m", "json.tool"]
    done = subprocess.run(command, input="[1]", capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["[", "1", "]"], done.stderr
