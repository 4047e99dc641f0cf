"""Compare an index with its table: find wrong, missing or surplus rows in a sound index.

Each row is represented by two hashes: the hash of its record key, and the hash of its content with
the first hash as the seed. So the comparison writes nothing to disk and builds no second index. It
reads the index in one read transaction, which ends before it reads the table. If the rows do not
fit in memory, it compares them in parts. Each part uses the version that the index has when the
part starts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from oriel.storage.delta import DeltaLog, TableSnapshot
from oriel.storage.errors import StoreNotReady
from oriel.storage.index.checksums import checked_content, content_of
from oriel.storage.index.generation import STATE_KEY, open_for_reading, storage_error
from oriel.storage.index.lengths import length_keys
from oriel.storage.index.rows import file_tables
from oriel.storage.index.state import IndexState
from oriel.storage.key_codec import decode_prefix, prefix_of, window_times
from oriel.storage.shards import Shard

#: Intended windows per part, and records that are read at once.
_PART_WINDOWS, _CHUNK = 1 << 21, 10_000

_Hashes = npt.NDArray[np.uint64]


def index_differences(generation: Path, table: Path, shard: Shard) -> Iterator[str]:
    """Yield descriptions of the differences between an index and its table.

    The structure of the index must have been verified. A tailer can follow the table at the same
    time.

    Raises:
        IndexDamaged: the index can't be read.
        StorageError: the index can't be compared with the table now.
    """
    opened = open_for_reading(generation)
    try:
        yield from _Comparison(opened, DeltaLog(table), shard).problems()
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    finally:
        opened.env.close()


class _TooManyRows(Exception):
    """A part of the table has more rows than a part can have."""


class _Part:
    """Hashes of the rows of an index or of a table, for one part of the record keys."""

    def __init__(self, part: int, part_count: int) -> None:
        self._number, self._of = np.uint64(part), np.uint64(part_count)
        no_hashes = np.zeros(0, np.uint64)
        self._chunks = [(no_hashes, no_hashes, np.zeros(0, np.int64))]
        self._count = 0

    def add(
        self,
        keys: Sequence[bytes],
        contents: Iterable[bytes],
        revisions: npt.NDArray[np.int64],
        is_window: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add the rows that belong to this part.

        Args:
            keys: The record keys.
            contents: The JSON of each row.
            revisions: The revision of each row.
            is_window: False for a row that removes its window. None: no row removes its window.
        """
        hashed = list(map(xxh3_64_intdigest, keys))
        rows = np.fromiter(map(xxh3_64_intdigest, contents, hashed), np.uint64, len(hashed))
        if is_window is not None:
            rows[~is_window] = 0
        of_keys = np.array(hashed, np.uint64)
        is_in_part = of_keys % self._of == self._number
        self._chunks.append((of_keys[is_in_part], rows[is_in_part], revisions[is_in_part]))
        self._count += int(is_in_part.sum())
        if self._count > 2 * _PART_WINDOWS:
            self._drop_superseded()
            if len(np.unique(self._chunks[0][0])) > _PART_WINDOWS * 3 // 2:
                raise _TooManyRows

    def windows(self) -> tuple[_Hashes, _Hashes]:
        """Return the key hashes and row hashes of all windows, in the order of the key hashes."""
        self._drop_superseded()
        ((keys, rows, _),) = self._chunks
        return keys[rows > 0], rows[rows > 0]

    def _drop_superseded(self) -> None:
        """Keep the rows with the highest revision of each key.

        If other programs wrote several rows with this revision, all stay. Then a window has
        precedence over a removal, and each of the windows is accepted.
        """
        keys, rows, revisions = (np.concatenate(parts) for parts in zip(*self._chunks, strict=True))
        order = np.lexsort((revisions, keys))
        keys, rows, revisions = keys[order], rows[order], revisions[order]
        counts = revisions == revisions[np.searchsorted(keys, keys, "right") - 1]
        self._chunks = [(keys[counts], rows[counts], revisions[counts])]
        self._count = int(counts.sum())


@dataclass
class _Counts:
    missing: int = 0
    surplus: int = 0
    different: int = 0
    version: int = 0
    example: str = ""


