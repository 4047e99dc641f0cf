"""The soak benchmark runs in its quick form. The test does not check the measured times."""

import json
import sys

import pytest

from benchmarks import soak

pytestmark = pytest.mark.e2e


def test_batch_after_batch_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples have all figures, and batches do not leave their state files or Spark files."""
    monkeypatch.setattr(sys, "argv", ["soak", "--quick"])
    soak.main()
    samples = json.loads(capsys.readouterr().out.splitlines()[-1])["samples"]
    assert [sample["batch"] for sample in samples] == list(range(3, 61, 3))
    zeros = {name for name, value in samples[-1].items() if value <= 0}
    assert zeros <= {"checkpoint_bytes"}
    # The samples are of 60 batches. If each batch left files, there would be several times as many.
    assert samples[-1]["state_files"] <= 30
    assert samples[-1]["spark_files"] <= 30
