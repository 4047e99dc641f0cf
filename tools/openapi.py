"""Write the files that follow from the service's operations: ``python -m tools.openapi``.

These are openapi/oriel.json, the page docs/reference/http-api.md (``tools.api_page``), the table of
requests in docs/reference/requests.md, and the table of each kind's reads in
docs/contributing/architecture.md. Each table is between two comments, and the text
around it is written by hand. A test compares the committed files with the output of this module.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from oriel.app.contract import (
    OPERATIONS,
    POSITION_QUERY,
    describe,
    document_bytes,
    kinds_by_reads,
)
from tools.api_page import api_page

_ROOT = Path(__file__).parents[1]

OPENAPI_FILE = _ROOT / "openapi" / "oriel.json"

_BEGIN = "<!-- Written by `python -m tools.openapi`. -->\n"
_END = "<!-- The end of what it writes. -->\n"


def main() -> int:
    """Write the committed files."""
    for path, content in written_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return 0


def written_files() -> Mapping[Path, bytes]:
    """Each committed file and what it has to be."""
    document = describe()
    requests = _ROOT / "docs" / "reference" / "requests.md"
    architecture = _ROOT / "docs" / "contributing" / "architecture.md"
    return {
        OPENAPI_FILE: document_bytes(document),
        _ROOT / "docs" / "reference" / "http-api.md": api_page(document).encode(),
        requests: _with_table(requests, _requests()),
        architecture: _with_table(architecture, _reads_by_kind()),
    }


def _requests() -> str:
    """Return one row per operation, without the parameters of the position."""
    rows = ["| request | summary |", "|---|---|"]
    for operation in OPERATIONS.values():
        own = [p for p in operation.query.parameters if p not in POSITION_QUERY.parameters]
        query = "&".join(f"{parameter.name}=" for parameter in own)
        request = operation.path + (f"?{query}" if query else "")
        rows.append(f"| `{operation.method} {request}` | {operation.summary} |")
    rows.append("| `GET /openapi.json` | The whole interface |")
    return "\n".join(rows) + "\n"


def _reads_by_kind() -> str:
    """Return one row for all kinds of stores that have the same reads."""
    rows = ["| kind | reads |", "|---|---|"]
    for reads, kinds in kinds_by_reads().items():
        rows.append(f"| {', '.join(kinds)} | {', '.join(f'`{read}`' for read in reads)} |")
    return "\n".join(rows) + "\n"


def _with_table(page: Path, table: str) -> bytes:
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{page.name} has no line {_BEGIN!r}"
    assert end, f"{page.name} has no line {_END!r}"
    return f"{before}{begin}\n{table}\n{end}{after}".encode()


if __name__ == "__main__":
    sys.exit(main())
