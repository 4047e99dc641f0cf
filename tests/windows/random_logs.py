"""Random logs that reach the rare branches: few keys, small times, disorder, several partitions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import pytest

from tests.models.sliding import Record

_VALUES = (None, 0.0, 1.0, -2.5, 0.1, 0.2, 1e16, -1e16, 3e-9, 7.25)


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed."""

    seed: int
    difference: int
    grace: int
    logs: dict[int, list[Record]]


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    random = Random(seed)
    partitions = random.choice((1, 1, 2, 3))
    logs = {p: _log(random) for p in range(partitions)}
    return Case(seed, random.choice((0, 1, 2, 3, 5, 10)), random.choice((0, 0, 1, 3, 8, 30)), logs)


def _log(random: Random) -> list[Record]:
    keys = ["a", "b", "ä/ \0"][: random.randint(1, 3)]
    drift = random.choice((0.0, 0.5, 2.0))
    spread = random.choice((2, 8, 25))
    start = random.choice((0, 0, 5, 40))
    log: list[Record] = []
    for i in range(random.choice((0, 1, 5, 15, 40))):
        time = max(0, round(start + drift * i + random.randint(-spread, spread)))
        if random.random() < 0.03:
            time += 60
        log.append((random.choice(keys), time, random.choice(_VALUES)))
    return log


def marks_reached(seeds: Iterable[int], check: Callable[[int], set[str]]) -> set[str]:
    """Return the rare branches that the cases of ``seeds`` reach. A failure names its seed."""
    reached: set[str] = set()
    for seed in seeds:
        try:
            reached |= check(seed)
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    return reached
