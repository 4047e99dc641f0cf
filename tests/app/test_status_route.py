"""Tests of the status of pipelines and stores over HTTP."""

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from oriel.app.routes import status
from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage.monitoring import StoreRun
from oriel.storage.tailer import StoreStatus
from tests.app.api_client import ApiClient, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.test_access import token_in
from tests.storage.store_tables import make_definition, make_record

RECORD = make_record(
    3,
    offsets={"events": {"0": 40, "1": 10}, "other": {"0": 3}},
    stream_time_ms={"events": {"0": 9_000, "1": 7_000}, "other": {"0": 8_000}},
    close_ms=6_995,
    counters={"input": 50, "applied": 44, "late": 3, "dead_lettered": 2, "filtered": 1},
)
LOG_ENDS = {"events": {"0": 100, "1": 10}, "other": {"0": 3}}


def _status(made: Served) -> Any:
    response = made.get("/v1/status")
    assert response.status == 200, response.body
    return response.json


def test_the_status_has_pipelines_and_stores(store: Served) -> None:
    """One response has the state and lag of each pipeline, and what each store waits for."""
    store.tailer_says(StoreStatus("following", 0))
    run = StoreRun(RECORD, 7, 2, ("events#2", 1), {"other": [0]}, 4)
    file = store.pipeline_says(
        stores={"store": run, "to(sink)": run}, log_ends=LOG_ENDS, records_per_second=2.5
    )
    seen = _status(store)
    assert seen["problem"] is None
    table = [file for file in (store.data / "tables" / "store").rglob("*") if file.is_file()]
    said = file.read()
    assert said is not None
    (pipeline,) = seen["pipelines"]
    assert pipeline == {
        "pipeline": "flights",
        "state": "running",
        "problem": None,
        "seen_ms": file.seen_ms(),
        "batch_ms": said[0].batch_ms,
        "batches": 4,
        "records_per_second": 2.5,
        "log_end_ms": said[0].log_ends_ms,
        "lag": 60,
        "lag_unit": "records",
        "lag_ms": seen["time_ms"] - 9_000,
        "stores": ["store"],
    }
    assert seen["stores"] == [
        {
            "store": "store",
            "pipeline": "flights",
            "open_records": 7,
            "state_bytes": 0,
            "table_bytes": sum(file.stat().st_size for file in table),
            "files": len(table),
            "lag": 60,
            "lag_ms": seen["time_ms"] - 9_000,
            "stream_time_ms": 9_000,
            "held_by": {"topic": "events", "partition": 1, "stream_time_ms": 7_000},
            "idle": [{"topic": "other", "partition": 0}],
            "close_ms": 6_995,
            "counters": RECORD.counters,
            "ready": True,
            "problem": None,
        }
    ]


def test_a_stopped_pipeline_has_an_unknown_lag(store: Served) -> None:
    """The status says since when the pipeline does not run, and reports no lag."""
    stores = {"store": StoreRun(RECORD, 7, 2)}
    store.pipeline_says(stores=stores, log_ends=LOG_ENDS, has_ended=True, records_per_second=2.5)
    seen = _status(store)
    (pipeline,), (one,) = seen["pipelines"], seen["stores"]
    assert pipeline["state"] == "stopped"
    assert "Start it" in pipeline["problem"]
    assert [pipeline[name] for name in ("lag", "lag_ms", "records_per_second")] == [None] * 3
    assert (one["lag"], one["lag_ms"]) == (None, None)
    assert pipeline["log_end_ms"] > 0


def test_a_store_that_no_pipeline_reports_has_unknown_numbers(store: Served) -> None:
    """Without a pipeline status, a store's status only has facts of the tailer and the table."""
    seen = _status(store)
    assert seen["pipelines"] == []
    assert "tailer" in seen["problem"]
    (one,) = seen["stores"]
    assert (one["store"], one["pipeline"], one["ready"]) == ("store", None, False)
    assert [one[name] for name in ("open_records", "lag", "held_by")] == [None] * 3
    assert "not opened" in one["problem"]


def test_a_topic_without_a_record_keeps_windows_open(store: Served) -> None:
    """If a topic without records keeps windows open, its partition and time are null."""
    store.pipeline_says(stores={"store": StoreRun(RECORD, 7, 2, ("empty", -1))})
    (one,) = _status(store)["stores"]
    assert one["held_by"] == {"topic": "empty", "partition": None, "stream_time_ms": None}


def test_a_table_that_is_not_a_store_has_no_status(store: Served) -> None:
    """Only stores are in the status, as in the readiness response."""
    log = store.data / "tables" / "foreign" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_bytes(b'{"metaData":{"id":"x","configuration":{}}}\n')
    assert [one["store"] for one in _status(store)["stores"]] == ["store"]


def test_a_status_that_cannot_be_read_is_a_problem_in_words(
    store: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the service cannot read the checkpoints, the response has the problem."""

    def not_permitted(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(status, "overview", not_permitted)
    seen = _status(store)
    assert "checkpoints: cannot read the directory: Permission denied. Let" in seen["problem"]
    assert (seen["pipelines"], seen["stores"]) == ([], [])


def test_a_damaged_table_does_not_hide_other_stores(store: Served) -> None:
    """A store whose log cannot be read has unknown numbers."""
    store.add(make_definition("other"))
    store.table.commit()
    store.table.entry(1).write_text('{"add":{"path":"../outside"}}\n')
    assert [one["store"] for one in _status(store)["stores"]] == ["other", "store"]


@pytest.mark.parametrize("options", [(), ("--key-prefix", "a")])
def test_a_token_for_some_stores_sees_only_their_status(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The status omits other stores, and pipelines that only write other stores."""
    with served(tmp_path) as made:
        made.index()
        made.add(make_definition("other"))
        run = StoreRun(RECORD, 7, 2)
        made.pipeline_says("shown", stores={"store": run, "other": run})
        made.pipeline_says("hidden", stores={"third": run})
        made.service.catalog.close()
        file = tmp_path / "tokens.toml"
        bearer = token_in(file, "one", "--store", "store", *options)
        everything = token_in(file, "all")
        client = ApiClient(Service(tmp_path, ServiceSettings(tokens=str(file))))
        headers = [("Authorization", f"Bearer {bearer}")]
        seen = client.get("/v1/status", headers).json
        assert [(one["pipeline"], one["stores"]) for one in seen["pipelines"]] == [
            ("shown", ["store"])
        ]
        assert [one["store"] for one in seen["stores"]] == ["store"]
        seen = client.get("/v1/status", [("Authorization", f"Bearer {everything}")]).json
        assert [one["pipeline"] for one in seen["pipelines"]] == ["hidden", "shown"]
        assert_problem(client.get("/v1/status"), 401, "unauthorized", "has no token")
        client.service.catalog.close()


def test_the_status_has_no_parameters(store: Served) -> None:
    """An unknown parameter is an error, as for each operation."""
    assert_problem(store.get("/v1/status?x=1"), 400, "unknown-parameter", "x")
