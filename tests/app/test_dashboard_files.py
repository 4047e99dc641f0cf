"""Tests of the dashboard's files as the service returns them."""

import re

import pytest

from oriel.app.page import dashboard
from tests.app.api_client import Served

_FILES = {
    path.relative_to(dashboard._FILES).as_posix()
    for path in dashboard._FILES.rglob("*")
    if path.is_file()
}


def test_every_file_has_a_route_and_a_type(empty_store: Served) -> None:
    """Each file has a route and its media type, including the license of the vendored code."""
    types = {
        "js": "text/javascript",
        "css": "text/css",
        "svg": "image/svg+xml",
        "txt": "text/plain",
    }
    for name in _FILES - {"dashboard.html"} | {"operations.js"}:
        response = empty_store.get(f"/page/{name}")
        assert response.status == 200, name
        assert response.headers["content-type"].split(";")[0] == types[name.rpartition(".")[2]]
        assert "content-security-policy" in response.headers
    assert "MIT License" in empty_store.get("/page/vendor/LICENSE-uplot.txt").body.decode()


def test_the_page_runs_nothing_that_stands_in_it(empty_store: Served) -> None:
    """The page has no inline script or style and no external URL, and its policy forbids them."""
    response = empty_store.get("/")
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    page = response.body.decode()
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=|https?://", page)


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
def test_a_browser_with_a_cached_file_receives_304(empty_store: Served, path: str) -> None:
    """If-None-Match can list several ETags, and the response to a matching one is 304."""
    first = empty_store.get(path)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    again = empty_store.get(path, [("If-None-Match", f'"older", W/{tag}')])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == tag
    assert empty_store.get(path, [("If-None-Match", '"older"')]).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page/", "/page/dashboard.html", "/page/dashboard.py", "/page/../dashboard.py",
        "/page/%2e%2e/dashboard.py", "/page/..%2fdashboard.py", "/page//etc/passwd",
        "/page/base/../main.js", "/page/MAIN.JS", "/page/main.js/",
    ],
)  # fmt: skip
def test_no_path_leaves_the_directory(empty_store: Served, path: str) -> None:
    """Only the files of the dashboard have a route."""
    assert empty_store.get(path).status == 404


def test_the_page_knows_the_paths_of_the_operations(empty_store: Served) -> None:
    """The paths of the operations are served as a module, so page and service agree."""
    module = empty_store.get("/page/operations.js").body.decode()
    assert module.startswith("export const OPERATIONS = {")
    assert '"currentAll":{"path":"/v1/stores/{store}/currentAll"' in module
