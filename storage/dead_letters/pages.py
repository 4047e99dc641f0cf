"""Pages and counts of dead letters.

Dead letters are ordered by the batch that found them (``revision``), then by topic, partition,
offset, store and reason. Newest first is exactly the reverse. A record can have several dead
letters with equal fields, for example if a function raised in several windows. They were committed
together, so their number never changes. A cursor has the number that was already returned.
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
    damage_as_corrupt_log,
    has_dead_letters,
    matching_rows,
    open_dead_letters,
)
from oriel.storage.delta import DEAD_LETTER_SCHEMA
from oriel.storage.table_store import ReadBudget, is_after

_BATCH_ROWS = 1 << 16
_REVISION_MAX = 2**63 - 1


class DeadLetterPosition(NamedTuple):
    """A position in the order of dead letters.

    Attributes:
        revision: The batch that found the dead letter.
        topic: The topic of its record.
        partition: The partition of its record.
        offset: The offset of its record.
        store: The store, "" without a store.
        reason: The reason.
        number: The position follows this many dead letters that are equal in all other fields.
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
    for name in DeadLetterPosition._fields[:-1]
])  # fmt: skip


class DeadLetterRange(NamedTuple):
    """The dead letters of a page: at most ``limit``, after the end of the previous page."""

    limit: int
    newest_first: bool = True
    after: DeadLetterPosition | None = None


class DeadLetterPage(NamedTuple):
    """A page of the dead letters in one version of the table.

    Attributes:
        version: The version, None if the table does not exist yet.
        letters: Rows of ``DEAD_LETTER_SCHEMA``. ``store`` is "" in a dead letter without a store.
        next_after: The position of the next page, None on the last page.
    """

    version: int | None
    letters: pa.Table
    next_after: DeadLetterPosition | None


class DeadLetterCounts(NamedTuple):
    """The number of dead letters in one version of the table.

    Attributes:
        version: The version, None if the table does not exist yet.
        by_reason: The number by reason.
        repeats: The number of dead letters whose record was written by a replay.
    """

    version: int | None
    by_reason: dict[str, int]
    repeats: int


def dead_letter_page(
    directory: Path, wanted: Selection, span: DeadLetterRange, budget: ReadBudget, replays: Replays
) -> DeadLetterPage:
    """Read a page of dead letters.

    Raises:
        TableReadTooLarge, TableReadTimeout: The read exceeds the budget.
        CorruptLog: The table cannot be read.
    """
    if not has_dead_letters(directory):
        return DeadLetterPage(None, DEAD_LETTER_SCHEMA.empty_table(), None)
    with damage_as_corrupt_log(directory):
        return _page(directory, wanted, span, budget, replays)


def _page(
    directory: Path, wanted: Selection, span: DeadLetterRange, budget: ReadBudget, replays: Replays
) -> DeadLetterPage:
    table = open_dead_letters(directory)
    dataset = table.to_pyarrow_dataset()
    condition = wanted.condition(dataset.schema, replays)
    positions = _first_positions(dataset, condition, span, budget)
    after = None if span.after is None else span.after[:-1]
    skipped = span.after.number if span.after and _position(positions, 0) == after else 0
    end = min(skipped + span.limit, len(positions))
    if end <= skipped:
        return DeadLetterPage(table.version(), DEAD_LETTER_SCHEMA.empty_table(), None)
    # Read whole rows only from the first to the last position of the page.
    first, last = _position(positions, 0), _position(positions, end - 1)
    condition &= _of_revisions(min(first[0], last[0]), max(first[0], last[0]))
    is_inside = is_after(_ORDER, first, backward=span.newest_first, inclusive=True)
    is_inside &= ~is_after(_ORDER, last, backward=span.newest_first)
    if first[:3] == last[:3]:
        # A batch can have many dead letters. In one partition, the offsets bound the page.
        offsets = sorted((first[3], last[3]))
        condition &= (pc.field("offset") >= offsets[0]) & (pc.field("offset") <= offsets[1])
    held = [DEAD_LETTER_SCHEMA.empty_table()]
    held_bytes = 0
    for rows in matching_rows(dataset, condition):
        budget.check_time()
        held.append(_with_store_names(rows).filter(is_inside))
        held_bytes += held[-1].nbytes
        budget.check_size(held_bytes)
    page = _sorted(pa.concat_tables(held), [*_ORDER.names, "detail"], span).slice(0, end)
    next_after = None
    if len(positions) > end:
        is_last = is_after(_ORDER, last, inclusive=True) & ~is_after(_ORDER, last)
        next_after = DeadLetterPosition._make((*last, len(page.filter(is_last))))
    return DeadLetterPage(table.version(), page.slice(skipped), next_after)


def dead_letter_counts(
    directory: Path, wanted: Selection, budget: ReadBudget, replays: Replays
) -> DeadLetterCounts:
    """Count the dead letters by reason, the most frequent reason first.

    Raises:
        TableReadTimeout: The read exceeds the time of the budget.
        CorruptLog: The table cannot be read.
    """
    if not has_dead_letters(directory):
        return DeadLetterCounts(None, {}, 0)
    counts: Counter[str] = Counter()
    repeats = 0
    with damage_as_corrupt_log(directory):
        table = open_dead_letters(directory)
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
    return DeadLetterCounts(table.version(), dict(counts.most_common()), repeats)


def _first_positions(
    dataset: Any, condition: pc.Expression, span: DeadLetterRange, budget: ReadBudget
) -> pa.Table:
    """Return the positions of the dead letters from ``after`` on, in order.

    The result has at most one position more than the page, which shows whether a next page exists.
    """
    wanted = span.limit + 1
    is_wanted = pc.scalar(value=True)
    if span.after is not None:
        wanted += span.after.number
        position = span.after[:-1]
        is_wanted = is_after(_ORDER, position, backward=span.newest_first, inclusive=True)
        least, greatest = span.after.revision, _REVISION_MAX
        condition &= _of_revisions(*((0, least) if span.newest_first else (least, greatest)))
    positions = _ORDER.empty_table()
    for batch in _batches(dataset, condition, _ORDER.names, budget):
        rows = _with_store_names(pa.table(batch)).cast(_ORDER).filter(is_wanted)
        # Keep only one page in memory, whatever the size of the table.
        positions = _sorted(pa.concat_tables([positions, rows]), _ORDER.names, span).slice(
            0, wanted
        )
        # A forged cursor can have any ``number``.
        budget.check_size(positions.nbytes)
    return positions


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
    """Replace a null store by "", because null has no position in an order."""
    at = rows.column_names.index("store")
    return rows.set_column(at, "store", pc.fill_null(rows["store"], ""))


def _sorted(rows: pa.Table, columns: list[str], span: DeadLetterRange) -> pa.Table:
    direction = "descending" if span.newest_first else "ascending"
    return rows.sort_by([(name, direction) for name in columns]).combine_chunks()


def _position(positions: pa.Table, at: int) -> tuple[Any, ...]:
    """Return a row of positions as a tuple, () if the row does not exist."""
    rows = positions.slice(at, 1).to_pylist()
    return tuple(rows[0].values()) if rows else ()
