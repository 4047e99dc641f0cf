"""The dashboard page at ``/``: one self-contained HTML file, no external resources."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response

from oriel.app.contract import operation_extras

_PAGE = Path(__file__).with_name("dashboard.html")

#: The page may load nothing from elsewhere and run nothing but its own script.
_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


def dashboard_routes() -> APIRouter:
    """Make the route of the page."""
    router = APIRouter(tags=["dashboard"])
    page = _PAGE.read_bytes()
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}

    @router.get(
        "/",
        operation_id="dashboard",
        summary="The dashboard, a web page",
        response_class=Response,
        **_page_extras(),
    )
    async def dashboard() -> Response:
        """One page that shows the windows of a store as they change."""
        return Response(page, headers=headers, media_type="text/html; charset=utf-8")

    return router


def _page_extras() -> dict[str, Any]:
    extras = operation_extras("dashboard")
    extras["responses"][200] = {
        "description": "The page",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
    return extras
