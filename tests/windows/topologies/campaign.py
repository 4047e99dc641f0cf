"""Compare random topologies with Kafka Streams: rows are equal, or a rule has the difference.

A test calls ``checked`` for some topologies. To compare more, run
``python -P -m tests.windows.topologies.campaign --topologies 2000 --seed 1``. If a difference is
not in docs/reference/kafka-streams-differences.md, the command prints topology, log and seed, and
exits with code 1.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path

from oriel.testing import spark_session
from tests.windows.kafka_peer import KafkaPeer, running_peer
from tests.windows.topologies.comparison import compared
from tests.windows.topologies.random_trees import random_cases
from tests.windows.topologies.tree_facts import SOURCES, operations_of

#: Logs per topology. Parsing the expressions of a topology by Spark is the slowest step.
LOGS = 4
#: The campaign prints its progress after this many topologies.
_PROGRESS_EACH = 50


def checked(peer: KafkaPeer, seed: int, logs: int = LOGS) -> Counter[str]:
    """Compare the topology of a seed for some logs, and count the rules of their differences.

    Raises:
        AssertionError: No rule explains a difference.
    """
    found: Counter[str] = Counter()
    for case in random_cases(seed, logs):
        try:
            rule = compared(peer, case)
        except Exception as error:
            error.add_note(f"seed {seed}, log {case.number}: {json.dumps(case.tree)}")
            raise
        found["equal" if rule is None else f"{rule.name} ({rule.page})"] += 1
    return found


def differing(peer: KafkaPeer, seeds: Iterable[int], logs: int) -> int:
    """Compare the topologies of ``seeds``, and print the result. Return unexplained differences."""
    total: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    failed, started = 0, time.monotonic()
    for number, seed in enumerate(seeds, start=1):
        operations.update(dict.fromkeys(_operations(seed), logs))
        try:
            total += checked(peer, seed, logs)
        except AssertionError as error:
            failed += 1
            sys.stderr.write(f"{error}\n")
        if number % _PROGRESS_EACH == 0:
            seconds = time.monotonic() - started
            sys.stderr.write(f"{number} topologies, {failed} differ, {seconds:.0f} s\n")
    for what, number in total.most_common():
        sys.stdout.write(f"{number:8} {what}\n")
    for what, number in operations.most_common():
        sys.stdout.write(f"{number:8} logs with {what}\n")
    sys.stdout.write(f"{failed:8} topologies with an unexplained difference\n")
    return failed


def _operations(seed: int) -> set[str]:
    return set(operations_of(random_cases(seed, 1)[0].tree))


def _wanted(seeds: Iterable[int], having: str | None, most: int | None) -> Iterator[int]:
    """Yield seeds whose trees have the operation, and at most ``most`` operations."""
    for seed in seeds:
        operations = operations_of(random_cases(seed, 1)[0].tree)
        number = sum(operation not in SOURCES for operation in operations)
        if having in {None, *operations} and (most is None or number <= most):
            yield seed


def main() -> int:
    """Compare random topologies by seed. Return 1 after a difference that no rule explains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topologies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=int, default=LOGS, help="of each topology")
    parser.add_argument("--having", metavar="OPERATION", help="only topologies that have this one")
    parser.add_argument(
        "--most", type=int, help="only topologies with at most this many operations"
    )
    options = parser.parse_args()
    spark_session()
    with (
        tempfile.TemporaryDirectory(prefix="kafka-peer-") as directory,
        running_peer(Path(directory) / "kafka-peer") as peer,
    ):
        seeds = _wanted(count(options.seed), options.having, options.most)
        return bool(differing(peer, islice(seeds, options.topologies), options.logs))


if __name__ == "__main__":
    sys.exit(main())
