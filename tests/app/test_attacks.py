"""Tests of requests and directories that once broke the service."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from oriel.app.contract.parameters import REPEATS_MAX
from oriel.storage import DataLayout
from oriel.storage.tailer import StoreStatus
from tests.app.api_client import Served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import make_definition

ROOT = "/v1/stores/store"


@pytest.mark.parametrize(
    "path", ["/v1%2Fstores/store", "/v1/stores%2Fstore", "/v1%2fstores%2fstore", "/v1/stores/a%2Fb"]
)
@pytest.mark.parametrize("rest", ["", "/keys"])
def test_an_encoded_slash_is_never_a_slash_of_the_path(
    filled: Served, path: str, rest: str
) -> None:
    """An encoded slash never separates path segments, so the route or the store is unknown."""
    response = filled.get(path + rest)
    assert_problem(
        response, 404, "unknown-store" if path.startswith("/v1/stores/") else "unknown-route"
    )


def test_a_name_may_be_percent_encoded(filled: Served) -> None:
    """A store name can be percent-encoded in every route."""
    assert filled.get("/v1/stores/s%74ore").json["store"] == "store"
    assert filled.get("/v1/stores/s%74ore/keys").json["keys"] == ["a"]
    assert starts(filled.get("/v1/stores/s%74ore/latest/%61")) == [50]


@pytest.fixture
def locked(store: Served, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a table directory without read permission.

    The error is simulated, because root can read every directory.
    """
    directory = DataLayout(store.data).tables / "locked"
    directory.mkdir()

    def refusing(look: Callable[..., Any]) -> Callable[..., Any]:
        def refused(path: Any) -> Any:
            if directory in Path(path).parents:
                raise PermissionError(13, "Permission denied", str(path))
            return look(path)

        return refused

    monkeypatch.setattr(Path, "is_dir", refusing(Path.is_dir))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    return "locked"


def test_a_directory_without_permissions_fails_no_request(store: Served, locked: str) -> None:
    """A table directory without permissions does not count as a store, and no request fails."""
    names = [summary["store"] for summary in store.get("/v1/stores").json["stores"]]
    assert names == ["store"]
    assert_problem(store.get(f"/v1/stores/{locked}"), 404, "unknown-store", "store")
    assert store.get("/readyz").json["stores"].keys() == {"store"}


def test_a_store_without_access_to_its_table_continues(store: Served, locked: str) -> None:
    """A store with an index stays in the list, although its table cannot be read."""
    DataLayout(store.data).index(locked).mkdir()
    names = [summary["store"] for summary in store.get("/v1/stores").json["stores"]]
    assert names == ["locked", "store"]
    assert_problem(store.get(f"/v1/stores/{locked}"), 503, "store-not-ready")


def test_a_foreign_table_is_reported_and_the_service_stays_ready(store: Served) -> None:
    """A foreign Delta table is listed with a problem, and the service stays ready."""
    write_deltalake(DataLayout(store.data).tables / "sales", pa.table({"n": [1]}))
    store.tailer_says(StoreStatus("following", 0))
    stores = {one["store"]: one for one in store.get("/v1/stores").json["stores"]}
    assert stores["sales"]["problem"] == "this Delta table is not a store of Oriel"
    assert (stores["store"]["ready"], stores["sales"]["ready"]) == (True, False)
    response = store.get("/readyz")
    assert (response.status, response.json["stores"].keys()) == (200, {"store"})
    assert_problem(store.get("/v1/stores/sales/keys"), 404, "unknown-store", "is not a store")


@pytest.mark.parametrize("damage", ["another entry", "directory"])
def test_a_table_with_a_damaged_first_entry_fails_no_request(store: Served, damage: str) -> None:
    """A damaged first entry of one table affects neither the list nor other stores."""
    store.commit({"key": "a", "start": 1})
    store.add(make_definition("other"), {"key": "a", "start": 1})
    entry = store.table.entry(0)
    entry.unlink()
    if damage == "another entry":
        entry.write_bytes(store.table.entry(1).read_bytes())
    else:
        entry.mkdir()
    for name in ("store", "other"):
        assert store.get(f"/v1/stores/{name}").status in {200, 503}
    assert starts(store.get("/v1/stores/other/all")) == [1]
    assert [one["store"] for one in store.get("/v1/stores").json["stores"]] == ["other", "store"]
    assert store.get("/metrics").status == 200


def test_a_parameter_repeats_a_bounded_number_of_times(filled: Served) -> None:
    """A parameter can be repeated up to the limit, and once more is rejected."""
    most = "&".join(["min_offset=events:0:1"] * REPEATS_MAX)
    assert starts(filled.get(f"{ROOT}/latest/a?{most}")) == [50]
    response = filled.get(f"{ROOT}/latest/a?{most}&min_offset=events:0:1")
    assert_problem(response, 400, "invalid-parameter", f"at most {REPEATS_MAX} times")


def test_every_line_of_if_none_match_counts(filled: Served) -> None:
    """Several If-None-Match fields are one list."""
    tag = filled.get(f"{ROOT}/latest/a").headers["etag"]
    for tags in (['"other"', tag], [tag, '"other"']):
        fields = [("If-None-Match", one) for one in tags]
        assert filled.get(f"{ROOT}/latest/a", fields).status == 304
