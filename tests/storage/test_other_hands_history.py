"""Tests of any changes by other programs between batches: the index follows the one rule.

The index is the same after following, a restart or a rebuild (docs/decisions/0030).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.storage import CommitRecord
from oriel.storage.delta.maintenance.compaction import Compaction, Run
from oriel.storage.delta.maintenance.live_files import TableFiles
from tests.storage.compacted_table import TINY
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.other_hands import (
    append,
    clean_log,
    expected,
    live_rows,
    rewrite,
    vacuum,
)
from tests.storage.store_tables import Row, make_record

_RETENTION_MS = 2

_WINDOWS = st.fixed_dictionaries({
    "key": st.sampled_from(["a", "a\x00"]), "start": st.integers(0, 2),
    "n": st.integers(0, 3), "deleted": st.booleans(),
})  # fmt: skip
_BATCH = st.lists(_WINDOWS, max_size=6, unique_by=lambda row: (row["key"], row["start"]))
_FOREIGN = st.lists(
    st.builds(lambda row, revision: {**row, "revision": revision}, _WINDOWS, st.integers(-1, 4)),
    min_size=1,
    max_size=4,
)
_EVENTS = st.one_of(
    st.tuples(st.just("batch"), _BATCH),
    st.tuples(st.just("batch"), _BATCH),
    st.tuples(st.just("append"), _FOREIGN),
    st.tuples(st.just("delete"), st.sampled_from(["key = 'a'", "revision > 2", "deleted"])),
    st.tuples(
        st.sampled_from([
            "optimize", "drop expired", "rewrite late", "clean log", "vacuum", "step", "restart",
            "remove index",
        ]),
        st.none(),
    ),
    # One bit per file, in the order of their names.
    st.tuples(st.just("compact"), st.one_of(st.just(-1), st.integers(0, 255))),
)  # fmt: skip


@dataclass
class History:
    """A table with a history of events. ``records`` are the commit records of the batches."""

    followed: Followed
    records: list[CommitRecord] = field(default_factory=list)

    def happen(self, event: str, what: Any) -> None:
        """Apply one event to the table, the tailer or the index."""
        table = self.followed.table
        if event == "batch":
            self._commit(what)
        elif event == "append":
            append(table, what)
        elif event == "delete":
            DeltaTable(table.path).delete(what)
        elif event == "optimize":
            DeltaTable(table.path).optimize.compact()
        elif event in {"compact", "drop expired"}:
            self._compact(event, what)
        elif event == "rewrite late":
            # Maintenance that repeats the record of the second-newest batch.
            rewrite(table, live_rows(table), self.records[-2:][0])
        elif event == "clean log":
            clean_log(table)
        elif event == "vacuum":
            vacuum(table)
        else:
            self._to_the_follower(event)

    def observed_ms(self) -> int:
        """Return the stream time of the newest commit record."""
        return self.records[-1].observed_ms

    def assert_one_rule(self) -> None:
        """Check that the index has the rows that count by the rule, and the last position."""
        self.followed.catch_up()
        state, windows = self.followed.content()
        table = self.followed.table
        assert state.version == DeltaTable(table.path).version()
        assert windows == expected(table, live_rows(table), self.observed_ms())
        assert state.record == self.records[-1]

    def _commit(self, rows: list[Row]) -> None:
        observed_ms = max([row["start"] for row in rows], default=-1)
        if self.records:
            observed_ms = max(observed_ms, self.observed_ms())
        self.records.append(make_record(len(self.records), observed_ms=observed_ms))
        self.followed.table.commit(rows, self.records[-1])

    def _compact(self, event: str, which: int) -> None:
        """Compact as the pipeline does, and check that no visible row changes."""
        table = self.followed.table
        before = expected(table, live_rows(table), self.observed_ms())
        compaction = Compaction(TableFiles(table.path), TINY, sync=False)
        if event == "drop expired":
            compaction.drop_expired(_nothing)
        else:
            files = sorted(
                (file for run in compaction.runs() for file in run.files), key=lambda f: f.path
            )
            chosen = [file for at, file in enumerate(files) if which >> at & 1]
            if chosen:
                done = compaction.merge([Run((file,)) for file in chosen], _nothing)
                assert done.version is not None
        assert expected(table, live_rows(table), self.observed_ms()) == before

    def _to_the_follower(self, event: str) -> None:
        if event == "step":
            self.followed.tailer.step()
        elif event == "restart":
            self.followed.restart()
        else:
            self.followed.directory.remove()


def _nothing() -> None:
    """Do nothing: no condition stops the compaction."""


def test_a_removal_ahead_of_the_pipeline_stays(tmp_path: Path) -> None:
    """Compaction keeps a removal with a later revision than the pipeline's next batch."""
    history = History(Followed(tmp_path, retention_ms=_RETENTION_MS))
    deleted_row: Row = {"key": "b", "start": 1, "n": 0, "deleted": True, "revision": 2}
    with check_in_this_process():
        history.happen("batch", [{"key": "a", "start": 2}])
        history.happen("append", [deleted_row])
        history.followed.catch_up()
        history.happen("compact", -1)
        history.happen("batch", [{"key": "b", "start": 1}])
        history.assert_one_rule()
        history.followed.directory.remove()
        history.assert_one_rule()
    history.followed.tailer.close()


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 2)
@given(_BATCH.filter(len), st.lists(st.tuples(_EVENTS, st.booleans()), max_size=14))
def test_any_history_ends_in_the_one_rule(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[Row],
    events: list[tuple[tuple[str, Any], bool]],
) -> None:
    """After any sequence of events, the index has exactly the rows that count by the rule."""
    followed = Followed(tmp_path_factory.mktemp("hands"), retention_ms=_RETENTION_MS)
    history = History(followed)
    with check_in_this_process():
        history.happen("batch", first)
        for (event, what), is_followed in events:
            history.happen(event, what)
            if is_followed:
                followed.catch_up()
        history.assert_one_rule()
        followed.directory.remove()
        history.assert_one_rule()
    followed.tailer.close()
