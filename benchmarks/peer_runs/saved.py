"""Save results to benchmarks/results/peer.json and to the tables of the pages.

docs/reference/benchmarks.md has all tables, README.md has one table with the most important rows.
The tables are between two comments. A test compares them with the saved results.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peer_runs.figures import as_json, summary_table, tables

_ROOT = Path(__file__).parents[2]

RESULTS_FILE = _ROOT / "benchmarks" / "results" / "peer.json"
README = _ROOT / "README.md"
PAGE = _ROOT / "docs" / "reference" / "benchmarks.md"

_BEGIN = "<!-- Written by `./oriel bench peer --save`. -->\n"
_END = "<!-- End of the generated table. -->\n"


def save(results: Mapping[str, Any]) -> None:
    """Write the results into the file and the pages, and replace what was saved before."""
    RESULTS_FILE.parent.mkdir(exist_ok=True)
    RESULTS_FILE.write_text(as_json(results, indent=2) + "\n")
    for page, content in pages_with_tables(results).items():
        page.write_text(content)


def saved() -> dict[str, Any]:
    """Return what was saved last."""
    results: dict[str, Any] = json.loads(RESULTS_FILE.read_text())
    return results


def pages_with_tables(results: Mapping[str, Any]) -> dict[Path, str]:
    """Return the content of each page with the tables of ``results``."""
    return {
        PAGE: _with_tables(PAGE, tables(results)),
        README: _with_tables(README, summary_table(results)),
    }


def _with_tables(path: Path, written: str) -> str:
    """Return the page with ``written`` between its two comments."""
    before, begin, rest = path.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{path.name} has no line {_BEGIN!r}"
    assert end, f"{path.name} has no line {_END!r}"
    return f"{before}{begin}\n{written}\n\n{end}{after}"
