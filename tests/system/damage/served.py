"""Read every store of a data directory like the service: ``main([DATA])`` prints it as JSON.

Each store is read twice. A worker can read the index before the tailer has checked it, and also
after the tailer has updated it. With ``main([DATA, "versions"])``, the program prints the rows of
each version of each table instead.
"""

import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from oriel.app.server import Service
from oriel.storage import DataLayout
from oriel.storage.delta import LOG_DIRECTORY, DeltaLog
from oriel.storage.index import IndexDirectory
from oriel.storage.tailer import require_verifications
from oriel.storage.tailer.store import StoreTailer
from oriel.storage.tailer.tables import stores_with_tables
from tests.app.api_client import ApiClient

#: Number of tailer steps until it follows its table or has failed.
_STEPS_MAX = 50
_DONE = {"following", "failed"}


def main(arguments: list[str]) -> int:
    """Print the rows of each store, or the errors, before and after the tailer's work."""
    logging.disable(logging.CRITICAL)
    layout = DataLayout(Path(arguments[0]))
    stores = stores_with_tables(layout)
    if arguments[1:]:
        versions = {store: _versions(layout, store) for store in stores}
        sys.stdout.write(orjson.dumps(versions).decode())
        return 0
    # The supervisor does the same before it starts a worker.
    require_verifications(layout)
    before = _read(layout, stores)
    problems = {store: follow(layout, store) for store in stores}
    after = _read(layout, stores)
    for store, problem in problems.items():
        if problem is not None:
            after[store]["problem"] = problem
    sys.stdout.write(orjson.dumps({"before": before, "after": after}).decode())
    return 0


def follow(layout: DataLayout, store: str) -> str | None:
    """Update a store's index to the newest version, and return the tailer's problem or None."""
    tailer = StoreTailer(DeltaLog(layout.table(store)), IndexDirectory(layout.index(store)))
    try:
        for _ in range(_STEPS_MAX):
            tailer.advance()
            if tailer.status.state in _DONE:
                break
        return tailer.status.problem
    finally:
        tailer.close()


def _versions(layout: DataLayout, store: str) -> list[dict[str, Any]]:
    """Read each version of a table from a copy whose log ends with this version."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        copy = DataLayout(Path(directory))
        shutil.copytree(layout.table(store), copy.table(store))
        for version in reversed(DeltaLog(copy.table(store)).versions()):
            for path in (copy.table(store) / LOG_DIRECTORY).iterdir():
                number = path.name.partition(".")[0]
                if not number.isdecimal() or int(number) > version:
                    path.unlink()
            follow(copy, store)
            found.append(_read(copy, [store])[store])
            shutil.rmtree(copy.indexes)
    return found


def _read(layout: DataLayout, stores: list[str]) -> dict[str, dict[str, Any]]:
    service = Service(layout.root)
    client = ApiClient(service)
    try:
        return {store: _rows(client, store) for store in stores}
    finally:
        service.catalog.close()


def _rows(client: ApiClient, store: str) -> dict[str, Any]:
    """Return all rows of a store, or the status and the text of the error."""
    rows: list[Any] = []
    cursor = ""
    while True:
        response = client.get(f"/v1/stores/{store}/all?limit=1000{cursor}")
        if response.status != 200:
            return {"status": response.status, "error": response.json.get("detail", "")}
        page = response.json
        rows += page.get("windows", page.get("rows"))
        if page["next_cursor"] is None:
            return {"rows": rows, "offsets": page["position"]["offsets"]}
        cursor = f"&cursor={page['next_cursor']}"
