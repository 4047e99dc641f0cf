"""Random reads of stores of every kind and key type, with tokens, against plain lists."""

import random
from pathlib import Path

import pytest

from oriel.app.reads import pages
from oriel.app.reads.ranked import read as ranked
from tests.app.selection_stores import selection_stores
from tests.campaigns import cases
from tests.storage.followed import check_in_this_process


@pytest.mark.parametrize("step", [1, 7, 256])
@cases(60, 4_000)
def test_reads_of_every_kind_equal_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, number: int
) -> None:
    """Reads with any bounds, selection and page have the items that the token grants access to."""
    monkeypatch.setattr(pages, "_FIRST_STEP", step)
    monkeypatch.setattr(pages, "_STEP", step)
    monkeypatch.setattr(ranked, "_STEP", step)
    with check_in_this_process(), selection_stores(tmp_path, random.Random(step)) as stores:
        for seed in range(step, step + number):
            stores.check_random_read(random.Random(seed))
            stores.check_promql(random.Random(seed))
