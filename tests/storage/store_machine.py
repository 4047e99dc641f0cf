"""State machine of a store: changes of its table and index, and the results of queries after each.

The pipeline commits. Other programs append and delete rows. Tables are compacted and cleaned up.
The writer and the tailer crash and recover. The index is deleted. After each step, the same queries
run on the index, on the table, and on a plain list of rows. The table is also queried as of earlier
versions, and a copy of the windows is updated from the changes.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
import pytest
from deltalake import DeltaTable
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oriel.storage import LATEST_MS, SessionRange, WindowRange, WindowSpec
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import VersionGone
from oriel.storage.index import IndexReader, IndexState, index_differences
from oriel.storage.shards import ALL_KEYS
from oriel.storage.table_store import ChangeRange, ReadBudget, TableVersions, changes
from oriel.tables import current
from oriel.testing import ModelKeyValueStore, ModelSessionStore, ModelWindowStore, Put
from tests.storage.followed import Followed
from tests.storage.other_hands import append, clean_log, rewrite, vacuum
from tests.storage.store_tables import Row, make_record, window_fields
from tests.storage.written_tables import Unpacked
from tests.tables.served_rows import place, served

_RETENTION_MS = 30
_KEYS = ("a", "a\x00", "b", "")


#: Key, start, length of a session, an aggregate, and True if the window is removed.
_ROWS = st.tuples(
    st.sampled_from(_KEYS), st.integers(0, 60), st.sampled_from([1, 5, 40]), st.integers(0, 9),
    st.sampled_from([False, False, True]),
)  # fmt: skip


class Written(NamedTuple):
    """A row of the table."""

    key: str
    start: int
    end: int
    n: int
    deleted: bool
    revision: int

    def row(self) -> Row:
        """Return the row as tests write it, without ``timestamp`` and other derived fields."""
        return self._asdict()


class StoreMachine(RuleBasedStateMachine):
    """The steps. ``window`` is the window definition of the store."""

    window: WindowSpec

    def __init__(self) -> None:
        """Create the table in a temporary directory."""
        super().__init__()
        self._directory = TemporaryDirectory()
        data = Path(self._directory.name)
        retention_ms = _RETENTION_MS if self.window.is_windowed else None
        self.followed = Followed(data, retention_ms, self.window)
        self.table = self.followed.table
        self.versions = TableVersions(self.table.path)
        self.rows: list[Written] = []
        self.observed_ms = -1
        self.past: dict[int, Any] = {}
        #: Versions before this one can be deleted.
        self.cleaned_up = 0
        #: The windows of a client that follows the changes, and the version that it has reached.
        self.copy: dict[tuple[str, int, int], Any] = {}
        self.through = -1

    def teardown(self) -> None:
        """Close all files and delete the directory."""
        self.followed.tailer.close()
        self._directory.cleanup()

    @initialize()
    def begin(self) -> None:
        """Commit a first batch with a stream time, so rows of other programs never determine it."""
        self.commit([("a", 1, 5, 1, False)])

    @rule(rows=st.lists(_ROWS, max_size=6))
    def commit(self, rows: list[Any]) -> None:
        """Commit a batch of the pipeline, with each window once."""
        batch = self.table.batch + 1
        written = self._distinct(rows, batch)
        by_end = self.window.kind.expires_by_end
        times_ms = [row.end if by_end else row.start for row in written]
        self.observed_ms = max([self.observed_ms, *times_ms])
        record = make_record(batch, observed_ms=self.observed_ms)
        self.rows += written
        self.table.commit([row.row() for row in written], record)
        self._remember()

    @rule(rows=st.lists(_ROWS, min_size=1, max_size=3), ahead=st.integers(-2, 3))
    def append_of_others(self, rows: list[Any], ahead: int) -> None:
        """Append rows of any revision, older or newer than the existing rows."""
        written = self._distinct(rows, max(self.table.batch + ahead, 0))
        append(self.table, [row.row() for row in written])
        self.rows += written
        self._remember()

    @rule(key=st.sampled_from([key for key in _KEYS if "\x00" not in key]))
    def delete_of_others(self, key: str) -> None:
        """Delete all rows of a key. The SQL of delta-rs cannot express a NUL."""
        before = DeltaTable(self.table.path).version()
        DeltaTable(self.table.path).delete(f"key = '{key}'")
        self.rows = [row for row in self.rows if row.key != key]
        if DeltaTable(self.table.path).version() > before:
            self._remember()

    @rule(drops=st.booleans())
    def compact(self, drops: bool) -> None:
        """Rewrite all rows to one file, optionally without rows that do not count."""
        if drops:
            self.rows = list(self._counting().values())
        rows = [_stored(row.row(), self.followed) for row in self.rows]
        rewrite(self.table, rows, make_record(self.table.batch, observed_ms=self.observed_ms))
        self._remember()

    @rule()
    def clean_up(self) -> None:
        """Delete the entries before a checkpoint and all removed files. Few versions stay."""
        clean_log(self.table)
        vacuum(self.table)
        self.cleaned_up = max(self.past)

    @rule(content=st.sampled_from([b"", b"{", b'{"commitInfo":{"oriel_application":"x"}}\n']))
    def writer_crashes(self, content: bytes) -> None:
        """Leave an unreferenced file and a torn entry, which the restarted writer replaces."""
        (self.table.path / "part-000000000099-left.parquet").write_bytes(b"PAR1")
        torn = self.table.entry(DeltaTable(self.table.path).version() + 1)
        torn.write_bytes(content)
        self.followed.catch_up()
        self.every_store_equals_the_list()
        torn.unlink()
        # The new tailer has not seen the torn entry, so it reads the log again.
        self.followed.restart()

    @rule()
    def tailer_crashes(self) -> None:
        """Crash the tailer while it applies a version, so the index has nothing of this version."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(IndexState, "to_json", _crash)
            try:
                self.followed.catch_up()
            except _Crash:
                self.followed.restart()

    @rule()
    def tailer_restarts(self) -> None:
        """Replace the tailer by a new one."""
        self.followed.restart()

    @rule()
    def index_is_deleted(self) -> None:
        """Delete the index, which the tailer can rebuild at any time."""
        self.followed.tailer.close()
        shutil.rmtree(self.followed.directory.path, ignore_errors=True)

    @invariant()
    def every_store_equals_the_list(self) -> None:
        """Compare the list with the index, and with the newest, a middle and the oldest version."""
        if not self.past:
            return
        self.followed.catch_up()
        self.followed.tailer.close()
        reader = IndexReader(self.followed.directory)
        newest = max(self.past)
        with reader.snapshot() as snapshot:
            assert snapshot.state.version == newest
            assert _reads(Unpacked(snapshot, orjson.loads)) == self.past[newest]
            self._follow_changes(snapshot)
            windows = [orjson.loads(window) for window in _every_window(snapshot).values()]
        reader.close()
        assert served(current(self.table.path).arrow()) == sorted(windows, key=place)
        followed = self.followed
        assert not list(index_differences(followed.generation(), followed.table.path, ALL_KEYS))
        versions = sorted(self.past)
        for version in {newest, versions[len(versions) // 2], versions[0]}:
            try:
                store = self.versions.open(version, ReadBudget())
            except VersionGone:
                assert version < self.cleaned_up
                del self.past[version]
            else:
                assert _reads(Unpacked(store, orjson.loads)) == self.past[version]

    def _follow_changes(self, snapshot: Any) -> None:
        """Update the copy by the changes up to the snapshot, or copy all if the log lacks them."""
        log, state = DeltaLog(self.table.path), snapshot.state
        windows = _every_window(snapshot)
        wanted = ChangeRange(self.through, 3)
        try:
            while True:
                page = changes(log, state, wanted, ReadBudget())
                for change in page.changes:
                    window = change[1:]
                    self.copy.pop(window, None)
                    if window in windows:
                        self.copy[window] = windows[window]
                if not page.has_more:
                    break
                wanted = wanted._replace(reached=page.reached, after=page.changes[-1])
        except VersionGone:
            self.copy = dict(windows)
        self.through = state.version
        clock = 2 if self.window.kind.expires_by_end else 1
        visible = {w: row for w, row in self.copy.items() if w[clock] >= snapshot.earliest_ms}
        self.copy = visible
        assert visible == windows

    def _distinct(self, rows: list[Any], revision: int) -> list[Written]:
        distinct = {}
        for key, start, length, n, deleted in rows:
            end = start + (length if self.window.kind.is_session else self.window.size_ms)
            times = (start, end) if self.window.is_windowed else (0, 0)
            distinct[key, times] = Written(key, times[0], times[1], n, deleted, revision)
        return list(distinct.values())

    def _counting(self) -> Mapping[tuple[str, int, int], Written]:
        """Return the row that counts for each window, by the rule of docs/decisions/0030."""
        counting: dict[tuple[str, int, int], Written] = {}
        for row in self.rows:
            stands = counting.get(row[:3])
            if stands is None or _rank(row) > _rank(stands):
                counting[row[:3]] = row
        return counting

    def _remember(self) -> None:
        """Save the results of all queries at the newest version."""
        definition = self.followed.definition
        puts = [
            Put(*row[:3], orjson.dumps(window_fields(row.row(), definition)))
            for row in self._counting().values()
            if not row.deleted
        ]
        model = _model(self.window, puts)
        if self.window.is_windowed:
            model._earliest_ms = max(0, self.observed_ms - _RETENTION_MS + 1)
        version = DeltaTable(self.table.path).version()
        self.past[version] = _reads(Unpacked(model, orjson.loads))


class _Crash(Exception):
    """Raised where the tailer's process ends."""


def _crash(_: IndexState) -> bytes:
    raise _Crash


def _rank(row: Written) -> tuple[int, bool, int]:
    return row.revision, not row.deleted, row.n


def _model(window: WindowSpec, puts: list[Put]) -> Any:
    models: dict[bool, Callable[[list[Put]], Any]] = {
        True: ModelSessionStore, False: ModelWindowStore,
    }  # fmt: skip
    return models[window.kind.is_session](puts) if window.is_windowed else ModelKeyValueStore(puts)


def _stored(row: Row, followed: Followed) -> dict[str, Any]:
    """Return a row with all columns of the table and times in ms, as ``rewrite`` accepts it."""
    fields = window_fields(row, followed.definition)
    times = {"timestamp": fields.pop("timestamp_ms")}
    if "final" in fields:
        times["window_start"] = fields.pop("window_start_ms")
        times["window_end"] = fields.pop("window_end_ms")
    return {**fields, **times, "deleted": row["deleted"], "revision": row["revision"]}


def _every_window(store: Any) -> dict[tuple[str, int, int], bytes]:
    keys = store.keys("", 100).keys
    if hasattr(store, "get"):
        return {(key, 0, 0): store.get(key) for key in keys}
    found = {}
    for key in keys:
        for window in store.fetch(WindowRange(key, limit=1000)).windows:
            fields = orjson.loads(window)
            found[key, fields["window_start_ms"], fields["window_end_ms"]] = window
    return found


def _reads(store: Any) -> list[Any]:
    """Return the results of many queries on a store of any kind."""
    # Not compared: whether more keys can follow is only a hint, as the next key can be expired.
    results: list[Any] = [store.keys(*span).keys for span in (("", 2), ("a", 9), ("", 9, "a"))]
    for key in (*_KEYS, "none"):
        if hasattr(store._store, "get"):
            results.append(store.get(key))
            continue
        spans = [WindowRange(key, limit=100), WindowRange(key, 7, 40, 2)]
        results += [read(span) for span in spans for read in (store.fetch, store.backward_fetch)]
        results += [store.latest(key), store.fetch_window(key, 1), store.earliest_ms]
        if hasattr(store._store, "find_sessions"):
            found = [SessionRange(key, 20, 30, 2), SessionRange(key, 0, LATEST_MS)]
            reads = (store.find_sessions, store.backward_find_sessions)
            results += [read(span) for span in found for read in reads]
            results.append(store.fetch_session(key, 1, 6))
    return results
