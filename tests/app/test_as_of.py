"""Tests of reads as of an earlier version of the table, over HTTP."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from oriel.app.contract import TABLE_READS_AT_ONCE, TABLE_READS_WAITING
from oriel.app.reads import table_reads
from oriel.storage.delta import DeltaLog
from oriel.storage.table_store import ReadBudget, TableVersions
from tests.app.api_client import Served, served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.followed import check_in_this_process
from tests.storage.other_hands import clean_log, compact, vacuum
from tests.storage.store_tables import NONE, SESSION, make_record
from tests.storage.waiting import wait_in_loop

ROOT = "/v1/stores/store"


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Served]:
    """Return windows 10, 20, 30 of "a" at version 1, and 10, 30, 40 and key "b" at version 2."""
    with check_in_this_process(), served(tmp_path) as made:
        made.commit(*({"key": "a", "start": start} for start in (10, 20, 30)))
        made.commit(
            {"key": "a", "start": 20, "deleted": True}, {"key": "a", "start": 40, "n": 4},
            {"key": "b", "start": 5},
        )  # fmt: skip
        yield made


def test_a_store_can_be_read_as_of_each_version(grown: Served) -> None:
    """Every read of windows and keys returns the rows of the version and its position."""
    fetched = [starts(grown.get(f"{ROOT}/fetch/a?as_of_version={v}")) for v in (0, 1, 2)]
    assert fetched == [[], [10, 20, 30], [10, 30, 40]]
    assert starts(grown.get(f"{ROOT}/backwardFetch/a?as_of_version=1&to_ms=20")) == [20, 10]
    assert starts(grown.get(f"{ROOT}/latest/a?as_of_version=1")) == [30]
    assert starts(grown.get(f"{ROOT}/window/20/a?as_of_version=1")) == [20]
    missing = grown.get(f"{ROOT}/window/20/a?as_of_version=2")
    assert_problem(missing, 404, "window-not-found", "earliest visible start is 0")
    assert_problem(grown.get(f"{ROOT}/latest/b?as_of_version=1"), 404, "window-not-found")
    assert grown.get(f"{ROOT}/keys?as_of_version=1").json["keys"] == ["a"]
    assert grown.get(f"{ROOT}/keys?as_of_version=2").json["keys"] == ["a", "b"]
    position = grown.get(f"{ROOT}/fetch/a?as_of_version=1").json["position"]
    assert (position["version"], position["offsets"]) == (1, {"events": {"0": 100}})
    assert_problem(grown.get(f"{ROOT}/get/a?as_of_version=1"), 400, "wrong-store-kind")


def test_the_newest_version_has_the_bytes_of_the_index(grown: Served) -> None:
    """The newest version has the same bytes as the index, and its own ETag."""
    for request in ("fetch/a", "backwardFetch/a?limit=1", "latest/b", "keys?prefix=a"):
        plain = grown.get(f"{ROOT}/{request}")
        joined = "&" if "?" in request else "?"
        past = grown.get(f"{ROOT}/{request}{joined}as_of_version=2")
        # Cursors differ, because a cursor belongs to its request and the version is part of it.
        bodies = [response.body.partition(b'"next_cursor":')[0] for response in (plain, past)]
        assert bodies[0] == bodies[1]
        assert (plain.json["next_cursor"] is None) == (past.json["next_cursor"] is None)
    tag = grown.get(f"{ROOT}/latest/a?as_of_version=1").headers["etag"]
    again = grown.get(f"{ROOT}/latest/a?as_of_version=1", [("If-None-Match", tag)])
    assert again.status == 304


def test_sessions_and_rows_can_be_read_as_of_a_version(tmp_path: Path) -> None:
    """Sessions and rows without windows can be read as of a version."""
    with check_in_this_process(), served(tmp_path / "s", window=SESSION) as made:
        made.commit({"key": "a", "start": 1, "end": 9}, {"key": "a", "start": 20, "end": 30})
        made.commit(
            {"key": "a", "start": 1, "end": 9, "deleted": True},
            {"key": "a", "start": 20, "end": 30, "deleted": True},
            {"key": "a", "start": 1, "end": 30},
        )
        assert starts(made.get(f"{ROOT}/findSessions/a?as_of_version=1&earliest_end_ms=9")) == [
            1, 20,
        ]  # fmt: skip
        assert starts(made.get(f"{ROOT}/backwardFindSessions/a?as_of_version=2")) == [1]
        assert starts(made.get(f"{ROOT}/session/20/30/a?as_of_version=1")) == [20]
        missing = made.get(f"{ROOT}/session/20/30/a?as_of_version=2")
        assert_problem(missing, 404, "window-not-found")
    with check_in_this_process(), served(tmp_path / "r", window=NONE) as made:
        made.commit({"key": "a", "n": 1})
        made.commit({"key": "a", "n": 2})
        rows = [made.get(f"{ROOT}/get/a?as_of_version={v}").json["rows"][0] for v in (1, 2)]
        assert [row["n"] for row in rows] == [1, 2]


def test_pages_stay_on_their_version(grown: Served) -> None:
    """The next page has the same version after a commit, and a cursor is bound to its version."""
    first = grown.get(f"{ROOT}/fetch/a?as_of_version=1&limit=2").json
    grown.commit({"key": "a", "start": 31})
    cursor = first["next_cursor"]
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=1&cursor={cursor}")) == [30]
    other = grown.get(f"{ROOT}/fetch/a?as_of_version=2&cursor={cursor}")
    assert_problem(other, 400, "invalid-cursor")


def test_retention_is_that_of_the_version(tmp_path: Path) -> None:
    """A window that expired later is visible in the version before."""
    with check_in_this_process(), served(tmp_path, retention_ms=15) as made:
        made.table.commit([{"key": "a", "start": s} for s in (10, 20)], _clock(0, 20))
        made.table.commit([{"key": "a", "start": 30}], _clock(1, 30))
        made.index()
        assert starts(made.get(f"{ROOT}/fetch/a")) == [20, 30]
        assert starts(made.get(f"{ROOT}/fetch/a?as_of_version=1")) == [10, 20]


def _clock(batch: int, observed_ms: int) -> Any:
    return make_record(batch, observed_ms=observed_ms)


def test_a_version_by_its_time(grown: Served) -> None:
    """`as_of_ms` selects the newest version that was committed by then."""
    committed = {}
    for version, time_ms in ((0, 1000), (1, 2000), (2, 3000)):
        path = grown.table.entry(version)
        actions = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = time_ms
        path.write_bytes(b"\n".join(map(orjson.dumps, actions)))
        committed[version] = time_ms
    expected = {1000: 0, 1999: 0, 2000: 1, 2500: 1, 3000: 2, 2**62: 2}
    for time_ms, version in expected.items():
        response = grown.get(f"{ROOT}/fetch/a?as_of_ms={time_ms}")
        assert response.json["position"]["version"] == version, time_ms
    assert_problem(grown.get(f"{ROOT}/fetch/a?as_of_ms=999"), 410, "version-gone", "1000")


def test_versions_that_there_are_not(grown: Served) -> None:
    """A future version is a 404, and a deleted one a 410 that names the available versions."""
    late = grown.get(f"{ROOT}/fetch/a?as_of_version=3")
    assert_problem(late, 404, "version-not-found", "version 2")
    compact(grown.table)
    grown.commit({"key": "a", "start": 50})
    for version in (0, 1, 2):
        old = grown.get(f"{ROOT}/fetch/a?as_of_version={version}")
        assert_problem(old, 410, "version-gone", "from 3 to 4")
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=3")) == [10, 30, 40]
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=4")) == [10, 30, 40, 50]


def test_a_version_whose_files_were_vacuumed_is_unavailable(grown: Served) -> None:
    """A version whose files were vacuumed is a 410 for all keys, although its entry exists."""
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=2")) == [10, 30, 40]
    DeltaTable(grown.table.path).delete("key = 'b'")
    vacuum(grown.table)
    for key in ("a", "b", "none"):
        missing = grown.get(f"{ROOT}/fetch/{key}?as_of_version=2")
        assert_problem(missing, 410, "version-gone", "from 3 to 3")
    # The deletion did not remove the file of this version.
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=1")) == [10, 20, 30]


def test_a_version_of_a_checkpoint_alone(grown: Served) -> None:
    """A version with only a Delta checkpoint, without log entries, can be read."""
    clean_log(grown.table)
    grown.service.catalog.close()
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=2")) == [10, 30, 40]
    assert_problem(grown.get(f"{ROOT}/fetch/a?as_of_version=0"), 410, "version-gone", "2 to 2")


def test_the_past_needs_no_index(tmp_path: Path) -> None:
    """A version of the table can be read before the index is built."""
    with check_in_this_process(), served(tmp_path) as made:
        made.table.commit([{"key": "a", "start": 1}])
        assert_problem(made.get(f"{ROOT}/fetch/a"), 503, "store-not-ready")
        assert starts(made.get(f"{ROOT}/fetch/a?as_of_version=1")) == [1]


@pytest.mark.parametrize(
    "query",
    ["as_of_version=1&as_of_ms=5", "as_of_version=1&min_version=1", "as_of_ms=1&wait_ms=5",
     "as_of_version=1&min_offset=events:0:1", "as_of_version=-1", "as_of_version=x", "as_of_ms="],
)  # fmt: skip
def test_parameters_that_exclude_each_other_are_refused(grown: Served, query: str) -> None:
    """Parameters that exclude each other and versions that are not numbers are rejected."""
    for read in ("fetch/a", "keys"):
        assert_problem(grown.get(f"{ROOT}/{read}?{query}"), 400, "invalid-parameter", "as_of_")


def test_reads_are_limited_and_other_requests_do_not_wait(
    grown: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table reads above the limit are rejected at once, and hot reads do not wait for them."""
    hold = threading.Event()
    opened = TableVersions.open

    def held(self: TableVersions, version: int, budget: ReadBudget) -> Any:
        hold.wait(60)
        return opened(self, version, budget)

    monkeypatch.setattr(TableVersions, "open", held)
    places = TABLE_READS_AT_ONCE + TABLE_READS_WAITING

    async def crowd() -> None:
        call = grown.client.call
        reads = [asyncio.ensure_future(call(f"{ROOT}/fetch/a?as_of_version=2"))
                 for _ in range(places)]  # fmt: skip
        waiting = grown.service.catalog.table_reads._places
        await wait_in_loop(lambda: waiting._value, "free places of reads", lambda free: free == 0)
        refused = await call(f"{ROOT}/keys?as_of_version=2")
        assert_problem(refused, 503, "table-reads-busy", str(places))
        assert (await call(f"{ROOT}/latest/a")).status == 200
        hold.set()
        assert {response.status for response in await asyncio.gather(*reads)} == {200}
        assert (await call(f"{ROOT}/keys?as_of_version=2")).status == 200

    asyncio.run(crowd())


def test_a_read_that_takes_too_long_is_given_up(
    grown: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table read above its time limit is canceled, also if it hangs."""
    monkeypatch.setattr(table_reads, "TABLE_READ_SECONDS", -1.0)
    response = grown.get(f"{ROOT}/fetch/a?as_of_version=1")
    assert_problem(response, 503, "table-read-timeout")
    hold = threading.Event()
    monkeypatch.setattr(table_reads, "TABLE_READ_SECONDS", 0.01)
    monkeypatch.setattr(TableVersions, "open", lambda *_: hold.wait(60))
    assert_problem(grown.get(f"{ROOT}/fetch/a?as_of_version=1"), 503, "table-read-timeout")
    hold.set()


def test_a_damaged_file_is_reported_and_others_are_read(grown: Served) -> None:
    """A damaged file is named in the problem, and other versions can be read."""
    entry = DeltaLog(grown.table.path).read(2)
    assert entry is not None
    (name,) = entry.added
    (grown.table.path / name).write_bytes(b"no Parquet")
    response = grown.get(f"{ROOT}/fetch/b?as_of_version=2")
    assert_problem(response, 503, "table-damaged", name)
    assert starts(grown.get(f"{ROOT}/fetch/a?as_of_version=1")) == [10, 20, 30]
