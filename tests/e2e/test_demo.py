"""`oriel demo --exit`, as a person starts it."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.e2e
def test_the_demo_checks_itself_and_leaves(tmp_path: Path) -> None:
    """All flights go through Spark, Delta and HTTP, and one airport's windows are as expected."""
    demo = subprocess.run(
        [str(ROOT / "oriel"), "demo", "--exit", "--folder", str(tmp_path / "my demo")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    summary = json.loads(demo.stdout.splitlines()[-1])
    assert summary["records"] == 336_776
    assert summary["checked"]["windows"] == 152_580
    assert summary["late"] == 4_149
    for store in summary["stores"].values():
        parts = ("applied", "late", "dead_lettered", "filtered")
        assert store["input"] == sum(store[part] for part in parts) == 336_776
