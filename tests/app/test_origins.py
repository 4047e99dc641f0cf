"""Tests of the origins whose pages can read responses (CORS)."""

from pathlib import Path

from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from tests.app.api_client import ApiClient, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.test_access import ROOT, token_in


def test_pages_of_configured_origins_can_read(tmp_path: Path) -> None:
    """Configured origins pass a preflight without a token and can read. Others get no header."""
    origin = "https://app.example"
    settings = ServiceSettings(
        tokens=str(tmp_path / "tokens.toml"), cors_origins=(origin,), allowed_hosts=("*",)
    )
    bearer = token_in(tmp_path / "tokens.toml", "all")
    with served(tmp_path) as made:
        made.commit({"key": "a", "start": 1})
        made.service.catalog.close()
        service = Service(tmp_path, settings)
        client = ApiClient(service)
        ask = [("Access-Control-Request-Method", "GET")]
        ask += [("Access-Control-Request-Headers", "authorization")]
        target = f"{ROOT}/latest/a"
        preflight = client.get(target, [("Origin", origin), *ask], "OPTIONS")
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, origin)
        sent = [("Authorization", f"Bearer {bearer}")]
        read = client.get(target, [("Origin", origin), *sent])
        assert (read.status, read.headers["access-control-allow-origin"]) == (200, origin)
        exposed = read.headers["access-control-expose-headers"].lower().split(", ")
        csv = client.get(f"{ROOT}/fetch/a?limit=1", [("Accept", "text/csv"), *sent])
        assert {name for name in csv.headers if name.startswith("oriel-")} <= {*exposed}
        assert {"etag", "oriel-next-cursor", "oriel-owner", "retry-after"} <= {*exposed}
        refused = client.get(target, [("Origin", origin)])
        assert refused.headers["access-control-allow-origin"] == origin
        assert_problem(refused, 401, "unauthorized")
        other = client.get(target, [("Origin", "https://other.example"), *sent])
        assert "access-control-allow-origin" not in other.headers
        service.catalog.close()


def test_without_configured_origins_no_header_is_sent(store: Served) -> None:
    """By default, no origin is allowed."""
    response = store.get(ROOT, [("Origin", "https://app.example")])
    assert "access-control-allow-origin" not in response.headers
