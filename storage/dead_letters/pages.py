"""Dead letters in pages and in numbers.

The order of letters is that of the batches that found them (``revision``), then topic, partition,
offset, store and reason; newest first is exactly the other way round. Letters of one record that
are equal in all of these (a function that raised in several windows) were committed together, so
their number among each other is settled: a page goes on behind so many of them.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.dead_letters.replays import Replays
from oriel.storage.dead_letters.table import (
    Selection,
    damage_told,
    has_letters,
    letters_of,
    open_letters,
)
from oriel.storage.delta import DEAD_LETTER_SCHEMA
from oriel.storage.table_store import ReadBudget, is_behind

_BATCH_ROWS = 1 << 16
_REVISION_MAX = 2**63 - 1


class LetterPlace(NamedTuple):
    """A place in the order: behind the first ``number`` letters that are equal in the others.

    ``store`` is "" where the letter names none.
    """

    revision: int
    topic: str
    partition: int
    offset: int
    store: str
    reason: str
    number: int


_ORDER = pa.schema([
    pa.field(name, pa.string() if pa.types.is_string(DEAD_LETTER_SCHEMA.field(name).type) else
             pa.int64())
    for name in LetterPlace._fields[:-1]
])  # fmt: skip


class LetterRange(NamedTuple):
    """Which letters to read: ``limit`` at most, behind the place where the page before ended."""

    limit: int
    newest_first: bool = True
    after: LetterPlace | None = None


class LetterPage(NamedTuple):
    """Letters, as rows of ``DEAD_LETTER_SCHEMA``, of one version of the table.

    ``store`` is "" where a letter names none. ``version`` None: there is no table yet.
    ``next_after`` None: there is no further page.
    """

    version: int | None
    letters: pa.Table
    next_after: LetterPlace | None


class LetterCounts(NamedTuple):
    """How many letters there are by reason, in one version of the table; None: no table yet.

    ``repeats`` of them are of records that a replay wrote.
    """

    version: int | None
    by_reason: dict[str, int]
    repeats: int


def letter_page(
    folder: Path, wanted: Selection, span: LetterRange, budget: ReadBudget, replays: Replays
) -> LetterPage:
    """Read a page of letters.

    Raises:
        TableReadTooLarge, TableReadTimeout: it is more than the budget allows.
        CorruptLog: the table can't be read.
    """
    if not has_letters(folder):
        return LetterPage(None, DEAD_LETTER_SCHEMA.empty_table(), None)
    with damage_told(folder):
        return _page(folder, wanted, span, budget, replays)


def _page(
    folder: Path, wanted: Selection, span: LetterRange, budget: ReadBudget, replays: Replays
) -> LetterPage:
    table = open_letters(folder)
    dataset = table.to_pyarrow_dataset()
    condition = wanted.condition(dataset.schema, replays)
    places = _first_places(dataset, condition, span, budget)
    after = None if span.after is None else span.after[:-1]
    skipped = span.after.number if span.after and _place(places, 0) == after else 0
    end = min(skipped + span.limit, len(places))
    if end <= skipped:
        return LetterPage(table.version(), DEAD_LETTER_SCHEMA.empty_table(), None)
    # The letters' bytes are read of the page only, with all that are equal to its first and last.
    first, last = _place(places, 0), _place(places, end - 1)
    condition &= _of_revisions(min(first[0], last[0]), max(first[0], last[0]))
    is_inside = is_behind(_ORDER, first, backward=span.newest_first, inclusive=True)
    is_inside &= ~is_behind(_ORDER, last, backward=span.newest_first)
    if first[:3] == last[:3]:
        # Many letters of one batch: of one partition they lie in the order of their offsets.
        offsets = sorted((first[3], last[3]))
        condition &= (pc.field("offset") >= offsets[0]) & (pc.field("offset") <= offsets[1])
    held = [DEAD_LETTER_SCHEMA.empty_table()]
    held_bytes = 0
    for rows in letters_of(dataset, condition):
        budget.check_time()
        held.append(_with_store_names(rows).filter(is_inside))
        held_bytes += held[-1].nbytes
        budget.check_size(held_bytes)
    page = _sorted(pa.concat_tables(held), [*_ORDER.names, "detail"], span).slice(0, end)
    next_after = None
    if len(places) > end:
        is_last = is_behind(_ORDER, last, inclusive=True) & ~is_behind(_ORDER, last)
        next_after = LetterPlace._make((*last, len(page.filter(is_last))))
    return LetterPage(table.version(), page.slice(skipped), next_after)


def letter_counts(
    folder: Path, wanted: Selection, budget: ReadBudget, replays: Replays
) -> LetterCounts:
    """Count the letters by their reason, the most frequent first.

    Raises:
        TableReadTimeout: it takes too long.
        CorruptLog: the table can't be read.
    """
    if not has_letters(folder):
        return LetterCounts(None, {}, 0)
    counts: Counter[str] = Counter()
    repeats = 0
    with damage_told(folder):
        table = open_letters(folder)
        dataset = table.to_pyarrow_dataset()
        condition = wanted.condition(dataset.schema, replays)
        for batch in _batches(dataset, condition, ["reason"], budget):
            for count in pc.value_counts(batch["reason"]).to_pylist():
                counts[count["values"]] += count["counts"]
        if replays.origins:
            condition &= replays.is_repeat()
            repeats = sum(
                batch.num_rows for batch in _batches(dataset, condition, ["offset"], budget)
            )
    return LetterCounts(table.version(), dict(counts.most_common()), repeats)


def _first_places(
    dataset: Any, condition: pc.Expression, span: LetterRange, budget: ReadBudget
) -> pa.Table:
    """The places of the letters from ``after`` on, in order: one more than the page may have."""
    wanted = span.limit + 1
    is_wanted = pc.scalar(value=True)
    if span.after is not None:
        wanted += span.after.number
        place = span.after[:-1]
        is_wanted = is_behind(_ORDER, place, backward=span.newest_first, inclusive=True)
        least, greatest = span.after.revision, _REVISION_MAX
        condition &= _of_revisions(*((0, least) if span.newest_first else (least, greatest)))
    places = _ORDER.empty_table()
    for batch in _batches(dataset, condition, _ORDER.names, budget):
        rows = _with_store_names(pa.table(batch)).cast(_ORDER).filter(is_wanted)
        # No more than a page is held, whatever the table's size.
        places = _sorted(pa.concat_tables([places, rows]), _ORDER.names, span).slice(0, wanted)
        # A forged cursor can name any number of places.
        budget.check_size(places.nbytes)
    return places


def _batches(
    dataset: Any, condition: pc.Expression, columns: list[str], budget: ReadBudget
) -> Iterator[Any]:
    for batch in dataset.to_batches(
        columns=columns, filter=condition, batch_size=_BATCH_ROWS, batch_readahead=1,
        fragment_readahead=1, use_threads=False,
    ):  # fmt: skip
        budget.check_time()
        yield batch


def _of_revisions(least: int, greatest: int) -> pc.Expression:
    return (pc.field("revision") >= least) & (pc.field("revision") <= greatest)


def _with_store_names(rows: pa.Table) -> pa.Table:
    """With "" where a letter names no store: null has no place in an order."""
    at = rows.column_names.index("store")
    return rows.set_column(at, "store", pc.fill_null(rows["store"], ""))


def _sorted(rows: pa.Table, columns: list[str], span: LetterRange) -> pa.Table:
    direction = "descending" if span.newest_first else "ascending"
    return rows.sort_by([(name, direction) for name in columns]).combine_chunks()


def _place(places: pa.Table, at: int) -> tuple[Any, ...]:
    """A row of places as a tuple, () where there is none."""
    rows = places.slice(at, 1).to_pylist()
    return tuple(rows[0].values()) if rows else ()
