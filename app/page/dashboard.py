"""The routes of the dashboard: the page at ``/`` and its files in ``/page/``.

Each file has its own route, which is created when the service starts. So no request can name a path
on disk.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS

_FILES = Path(__file__).with_name("files")
_PAGE = "dashboard.html"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

#: The page loads only its own files and sends requests only to this service. It has no inline code.
_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def dashboard_routes() -> APIRouter:
    """Return the routes of the dashboard page and its files."""
    router = APIRouter()
    page_path = OPERATIONS["dashboard"].path
    for file in sorted(_FILES.rglob("*")):
        if file.suffix not in _MEDIA_TYPES:
            continue
        name = file.relative_to(_FILES).as_posix()
        path = page_path if name == _PAGE else f"/page/{name}"
        router.add_api_route(path, _endpoint(file.read_bytes(), _MEDIA_TYPES[file.suffix]))
    router.add_api_route("/page/operations.js", _endpoint(_operations(), _MEDIA_TYPES[".js"]))
    return router


def _operations() -> bytes:
    """Return the operations with their paths and store kinds, as an ES module."""
    operations = {
        name: {"path": operation.path, "storeKinds": sorted(operation.store_kinds)}
        for name, operation in OPERATIONS.items()
    }
    return b"export const OPERATIONS = %b;\n" % orjson.dumps(operations)


def _endpoint(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of one file, which a browser caches and revalidates each time."""
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {
        "content-security-policy": _POLICY,
        "cache-control": "no-cache",
        # Weak, because one tag is valid for every content coding.
        "etag": f"W/{tag}",
        "referrer-policy": "no-referrer",
    }

    async def endpoint(request: Request) -> Response:
        known = request.headers.getlist("if-none-match")
        if any(tag in one or one.strip() == "*" for one in known):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    return endpoint
