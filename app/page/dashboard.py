"""The dashboard page at ``/``: one self-contained HTML file, no external resources."""

from pathlib import Path

import orjson
from fastapi import APIRouter, Response

from oriel.app.contract import OPERATIONS

_PAGE = Path(__file__).with_name("dashboard.html")
#: Where the page's script finds the operations: their paths, and the kinds of stores they fit.
_OPERATIONS_HERE = b"{{operations}}"

#: The page may load nothing from elsewhere and run nothing but its own script.
_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def dashboard_routes() -> APIRouter:
    """Make the route of the page that shows the windows of a store as they change."""
    router = APIRouter()
    operations = {
        name: {"path": operation.path, "storeKinds": sorted(operation.store_kinds)}
        for name, operation in OPERATIONS.items()
    }
    before, after = _PAGE.read_bytes().split(_OPERATIONS_HERE)
    page = before + orjson.dumps(operations) + after
    headers = {
        "content-security-policy": _POLICY,
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
    }

    @router.get(OPERATIONS["dashboard"].path)
    async def dashboard() -> Response:
        return Response(page, headers=headers, media_type="text/html; charset=utf-8")

    return router
