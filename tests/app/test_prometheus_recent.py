"""PromQL over the columns of recent windows, which follow a changing store."""

import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from deltalake import write_deltalake

from oriel.app.contract import PROMETHEUS_PATH as PATH
from oriel.app.prometheus import recent
from oriel.app.prometheus.recent import RecentColumns
from oriel.app.reads import changes
from oriel.storage import StoreKind, WindowSpec
from tests.app.api_client import Served, served
from tests.app.prometheus_model import ModelStore, random_expression
from tests.app.test_prometheus_model import agree, samples_of
from tests.campaigns import seeds
from tests.storage.store_tables import HOPPING, SESSION, SLIDING, TUMBLING

_KEYS = ("a", "ab", "b", "é", "", "c/d")


class Builds:
    """Counts how often columns are read from the whole index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        self.count = 0
        build = RecentColumns._built

        async def counted(columns: RecentColumns, *args: Any) -> Any:
            self.count += 1
            return await build(columns, *args)

        monkeypatch.setattr(RecentColumns, "_built", counted)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Return the counter of builds. Columns of any size are kept."""
    monkeypatch.setattr(recent, "ROWS_MIN", 1)
    return Builds(monkeypatch)


class _Changing:
    """A store that changes, and its visible windows as a plain list."""

    def __init__(self, store: Served, choice: random.Random) -> None:
        self.store = store
        self._choice = choice
        self._windows: dict[tuple[str, int, int], dict[str, Any]] = {}
        self._observed_ms = 0

    def commit(self, spec: WindowSpec, now_ms: int) -> None:
        """Commit new, changed and removed windows."""
        rows = {}
        for _ in range(self._choice.randrange(1, 12)):
            start = max(0, now_ms - self._choice.randrange(60))
            if spec.kind in {StoreKind.TUMBLING, StoreKind.HOPPING}:
                start -= start % (spec.advance_ms or spec.size_ms)
            end = start + spec.size_ms
            if spec.kind.is_session:
                end = start + self._choice.randrange(30)
            identity = self._choice.choice(_KEYS), start, end
            if self._windows and self._choice.random() < 0.3:
                identity = self._choice.choice([*self._windows])
            rows[identity] = {
                "key": identity[0], "start": identity[1], "end": identity[2],
                "timestamp": self._choice.randint(*identity[1:]),
                "n": self._choice.choice((None, self._choice.randrange(10**6))),
                "mean": self._choice.randrange(10**6) / 8,
                "deleted": self._choice.random() < 0.2,
            }  # fmt: skip
        self.store.commit(*rows.values())
        for identity, row in rows.items():
            self._windows.pop(identity, None)
            if not row["deleted"]:
                self._windows[identity] = row
            _key, start, end = identity
            observed_ms = end if spec.kind.expires_by_end else start
            self._observed_ms = max(self._observed_ms, observed_ms)

    def model(self) -> ModelStore:
        """Return the visible windows."""
        definition = self.store.definition
        retention_ms = definition.retention_ms
        name = "end" if definition.window.kind.expires_by_end else "start"
        visible = [
            row for row in self._windows.values()
            if retention_ms is None or row[name] > self._observed_ms - retention_ms
        ]  # fmt: skip
        return ModelStore(definition, visible, lambda key: [key])


@seeds(8, 150)
def test_queries_follow_a_changing_store(tmp_path: Path, builds: Builds, seed: int) -> None:
    """Changed, new, removed and expired windows are in the next result, without a new read."""
    choice = random.Random(seed)
    spec = (HOPPING, SESSION, SLIDING, TUMBLING)[seed % 4]
    with served(tmp_path, choice.choice((None, 100)), spec) as store:
        changing = _Changing(store, choice)
        now_ms, queries = 100, 0
        changing.commit(spec, now_ms)
        for _ in range(25):
            now_ms += choice.choice((0, 1, 5, 20))
            changing.commit(spec, now_ms)
            if choice.random() < 0.3:
                continue
            model = changing.model()
            if not model.windows:
                continue
            text, function = random_expression(choice, model)
            times = list(range(now_ms - 60, now_ms + 20, 10))
            bounds = f"start={times[0] / 1000}&end={times[-1] / 1000}&step=10ms"
            response = store.get(f"{PATH}/query_range?query={quote(text)}&{bounds}")
            assert response.status == 200, response.body
            found = samples_of(response.json, times)
            for time_ms in times:
                assert agree(found[time_ms], function(time_ms)), (text, time_ms)
            queries += 1
        assert queries > 5
        # An offset can need an earlier range.
        assert builds.count < queries


def _sum(store: Served) -> str:
    response = store.get(f"{PATH}/query?query=sum(store_n)&time=0.1")
    assert response.status == 200, response.body
    result = response.json["data"]["result"]
    return str(result[0]["value"][1]) if result else ""


def test_changes_that_are_unknown_read_the_windows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    """Rows of other programs and many versions read the windows again."""
    with served(tmp_path, window=TUMBLING) as store:
        store.commit({"key": "a", "start": 90, "n": 1})
        assert _sum(store) == "1"
        store.commit({"key": "b", "start": 90, "n": 2})
        assert _sum(store) == "3"
        assert builds.count == 1
        foreign = store.table.arrow([{"key": "c", "start": 90, "n": 4, "revision": 0}])
        write_deltalake(store.table.path, foreign, mode="append")
        store.index()
        assert _sum(store) == "7"
        assert builds.count == 2
        monkeypatch.setattr(changes, "VERSIONS_MAX", 1)
        store.commit({"key": "d", "start": 90, "n": 8})
        store.commit({"key": "e", "start": 90, "n": 16})
        assert _sum(store) == "31"
        assert builds.count == 3


def test_small_and_huge_reads_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    """Columns are kept if they are worth their memory, and within its limit."""
    with served(tmp_path, window=TUMBLING) as store:
        store.commit(*({"key": key, "start": 90, "n": 1} for key in _KEYS))
        for name, limit in (("ROWS_MIN", 7), ("ROWS_MAX", 5)):
            with monkeypatch.context() as patched:
                patched.setattr(recent, name, limit)
                before = builds.count
                assert [_sum(store), _sum(store)] == ["6", "6"]
                assert builds.count == before + 2


def test_a_query_reads_one_version(tmp_path: Path, builds: Builds) -> None:
    """Both selectors of a query have one version, although only the first one needs a read."""
    with served(tmp_path, window=TUMBLING) as store:
        store.commit({"key": "a", "start": 90, "n": 3})
        query = "store_n - store_mean * 2 + store_n offset 1ms"
        response = store.get(f"{PATH}/query?query={quote(query)}&time=0.105")
        assert response.json["data"]["result"][0]["value"][1] == "3"
        assert builds.count < 3
