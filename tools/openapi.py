"""Write the files that follow from the service's operations: ``python -m tools.openapi``.

The files are openapi/oriel.json, the pages docs/reference/http-api.md and
docs/reference/error-codes.md (``tools.api_pages``), the table in docs/reference/requests.md and the
table of reads by store kind in docs/reference/reads.md. Each table is between two comments. You
write the text around it by hand. A test compares the committed files with the output.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from oriel.app.contract import (
    OPERATIONS,
    POSITION_QUERY,
    describe,
    document_bytes,
    reads_of_kind,
)
from oriel.storage import StoreKind
from tools.api_pages import api_page, error_page

_ROOT = Path(__file__).parents[1]

OPENAPI_FILE = _ROOT / "openapi" / "oriel.json"

#: Methods of Kafka Streams' read-only stores, by the read with the same result.
_KAFKA_METHODS = {
    "fetch": "fetch(key, timeFrom, timeTo)",
    "backwardFetch": "backwardFetch(key, timeFrom, timeTo)",
    "window": "fetch(key, time)",
    "fetchRange": "fetch(keyFrom, keyTo, timeFrom, timeTo)",
    "backwardFetchRange": "backwardFetch(keyFrom, keyTo, timeFrom, timeTo)",
    "fetchAll": "fetchAll(timeFrom, timeTo)",
    "backwardFetchAll": "backwardFetchAll(timeFrom, timeTo)",
    "all": "all()",
    "backwardAll": "backwardAll()",
    "findSessions": "findSessions(key, earliestEnd, latestStart)",
    "backwardFindSessions": "backwardFindSessions(key, earliestEnd, latestStart)",
    "findSessionsRange": "findSessions(keyFrom, keyTo, earliestEnd, latestStart)",
    "backwardFindSessionsRange": "backwardFindSessions(keyFrom, keyTo, earliestEnd, latestStart)",
    "session": "fetchSession(key, start, end)",
    "fetchSession": "fetchSession(key, start, end)",
    "get": "get(key)",
    "range": "range(from, to)",
    "reverseRange": "reverseRange(from, to)",
    "reverseAll": "reverseAll()",
    "prefixScan": "prefixScan(prefix)",
    "approximateNumEntries": "approximateNumEntries()",
    "versions": "MultiVersionedKeyQuery(key)",
    "backwardVersions": "MultiVersionedKeyQuery(key), descending",
}

_BEGIN = "<!-- Written by `python -m tools.openapi`. -->\n"
_END = "<!-- End of the generated table. -->\n"


def main() -> int:
    """Write the committed files."""
    for path, content in written_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return 0


def written_files() -> Mapping[Path, bytes]:
    """Return each committed file with its content."""
    document = describe()
    pages = _ROOT / "docs" / "reference"
    requests, reads = pages / "requests.md", pages / "reads.md"
    return {
        OPENAPI_FILE: document_bytes(document),
        pages / "http-api.md": api_page(document).encode(),
        pages / "error-codes.md": error_page().encode(),
        requests: _with_table(requests, _requests()),
        reads: _with_table(reads, _reads_by_kind()),
    }


def _requests() -> str:
    """Return one row per operation, without the parameters of the position."""
    rows = ["| request | summary |", "|---|---|"]
    for operation in OPERATIONS.values():
        own = [p for p in operation.query.parameters if p not in POSITION_QUERY.parameters]
        query = "&".join(f"{parameter.name}=" for parameter in own)
        request = operation.path + (f"?{query}" if query else "")
        method = "GET or POST" if operation.accepts_form else operation.method
        rows.append(f"| `{method} {request}` | {operation.summary} |")
    rows.append("| `GET /openapi.json` | Return the OpenAPI document |")
    return "\n".join(rows) + "\n"


def _reads_by_kind() -> str:
    """Return one row per read, with the store kinds that have it and the method of Kafka."""
    kinds = [StoreKind.TUMBLING, StoreKind.SESSION, StoreKind.NONE, StoreKind.VERSIONED]
    by_kind = {kind: set(reads_of_kind(kind)) for kind in kinds}
    # Reads of windows, of sessions, then of rows.
    names = dict.fromkeys(
        name for kind in kinds for name in OPERATIONS if name in by_kind[kind]
    )  # fmt: skip
    rows = [
        "| read | result | windows | sessions | no windows | versions | Kafka Streams |",
        "|---|---|---|---|---|---|---|",
    ]
    of_hopping = {*reads_of_kind(StoreKind.HOPPING)}
    for name in names:
        cells = ["yes" if name in by_kind[kind] else "" for kind in kinds]
        if cells[0] and name not in of_hopping:
            cells[0] = "tumbling"
        has_read = " | ".join(cells)
        method = f"`{_KAFKA_METHODS[name]}`" if name in _KAFKA_METHODS else ""
        rows.append(f"| `{name}` | {OPERATIONS[name].summary} | {has_read} | {method} |")
    return "\n".join(rows) + "\n"


def _with_table(page: Path, table: str) -> bytes:
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{page.name} has no line {_BEGIN!r}"
    assert end, f"{page.name} has no line {_END!r}"
    return f"{before}{begin}\n{table}\n{end}{after}".encode()


if __name__ == "__main__":
    sys.exit(main())
