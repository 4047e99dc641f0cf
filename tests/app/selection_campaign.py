"""Random selections and merges against lists.

    python -m tests.app.selection_campaign --queries 100000

Each query has a random read, condition, order and page size, over HTTP in this process. All pages
of the response are compared with a plain list. Two of four queries read stores of every kind and
key type with a random token (``selection_stores``), and one merges windows of every aggregate.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from oriel.app.reads import pages
from oriel.app.reads.ranked import read as ranked
from tests.app.api_client import served
from tests.app.selection_stores import selection_stores
from tests.app.test_merged_reads import served_ranges
from tests.app.test_selected_reads import Model, check_random_read
from tests.storage.followed import check_in_this_process
from tests.storage.store_tables import TUMBLING

_QUERIES_OF_DATA = 1_000


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
            TemporaryDirectory() as kinds_name,
            check_in_this_process(),
            selection_stores(Path(kinds_name), random.Random(first)) as kinds,
            pytest.MonkeyPatch.context() as patch,
        ):
            step = random.Random(first).choice((9, 256))
            patch.setattr(pages, "_FIRST_STEP", step)
            patch.setattr(pages, "_STEP", step)
            patch.setattr(ranked, "_STEP", step)
            model = Model(store, random.Random(first))
            for seed in range(first, min(first + _QUERIES_OF_DATA, end)):
                try:
                    if seed % 4 > 1:
                        kinds.check_random_read(random.Random(seed))
                        kinds.check_promql(random.Random(seed))
                    elif seed % 4:
                        check_random_read(model, random.Random(seed))
                    else:
                        ranges.check_random_read(random.Random(seed))
                except AssertionError:
                    sys.stderr.write(f"seed {seed} of the data {first} differs\n")
                    raise
            sys.stderr.write(f"no difference up to seed {seed}\n")
    seconds = time.monotonic() - began
    sys.stdout.write(f"{options.queries} queries: 0 differences, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
