"""The diffs on the pages fit the code, and the added operator runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.project import ROOT, files

_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEW_TEST = re.compile(r"^--- /dev/null\n\+\+\+ b/(tests/.*)$", re.MULTILINE)


def test_each_diff_applies() -> None:
    """Each diff on a page fits the code as it is now."""
    diffs = [
        diff
        for page in files()
        if page.suffix == ".md"
        for diff in _DIFF.findall(page.read_text(encoding="utf-8"))
    ]
    assert diffs
    for diff in diffs:
        _apply(diff, "--check", project=ROOT)


@pytest.mark.slow
def test_the_added_operator_runs(tmp_path: Path) -> None:
    """In a copy of the project with the added operator, its test and the check of layers pass."""
    page = (ROOT / "docs/contributing/extensions.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Add an operator\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    (diff,) = _DIFF.findall(section)
    project = tmp_path / "project"
    for file in files():
        target = project / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for link in (ROOT / "src/oriel").iterdir():
        if link.is_symlink():
            (project / "src/oriel" / link.name).symlink_to(link.readlink())
    _apply(diff, project=project)
    (test,) = _NEW_TEST.findall(diff)
    tools = Path(sys.executable).parent
    for command in (
        [sys.executable, "-P", "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", test],
        [str(tools / "lint-imports"), "--no-cache", "--no-logo"],
    ):
        done = subprocess.run(
            command, cwd=project, env=os.environ | {"PYTHONPATH": "src:."},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def _apply(diff: str, *options: str, project: Path) -> None:
    done = subprocess.run(
        ["git", "apply", *options, "-"], input=diff, cwd=project, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, f"show the change as it would be today:\n{done.stderr}"
