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
from tests.app.selection_stores import SelectionStores, selection_stores
from tests.app.test_merged_reads import Model as Ranges
from tests.app.test_merged_reads import served_ranges
from tests.app.test_selected_reads import Model, check_random_read
from tests.storage.followed import check_in_this_process
from tests.storage.store_tables import TUMBLING

_SEEDS_OF_DATA = 500
#: The items of a store. With more items, the queries have more pages, and the campaign is slower.
_ITEMS = 60


def main() -> int:
    """Run the queries. Stop at the first difference, and print its seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, done, seed = time.monotonic(), 0, options.seed
    while done < options.queries:
        data = seed
        with (
            TemporaryDirectory() as name,
            served(Path(name), window=TUMBLING) as store,
            TemporaryDirectory() as ranges_name,
            served_ranges(Path(ranges_name), random.Random(data), _ITEMS) as ranges,
            TemporaryDirectory() as kinds_name,
            check_in_this_process(),
            selection_stores(Path(kinds_name), random.Random(data)) as kinds,
            pytest.MonkeyPatch.context() as patch,
        ):
            step = random.Random(data).choice((9, 256))
            patch.setattr(pages, "_FIRST_STEP", step)
            patch.setattr(pages, "_STEP", step)
            patch.setattr(ranked, "_STEP", step)
            model = Model(store, random.Random(data), _ITEMS)
            for seed in range(data, data + _SEEDS_OF_DATA):
                try:
                    done += _check(random.Random(seed), seed, model, ranges, kinds)
                except AssertionError:
                    sys.stderr.write(f"seed {seed} of the data {data} differs\n")
                    raise
        seed += 1
        sys.stderr.write(f"{done} queries without a difference, up to seed {seed}\n")
    seconds = time.monotonic() - began
    sys.stdout.write(f"{done} queries: 0 differences, {seconds:.0f} s\n")
    return 0


def _check(
    choice: random.Random, seed: int, model: Model, ranges: Ranges, kinds: SelectionStores
) -> int:
    """Compare the queries of a seed with lists, and return their number."""
    if seed % 4 == 0:
        # Each read of ranges is for one key, for listed keys and for all keys.
        ranges.check_random_read(choice)
        return 3
    if seed % 4 == 1:
        check_random_read(model, choice)
        return 1
    kinds.check_random_read(choice)
    kinds.check_promql(choice)
    return 2


if __name__ == "__main__":
    sys.exit(main())
