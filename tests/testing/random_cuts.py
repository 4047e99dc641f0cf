"""Random cuts of the logs of partitions into batches."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def random_cuts(
    logs: Sequence[Sequence[Item]],
    chance: random.Random,
    greatest: Callable[[], int] = lambda: 9,
) -> Iterator[tuple[int, list[Item]]]:
    """Yield partitions and their next records, at most ``greatest()``, until each log is read.

    Each partition first has a batch without records. A partition that begins later would begin at
    the stream time of the other one.
    """
    left = [list(log) for log in logs]
    for partition in range(len(left)):
        yield partition, []
    while any(left):
        for partition, log in enumerate(left):
            count = chance.randint(0, min(len(log), greatest()))
            yield partition, log[:count]
            del log[:count]
