"""The benchmark of rolling restarts runs. The tests do not check the measured times."""

import json
import os
import shutil

import pytest

from benchmarks.restart.__main__ import LIMIT_MS, Run, exceeded, main


@pytest.mark.e2e
def test_a_rolling_restart_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Requests arrive at about the rate until both services have restarted, and none fails."""
    if shutil.which("nginx") is None:
        reason = "nginx not found (Debian: apt-get install nginx-light)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    code = main(["--rate", "20", "--runs", "1"])
    (run,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert run["failed"] == []
    assert run["requests"] >= 5 * run["seconds"]
    assert run["longest_ms"] >= run["p99_ms"] >= run["p50_ms"] > 0
    assert code == (run["p99_ms"] > LIMIT_MS)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(p99_ms=LIMIT_MS), []),
        (Run(p99_ms=201.0), ["run 2: the p99 is 201 ms, the limit is 200 ms"]),
        (Run(failed=["a: OSError()"]), ["run 2: a: OSError()"]),
    ],
)
def test_a_figure_above_its_limit_is_named(run: Run, expected: list[str]) -> None:
    """The benchmark prints each failure and each p99 above the limit, and exits with 1."""
    assert exceeded(2, run) == expected
