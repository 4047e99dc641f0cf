"""The query benchmark runs in its smallest form. The test does not check the measured times."""

import json
import sys

import pytest

from benchmarks.query import main

pytestmark = pytest.mark.slow


def test_each_read_of_each_service_is_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each size, service and read has a result, and every response has status 200."""
    options = ["--windows", "3000", "2000", "--seconds", "0.1", "--turns", "1", "--commits", "3"]
    monkeypatch.setattr(sys, "argv", ["query", *options, "--port", "18780"])
    assert main() == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [*figures["reads"]["latest"]] == [
        "2,000 windows", "3,000 windows", "2,000, plain FastAPI",
    ]  # fmt: skip
    for loads in (*figures["reads"].values(), *figures["costs"].values()):
        for load in loads.values():
            assert load["requests"] > 0
            assert load["errors"] == 0
            assert load["processor_us"] > 0
    assert figures["costs"].keys() == figures["reads"].keys()
    visible = figures["commit_to_visible"]
    assert visible
    wrong = {name: one for name, one in visible.items() if not 0 < one["p50_ms"] <= one["p99_ms"]}
    assert wrong == {}
