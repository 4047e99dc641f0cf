"""The long property test: ``python -m tests.windows.campaign --cases 20000 --seed 0``."""

import argparse
import sys
import time

from tests.windows.random_logs import random_case
from tests.windows.test_sliding_properties import ALL_MARKS, check_case


def main() -> int:
    """Check cases by seed; stop at the first that fails and print its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    reached: set[str] = set()
    for seed in range(options.seed, options.seed + options.cases):
        try:
            reached |= check_case(random_case(seed))
        except AssertionError as error:
            sys.stderr.write(f"seed {seed} fails: {error}\n{random_case(seed)}\n")
            return 1
    missing = sorted(ALL_MARKS - reached)
    seconds = time.monotonic() - started
    last = options.seed + options.cases - 1
    sys.stdout.write(f"seeds {options.seed} to {last} passed in {seconds:.0f} s; ")
    sys.stdout.write(f"rare branches not reached: {missing or 'none'}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
