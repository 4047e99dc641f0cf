"""The soak works in its quick form; what it measures of time is not checked."""

import json
import sys

import pytest

from benchmarks import soak

pytestmark = pytest.mark.e2e


def test_batch_after_batch_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples with all figures; no batch leaves its files of state or of Spark for ever."""
    monkeypatch.setattr(sys, "argv", ["soak", "--quick"])
    soak.main()
    samples = json.loads(capsys.readouterr().out.splitlines()[-1])["samples"]
    assert [sample["batch"] for sample in samples] == list(range(3, 61, 3))
    zeros = {name for name, value in samples[-1].items() if value <= 0}
    assert zeros <= {"checkpoint_bytes"}
    # Of 60 batches; left by each, they would be several times as many.
    assert samples[-1]["state_files"] <= 30
    assert samples[-1]["spark_files"] <= 30
