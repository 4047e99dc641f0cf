"""The saved results: benchmarks/results/peer.json, and its tables in README.md.

The tables stand between two comments; a test proves that they are those of the file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peer_runs.figures import as_json, tables

_ROOT = Path(__file__).parents[2]

RESULTS_FILE = _ROOT / "benchmarks" / "results" / "peer.json"
README = _ROOT / "README.md"

_BEGIN = "<!-- Written by `./oriel bench peer --save`. -->\n"
_END = "<!-- The end of what it writes. -->\n"


def save(results: Mapping[str, Any]) -> None:
    """Write the results into both files; what was saved before is replaced."""
    RESULTS_FILE.parent.mkdir(exist_ok=True)
    RESULTS_FILE.write_text(as_json(results, indent=2) + "\n")
    README.write_text(with_tables(README.read_text(), results))


def saved() -> dict[str, Any]:
    """Return what was saved last."""
    results: dict[str, Any] = json.loads(RESULTS_FILE.read_text())
    return results


def with_tables(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the tables of ``results`` between its two comments."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"the page has no line {_BEGIN!r}"
    assert end, f"the page has no line {_END!r}"
    return f"{before}{begin}\n{tables(results)}\n\n{end}{after}"
