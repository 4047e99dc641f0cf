"""Tests of the PromQL that users see: in the how-to page and in Grafana's dashboard of the demo."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from demo import flights
from oriel.app.contract import PROMETHEUS_PATH as PATH
from oriel.storage import AggregateSpec, StoreKind, WindowSpec
from tests.app.api_client import ApiResponse, Served, served
from tests.documentation.pages import blocks
from tests.storage.store_tables import make_definition
from tests.tidy.project import ROOT

_GRAFANA = ROOT / "monitoring" / "grafana"
_DASHBOARD = json.loads((_GRAFANA / "departures.json").read_text())
_END_S = 1357052400
_HALF_HOUR = WindowSpec(StoreKind.SLIDING, 1_800_000, 7_200_000)
_AGGREGATES = (
    AggregateSpec("departures", "count()", "long"),
    AggregateSpec("mean_delay", "avg(dep_delay)", "double"),
    AggregateSpec("worst_delay", "max(dep_delay)", "double"),
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the stores of the demo, each with windows of three keys that end at one time."""
    with served(tmp_path_factory.mktemp("demo")) as made:
        for name, keys in (
            ("departures_by_origin", ("EWR", "JFK", "LGA")),
            ("departures_by_carrier", ("AA", "B6", "UA")),
        ):
            definition = replace(make_definition(name, window=_HALF_HOUR), aggregates=_AGGREGATES)
            start = _END_S * 1000 - _HALF_HOUR.size_ms
            values = {"departures": 7, "mean_delay": 20.5, "worst_delay": 99.0}
            made.add(definition, *({"key": key, "start": start, **values} for key in keys))
        yield made


def _send(store: Served, operation: str, **parameters: object) -> ApiResponse:
    """Send a request as Grafana does."""
    response: ApiResponse = store.post(f"{PATH}/{operation}", urlencode(parameters).encode())
    return response


def _page_queries() -> list[str]:
    page = ROOT / "docs" / "how-to" / "plot-windows-in-grafana.md"
    found = [block for block in blocks(page) if block.language == "promql"]
    return [line for block in found for line in block.text.splitlines()]


def _dashboard_queries() -> list[str]:
    return [target["expr"] for panel in _DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("query", [*_page_queries(), *_dashboard_queries()])
def test_a_query_that_users_see_has_values(demo: Served, query: str) -> None:
    """The page and the panels have values for the windows of the demo."""
    # Grafana replaces a variable with all values by a pattern.
    query = query.replace("$origin", "EWR|JFK|LGA")
    response = _send(demo, "query", query=query, time=_END_S)
    assert response.status == 200, response.body
    assert response.json["data"]["result"]
    ranged = _send(demo, "query_range", query=query, start=_END_S, end=_END_S + 900, step="1m")
    assert len(ranged.json["data"]["result"][0]["values"]) == 16


def test_the_names_of_the_demo_are_the_names_of_its_topology() -> None:
    """The test uses the stores and aggregates that the demo has."""
    described = flights.topology.describe()
    for name in ("departures_by_origin", "departures_by_carrier", *(a.name for a in _AGGREGATES)):
        assert name in str(described)


def test_grafana_has_the_service_as_a_source() -> None:
    """The provisioned source is the service of the local stack, and the panels use it."""
    file = _GRAFANA / "provisioning" / "datasources" / "oriel.yml"
    (source,) = yaml.safe_load(file.read_text())["datasources"]
    compose: Any = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert source["url"] == "http://api:8080/prometheus"
    assert "--allowed-host=api" in compose["services"]["api"]["command"]
    assert {panel["datasource"]["uid"] for panel in _DASHBOARD["panels"]} == {source["uid"]}
    mounted = [mount.split(":")[1] for mount in compose["services"]["grafana"]["volumes"]]
    assert "/etc/grafana/dashboards/departures.json" in mounted


def test_the_requests_of_grafana_succeed(demo: Served) -> None:
    """The health check, the metric browser, variables and panels of Grafana."""
    assert _send(demo, "query", query="1+1", time=4).json["data"]["result"] == [4, "2"]
    bounds = f"start={_END_S - 3600}&end={_END_S}"
    lists = (
        f"label/__name__/values?{bounds}", f"labels?{bounds}", f"metadata?{bounds}",
        f"label/key/values?{bounds}&match%5B%5D=departures_by_origin_departures",
        f"series?{bounds}&match%5B%5D=departures_by_origin_departures", "status/buildinfo",
    )  # fmt: skip
    for target in lists:
        response = demo.get(f"{PATH}/{target}")
        assert response.json["status"] == "success"
        assert response.json["data"]
    form = {"match[]": '{__name__="departures_by_origin_departures"}', "start": _END_S - 3600,
            "end": _END_S}  # fmt: skip
    assert _send(demo, "labels", **form).json["data"] == ["__name__", "key", "store"]
