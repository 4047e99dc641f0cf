"""The long property tests: ``python -m tests.windows.campaign --kind session --cases 20000``."""

import argparse
import sys
import time
from collections.abc import Callable

from tests.windows import test_function_properties as folds
from tests.windows import test_session_properties as sessions
from tests.windows import test_sliding_properties as sliding
from tests.windows import test_table_properties as tables
from tests.windows import test_time_window_properties as time_windows
from tests.windows.random_logs import random_case

#: Kind -> function that checks the case of a seed and returns its rare branches, all branches.
KINDS: dict[str, tuple[Callable[[int], set[str]], set[str]]] = {
    "sliding": (lambda seed: sliding.check_case(random_case(seed)), sliding.ALL_MARKS),
    "time": (
        lambda seed: time_windows.check_case(time_windows.time_case(seed)),
        time_windows.ALL_MARKS,
    ),
    "session": (
        lambda seed: sessions.check_case(sessions.session_case(seed)),
        sessions.ALL_MARKS,
    ),
    "table": (lambda seed: tables.check_logs(tables.table_logs(seed), seed), tables.ALL_MARKS),
    "time-fold": (lambda seed: folds.check_any_kind(folds.time_case, seed), folds.WINDOW_MARKS),
    "session-fold": (
        lambda seed: folds.check_any_kind(folds.session_case, seed),
        folds.WINDOW_MARKS,
    ),
    "sliding-fold": (
        lambda seed: folds.check_any_kind(folds.sliding_case, seed),
        folds.WINDOW_MARKS,
    ),
    "table-fold": (lambda seed: folds.check_any_kind(folds.table_case, seed), folds.ALL_MARKS),
}


def main() -> int:
    """Check cases by seed. Stop at the first failure and print its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="sliding")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    check, all_marks = KINDS[options.kind]
    started = time.monotonic()
    reached: set[str] = set()
    for seed in range(options.seed, options.seed + options.cases):
        try:
            reached |= check(seed)
        except Exception as error:
            sys.stderr.write(f"{options.kind}, seed {seed} fails: {error}\n")
            raise
    missing = sorted(all_marks - reached)
    seconds = time.monotonic() - started
    last = options.seed + options.cases - 1
    sys.stdout.write(f"{options.kind}: seeds {options.seed} to {last} passed in {seconds:.0f} s, ")
    sys.stdout.write(f"rare branches not reached: {missing or 'none'}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
