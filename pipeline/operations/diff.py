"""``oriel diff STORE``: compare a store with its rebuild, before the rebuild replaces it."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.commit import HeldPosition, HeldRebuild
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.storage import DataLayout, absolute, current_files
from oriel.storage.delta import DeltaLog, TableSnapshot, newest_rows, window_columns
from oriel.storage.index import table_batches, table_columns

#: Seconds in which the pipeline commits a batch that it has prepared.
_COMMIT_SECONDS = 30.0
_POLL_SECONDS = 0.05
#: The columns of a window, and the columns that say how a row was written.
_NOT_COMPARED = {"key", "window_start", "window_end", "revision", "deleted"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows that differ.

    Returns:
        The exit code: 0 if all rows are equal, 3 if rows differ, 1 after an error. With
        ``--accept``, 0 also if rows differ.
    """
    parser = argparse.ArgumentParser(
        prog="oriel diff",
        description="Compare the rows of a store with the rows of `oriel rebuild --live --hold`, "
        "after the same records. Both tables are read into memory.",
        epilog="Exit codes: 0: all rows are equal, or --accept succeeded, 1: an error, 2: an "
        "invalid option, 3: rows differ.",
    )
    parser.add_argument("store", help="name of the store")
    add_data_option(parser, "compare a store of this data directory")
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N",
        help="print at most N rows that differ. Default: 20",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    parser.add_argument(
        "--accept", action="store_true",
        help="let the rebuild replace the store, without a comparison",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        layout = DataLayout(absolute(options.data))
        current_files().reach(layout.root)
        held = HeldRebuild(layout, options.store)
        position = held.position()
        if position is None:
            message = (
                f"no rebuild of store {options.store!r} waits. Start `oriel rebuild "
                f"{options.store} TOPOLOGY.py --live --hold` with the options of the pipeline, and "
                "wait until it has read all records"
            )
            raise CheckpointError(message)
        if options.accept:
            held.accept()
            print(f"The rebuild replaces store {options.store} after its next batch.")
            return 0
        found = compare(layout, options.store, held, position)
    except EXPECTED as error:
        print_error("diff", error)
        return 1
    _print(options.store, found, options.limit, as_json=options.json)
    return 3 if found.rows_differ else 0


@dataclass(frozen=True)
class Comparison:
    """The rows of a store and of its rebuild.

    Attributes:
        batch: The batch of the pipeline after which both are compared.
        equal: The number of rows that are equal.
        differing: The rows of windows that both have: those of the store, and those of the rebuild.
        only_store: The rows of windows that only the store has.
        only_rebuild: The rows of windows that only the rebuild has.
        columns: The compared columns that both have.
        added: Columns that only the rebuild has.
        removed: Columns that only the store has.
    """

    batch: int
    equal: int
    differing: tuple[pa.Table, pa.Table]
    only_store: pa.Table
    only_rebuild: pa.Table
    columns: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def rows_differ(self) -> bool:
        """Whether a row or a column differs."""
        rows = len(self.differing[0]) + len(self.only_store) + len(self.only_rebuild)
        return bool(rows or self.added or self.removed)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each window that differs: its columns, ``store`` and ``rebuild`` (or null)."""
        values = [name for name in self.only_store.schema.names if name not in _NOT_COMPARED]
        new_values = [name for name in self.only_rebuild.schema.names if name not in _NOT_COMPARED]
        for old, new in zip(*(rows.to_pylist() for rows in self.differing), strict=True):
            yield _row(old, {name: old[name] for name in values}, {n: new[n] for n in new_values})
        for old in self.only_store.to_pylist():
            yield _row(old, {name: old[name] for name in values}, None)
        for new in self.only_rebuild.to_pylist():
            yield _row(new, None, {name: new[name] for name in new_values})


def compare(
    layout: DataLayout, store: str, held: HeldRebuild, position: HeldPosition
) -> Comparison:
    """Compare a store with its rebuild after the same batch.

    Args:
        layout: The data directory of the pipeline.
        store: The name of the store.
        held: The rebuild.
        position: The batch, and the version of the rebuilt table at its end.

    Raises:
        CheckpointError: the pipeline does not commit the batch, or has deleted its version.
    """
    old = _current_rows(layout, store, _snapshot_of_batch(layout, store, position.batch))
    new = _current_rows(
        held.layout, store, DeltaLog(held.layout.table(store)).snapshot(position.version)
    )
    window = window_columns(old.column_names)
    numbered = [
        rows.select(window).append_column(f"{name}_row", pa.array(range(len(rows))))
        for name, rows in (("old", old), ("new", new))
    ]
    joined = (
        numbered[0]
        .join(numbered[1], window, join_type="full outer")
        .sort_by([(name, "ascending") for name in window])
    )
    both = joined.filter(pc.and_(*(pc.is_valid(joined[f"{n}_row"]) for n in ("old", "new"))))
    pairs = old.take(both["old_row"]), new.take(both["new_row"])
    names = [[n for n in rows.schema.names if n not in _NOT_COMPARED] for rows in (old, new)]
    columns = tuple(name for name in names[0] if name in names[1])
    differ = pa.array([False] * len(both), pa.bool_())
    for name in columns:
        differ = pc.or_(differ, _differs(pairs[0][name], pairs[1][name]))
    only = [joined.filter(pc.is_null(joined[f"{n}_row"])) for n in ("new", "old")]
    return Comparison(
        position.batch,
        len(both) - (pc.sum(differ).as_py() or 0),
        (pairs[0].filter(differ), pairs[1].filter(differ)),
        old.take(only[0]["old_row"]),
        new.take(only[1]["new_row"]),
        columns,
        tuple(name for name in names[1] if name not in names[0]),
        tuple(name for name in names[0] if name not in names[1]),
    )


def _snapshot_of_batch(layout: DataLayout, store: str, batch: int) -> TableSnapshot:
    """Return the last version of the store's table that has exactly the rows up to a batch."""
    log = DeltaLog(layout.table(store))
    deadline = time.monotonic() + _COMMIT_SECONDS
    while True:
        record = log.newest_record()
        if record is not None and record.batch >= batch:
            break
        if time.monotonic() >= deadline:
            message = (
                f"the pipeline has not committed batch {batch} of store {store!r}. Check whether "
                "it runs with `oriel status`, and try again"
            )
            raise CheckpointError(message)
        time.sleep(_POLL_SECONDS)
    for version in reversed(log.versions()):
        entry = log.read(version)
        if entry is not None and entry.record is not None and entry.record.batch <= batch:
            return log.snapshot(version)
    message = (
        f"the table of store {store!r} has no version of batch {batch} any more, because the "
        "rebuild is hours older than the pipeline. Wait for its next batch, and try again"
    )
    raise CheckpointError(message)


def _current_rows(layout: DataLayout, store: str, snapshot: TableSnapshot) -> pa.Table:
    """Return the newest row of each window, without removed windows."""
    table = layout.table(store)
    tables = [
        rows
        for name in snapshot.files
        for rows in table_batches(
            table / name, snapshot.definition, snapshot.kept.get(name),
            digest=snapshot.digests.get(name),
        )
    ]  # fmt: skip
    # A table without rows has no files.
    rows = pa.concat_tables(tables) if tables else table_columns(snapshot.definition).empty_table()
    rows = newest_rows(rows)
    return rows.filter(pc.invert(rows["deleted"]))


def _differs(old: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.Array:
    """Return for each row whether two columns differ. Two nulls, and two NaN, are equal."""
    if old.type != new.type or pa.types.is_nested(old.type) or pa.types.is_floating(old.type):
        old, new = (
            pa.array([json.dumps(each, default=str) for each in one.to_pylist()], pa.string())
            for one in (old, new)
        )
    nulls = pc.xor(pc.is_null(old), pc.is_null(new))
    return pc.or_(nulls, pc.fill_null(pc.not_equal(old, new), fill_value=False))


def _row(
    window: dict[str, Any], store: dict[str, Any] | None, rebuild: dict[str, Any] | None
) -> dict[str, Any]:
    names = window_columns(list(window))
    return {**{name: window[name] for name in names}, "store": store, "rebuild": rebuild}


def _print(store: str, found: Comparison, limit: int, *, as_json: bool) -> None:
    rows = found.rows()
    for number, row in enumerate(rows):
        if number >= limit:
            break
        if as_json:
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
            continue
        window = " ".join(str(row[name]) for name in window_columns(list(row)))
        sys.stdout.write(f"{window}\n  store:   {_text(row['store'])}\n")
        sys.stdout.write(f"  rebuild: {_text(row['rebuild'])}\n")
    if as_json:
        return
    columns = "".join(
        f". Columns that only the {name} has: {', '.join(names)}"
        for name, names in (("store", found.removed), ("rebuild", found.added))
        if names
    )
    print(
        f"store {store} after batch {found.batch}: {found.equal:,} rows are equal, "
        f"{len(found.differing[0]):,} differ, {len(found.only_store):,} only in the store, "
        f"{len(found.only_rebuild):,} only in the rebuild{columns}"
    )


def _text(values: dict[str, Any] | None) -> str:
    return "no row" if values is None else orjson.dumps(values).decode()