class _Comparison:
    def __init__(self, opened: Any, log: DeltaLog, shard: Shard) -> None:
        self._opened, self._log, self._shard = opened, log, shard

    def problems(self) -> Iterator[str]:
        with self._opened.env.begin() as txn:
            state = self._state(txn)
            windows = txn.stat(self._opened.windows)["entries"]
            are_lengths_consistent = self._are_lengths_consistent(txn)
        if not are_lengths_consistent:
            yield "the sessions by length of the index are not its sessions"
        record = self._snapshot(state).record
        # If the entry with the position was cleaned up, the position of the table is unknown.
        if record is not None and state.record != record:
            yield f"the position of the index is {state.record}, but the table has {record}"
        counts = _Counts()
        part_count = windows // _PART_WINDOWS + 1
        parts = [(part, part_count) for part in range(part_count)]
        while parts:
            part, part_count = parts.pop()
            try:
                self._compare(part, part_count, counts)
            except _TooManyRows:
                parts += [(part, 2 * part_count), (part + part_count, 2 * part_count)]
        if counts.example:
            yield (
                f"the index differs from version {counts.version} of the table: "
                f"{counts.missing:,} rows are missing, {counts.surplus:,} are surplus, "
                f"{counts.different:,} are different, for example {counts.example}"
            )

    def _compare(self, part: int, part_count: int, counts: _Counts) -> None:
        """Compare one part of the rows, and add its differences to ``counts``."""
        index, table = _Part(part, part_count), _Part(part, part_count)
        with self._opened.env.begin() as txn:
            state = self._state(txn)
            for records in self._records(txn, self._opened.windows):
                visible = [one for one in records if _is_visible(one[0], state)]
                keys = [key for key, _ in visible]
                contents = map(content_of, self._values(txn, visible))
                index.add(keys, contents, np.zeros(len(keys), np.int64))
        snapshot = self._snapshot(state)
        for rows in self._table_rows(snapshot, state):
            table.add(
                rows["record"].to_numpy().tolist(),
                _contents(rows),
                rows["revision"].to_numpy(),
                rows["stands"].to_numpy(),
            )
        (index_keys, index_rows), (table_keys, table_rows) = index.windows(), table.windows()
        if np.array_equal(index_keys, table_keys) and np.array_equal(index_rows, table_rows):
            return
        surplus, missing = (
            np.setdiff1d(index_keys, table_keys),
            np.setdiff1d(table_keys, index_keys),
        )
        different = np.setdiff1d(index_keys[~np.isin(index_rows, table_rows)], surplus)
        counts.missing += len(missing)
        counts.surplus += len(surplus)
        counts.different += len(different)
        found = np.concatenate([different, missing, surplus])
        if len(found) and not counts.example:
            counts.version = state.version
            counts.example = self._example(int(found[0]), snapshot, state)

    def _state(self, txn: Any) -> IndexState:
        value = txn.get(STATE_KEY, db=self._opened.meta)
        return IndexState.from_json(checked_content(STATE_KEY, value))

    def _values(self, txn: Any, records: list[tuple[bytes, bytes]]) -> list[bytes]:
        """Return the values of windows, each with its partial aggregates if the index has them."""
        values = [value for _, value in records]
        if self._opened.partials is None:
            return values
        # The checksums are at the end of both values. The caller removes those of the second.
        partials = [txn.get(key, b"", db=self._opened.partials) for key, _ in records]
        return [content_of(value) + one for value, one in zip(values, partials, strict=True)]

    def _snapshot(self, state: IndexState) -> TableSnapshot:
        """Return the table version that the index has.

        Raises:
            StoreNotReady: the index belongs to another table. The tailer detects this by itself.
        """
        snapshot = self._log.snapshot(state.version)
        is_digest_known = state.digest and snapshot.digest
        if snapshot.table_id != state.table_id or (
            is_digest_known and state.digest != snapshot.digest
        ):
            message = (
                f"{self._log.table} was replaced after version {state.version}, which the index has"
            )
            raise StoreNotReady(message)
        return snapshot

    def _records(self, txn: Any, database: Any) -> Iterator[list[tuple[bytes, bytes]]]:
        records = iter(txn.cursor(database))
        while chunk := list(islice(records, _CHUNK)):
            yield chunk

    def _table_rows(self, snapshot: TableSnapshot, state: IndexState) -> Iterator[Any]:
        for name in snapshot.files:
            kept, digest = snapshot.kept.get(name), snapshot.digests.get(name)
            path = self._log.table / name
            yield from file_tables(
                path, state.definition, state.earliest_ms, kept, self._shard, digest
            )

    def _are_lengths_consistent(self, txn: Any) -> bool:
        """Return True if sums of hashes show the same sessions in ``lengths`` and ``windows``."""
        difference = 0
        for records in self._records(txn, self._opened.lengths):
            difference -= sum(xxh3_64_intdigest(key) for key, _ in records)
        if self._state(txn).definition.window.kind.is_session:
            for records in self._records(txn, self._opened.windows):
                difference += sum(map(xxh3_64_intdigest, length_keys([key for key, _ in records])))
        return difference == 0

    def _example(self, key_hash: int, snapshot: TableSnapshot, state: IndexState) -> str:
        """Describe the window whose record key has this hash."""
        with self._opened.env.begin() as txn:
            of_index = (
                key for chunk in self._records(txn, self._opened.windows) for key, _ in chunk
            )
            of_table = (
                key
                for rows in self._table_rows(snapshot, state)
                for key in rows["record"].to_pylist()
            )
            for key in chain(of_index, of_table):
                if xxh3_64_intdigest(key) == key_hash:
                    return _describe_window(key, state)
        return "a window that was removed during the comparison"


def _contents(rows: Any) -> list[bytes]:
    """Return the JSON of encoded rows, each with its partial aggregates if the rows have them."""
    contents: list[bytes] = rows["json"].to_numpy().tolist()
    if "partials" not in rows.column_names:
        return contents
    partials = rows["partials"].to_numpy().tolist()
    return [json + one for json, one in zip(contents, partials, strict=True)]


def _is_visible(key: bytes, state: IndexState) -> bool:
    """Return True if reads show this record. Expired records can remain until a sweep."""
    by_end = state.definition.window.kind.expires_by_end
    return not state.earliest_ms or window_times(key)[by_end] >= state.earliest_ms


def _describe_window(key: bytes, state: IndexState) -> str:
    name = decode_prefix(prefix_of(key), state.definition.keys)
    described = "a long key" if name is None else f"key {name!r}"
    if not state.definition.window.kind.is_windowed:
        return described
    start_ms, end_ms = window_times(key)
    return f"{described}, window {start_ms} to {end_ms}"
