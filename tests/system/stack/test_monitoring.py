"""The profile ``monitoring``: Prometheus over the running stack.

Grafana is in no package registry, so these tests evaluate its dashboard with Prometheus.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.system.stack.compose import SERVICES, Stack
from tests.system.stack.images import make_base_image, make_prometheus_image
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

pytestmark = pytest.mark.e2e

_DASHBOARD = json.loads((ROOT / "monitoring" / "grafana" / "oriel.json").read_text())


class _Prometheus:
    """The HTTP API of Prometheus."""

    def __init__(self, stack: Stack) -> None:
        """Connect to the service of a stack."""
        self._engine, self._address = stack.engine, stack.address("prometheus", 9090)

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of a response."""
        response = self._engine.get(f"{self._address}/api/v1/{path}", params=parameters)
        assert response.status_code == httpx.codes.OK, response.text
        return response.json()["data"]


@pytest.fixture(scope="module")
def prometheus(stack: Stack) -> Iterator[_Prometheus]:
    """Yield a healthy Prometheus of the profile."""
    if stack.engine.network is not None:
        base = make_base_image(stack.engine)
        make_prometheus_image(stack.engine, SERVICES["prometheus"]["image"], base)
    stack.compose("--profile", "monitoring", "up", "--detach", "--no-deps", "prometheus")
    stack.wait_until_healthy("prometheus")
    yield _Prometheus(stack)
    stack.compose("--profile", "monitoring", "rm", "--stop", "--force", "prometheus")


def test_the_target_is_up(prometheus: _Prometheus) -> None:
    """Prometheus reads the metrics of the service."""
    wait_for(
        lambda: prometheus.get("targets")["activeTargets"],
        lambda targets: [target["health"] for target in targets] == ["up"],
        "a healthy target",
    )


def test_the_rules_load(prometheus: _Prometheus) -> None:
    """Prometheus evaluates every alert of the file without an error."""
    text = (ROOT / "monitoring" / "prometheus" / "alerts.yml").read_text()
    rules = wait_for(
        lambda: [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]],
        lambda rules: {rule["health"] for rule in rules} == {"ok"},
        "evaluated rules",
    )
    assert len(rules) == text.count("- alert:")


def test_no_alert_is_about_the_late_records_of_the_demo(prometheus: _Prometheus) -> None:
    """The demo's share of late flights, 1.2 percent, is below the limit of the alert."""
    rules = yaml.safe_load((ROOT / "monitoring" / "prometheus" / "alerts.yml").read_text())
    (late,) = (
        rule["expr"] for group in rules["groups"] for rule in group["rules"]
        if rule["alert"] == "OrielManyLateRecords"
    )  # fmt: skip
    share = late.rpartition(" > ")[0]
    wait_for(
        lambda: prometheus.get("query", query=share)["result"],
        lambda shares: any(float(one["value"][1]) > 0 for one in shares),
        "late records",
    )
    assert prometheus.get("query", query=late)["result"] == []


def test_every_expression_of_the_dashboard_returns_data(prometheus: _Prometheus) -> None:
    """Each panel of Grafana has data while flights arrive."""
    expressions = {
        f"{panel['title']}: {target['expr']}": target["expr"].replace("$store", ".+")
        for panel in _DASHBOARD["panels"]
        for target in panel.get("targets", [])
    }
    assert expressions
    wait_for(
        lambda: [
            title for title, expression in expressions.items()
            if not prometheus.get("query", query=expression)["result"]
        ],
        lambda empty: empty == [],
        "data for each expression",
    )  # fmt: skip
