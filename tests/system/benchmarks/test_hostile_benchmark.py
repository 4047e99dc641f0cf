"""The benchmark of hostile clients runs. The tests check the shape of its results."""

import json

import pytest

from benchmarks.hostile.__main__ import exceeded, main
from benchmarks.hostile.attacks import attacks


def test_every_attack_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The service responds to other clients during each attack of a few hostile clients."""
    main(["--clients", "3", "--keys", "20", "--versions", "3", "--seconds", "1.5"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["attacks"]
    assert list(found) == list(attacks(3, 20, 3))
    for one in found.values():
        assert (one["errors"], one["clients"] <= 3) == (0, True)
        assert one["p99_ms"] >= one["p50_ms"] > 0
        assert one["long_responses"] > 0
        assert one["grown_mb"] >= 0


@pytest.mark.parametrize(
    ("figure", "value", "expected"),
    [
        ("p99_ms", 101.0, "a: p99_ms is 101, the limit is 100"),
        ("health_p99_ms", 1_001.0, "a: health_p99_ms is 1001, the limit is 1000"),
        ("errors", 1, "a: errors is 1, the limit is 0"),
        ("grown_mb", 513, "a: grown_mb is 513, the limit is 512"),
        ("long_responses", 0, "a: no long response"),
    ],
)
def test_a_figure_above_its_limit_is_named(figure: str, value: float, expected: str) -> None:
    """The benchmark prints each figure that is above its limit, and then exits with 1."""
    good = {"p99_ms": 100, "health_p99_ms": 1_000, "errors": 0, "grown_mb": 512}
    figures = {**good, "long_responses": 1}
    assert exceeded("a", figures) == []
    assert exceeded("a", {**figures, figure: value}) == [expected]
