"""Reads of one store over HTTP, like a client's."""

from typing import Any
from urllib.parse import quote

import httpx

from tests.system.kills.expected_rows import Json

_PAGE = 61


class StoreReads:
    """The reads of one store."""

    def __init__(self, client: httpx.Client, store: str) -> None:
        self._client = client
        self._root = f"/v1/stores/{store}"

    def details(self) -> Json:
        """Return the description and the position of the store."""
        return self._good("")

    def keys(self) -> list[str]:
        """Return all keys."""
        found: list[str] = self._good("/keys")["keys"]
        return found

    def items(self, read: str, key: str, **parameters: int) -> list[Json]:
        """Return windows or rows of a read with one page (``session/3/4``, ``fetch`` ...)."""
        page = self._good(self._path(read, key), **parameters)
        assert page["next_cursor"] is None
        found: list[Json] = page["rows" if read == "get" else "windows"]
        return found

    def pages(self, read: str, key: str, **parameters: int) -> list[Json]:
        """Return the windows of all pages of a read."""
        found: list[Json] = []
        more: dict[str, Any] = {"limit": _PAGE}
        while True:
            page = self._good(self._path(read, key), **parameters, **more)
            assert len(page["windows"]) == _PAGE or page["next_cursor"] is None
            found += page["windows"]
            if page["next_cursor"] is None:
                return found
            more["cursor"] = page["next_cursor"]

    def all_pages(self, read: str, **parameters: Any) -> list[Json]:
        """Return the rows or windows of all pages of a read of many keys."""
        found: list[Json] = []
        more: dict[str, Any] = {"limit": 1000}
        while True:
            page = self._good(f"/{read}", **parameters, **more)
            found += page["rows"] if "rows" in page else page["windows"]
            if page["next_cursor"] is None:
                return found
            more["cursor"] = page["next_cursor"]

    def problem(self, read: str, key: str) -> tuple[int, str]:
        """Return status and code of a rejected read."""
        response = self._client.get(self._root + self._path(read, key))
        assert response.headers["content-type"] == "application/problem+json", response.text
        return response.status_code, response.json()["code"]

    @staticmethod
    def _path(read: str, key: str) -> str:
        return f"/{read}/{quote(key, safe='')}"

    def _good(self, path: str, **parameters: Any) -> Json:
        response = self._client.get(self._root + path, params=parameters)
        assert response.status_code == httpx.codes.OK, response.text
        page: Json = response.json()
        return page
