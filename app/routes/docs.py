"""Serve Swagger UI for the OpenAPI document, with nothing from other servers."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse

from oriel.app.contract import OPERATIONS

#: Files of Swagger UI, from the package fastapi-swagger.
_FILES = Path(str(files("fastapi_swagger.resources")))
_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"

#: The page loads only from this service. It has a script and styles in its HTML.
_POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def docs_routes() -> APIRouter:
    """Return the routes of the page and its files."""
    router = APIRouter()
    path = OPERATIONS["docs"].path
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Oriel",
        swagger_js_url=f"{path}/{_SCRIPT}",
        swagger_css_url=f"{path}/{_STYLE}",
        swagger_favicon_url=f"{path}/{_ICON}",
    )
    headers = {
        "content-security-policy": _POLICY,
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
    }

    @router.get(path)
    async def docs() -> Response:
        return Response(page.body, headers=headers, media_type="text/html; charset=utf-8")

    for name in (_SCRIPT, _STYLE, _ICON):
        router.add_api_route(f"{path}/{name}", _file_endpoint(_FILES / name))
    return router


def _file_endpoint(file: Path) -> Callable[[], Awaitable[Response]]:
    """Return the endpoint of one file."""

    async def endpoint() -> Response:
        return FileResponse(file, headers={"cache-control": "max-age=3600"})

    return endpoint
