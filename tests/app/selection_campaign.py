"""Random selections and merges against lists.

    python -m tests.app.selection_campaign --queries 100000

Each query has a random read, condition, order and page size, over HTTP in this process. One of four
queries merges windows. All pages of the response are compared with a plain list.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.app.api_client import served
from tests.app.test_merged_reads import served_ranges
from tests.app.test_selected_reads import Model, check_random_read
from tests.storage.store_tables import TUMBLING

_QUERIES_OF_DATA = 2_000


def main() -> int:
    """Run the queries. Stop at the first difference, and print its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, end = time.monotonic(), options.seed + options.queries
    for first in range(options.seed, end, _QUERIES_OF_DATA):
        with (
            TemporaryDirectory() as name,
            served(Path(name), window=TUMBLING) as store,
            TemporaryDirectory() as ranges_name,
            served_ranges(Path(ranges_name), random.Random(first)) as ranges,
        ):
            model = Model(store, random.Random(first))
            for seed in range(first, min(first + _QUERIES_OF_DATA, end)):
                try:
                    if seed % 4:
                        check_random_read(model, random.Random(seed))
                    else:
                        ranges.check_random_read(random.Random(seed))
                except AssertionError:
                    sys.stderr.write(f"seed {seed} of the data {first} differs\n")
                    raise
    seconds = time.monotonic() - began
    sys.stdout.write(f"{options.queries} queries: 0 differences, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
