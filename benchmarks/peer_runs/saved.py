"""Save results to benchmarks/results/peer.json and to the tables of the pages.

A full run needs hours. So a benchmark of some kinds or parts replaces only their cases, and each
case has the date and the machine of its runs.

docs/reference/benchmarks.md has all tables, README.md has one table with the most important rows.
The tables are between two comments. A test compares them with the saved results.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.peer_runs.cases import KINDS, STEADY_RECORDS, STEADY_SECONDS, TITLES
from benchmarks.peer_runs.plan import LATENCY_SECONDS, STEADY
from benchmarks.peer_runs.processor import LOADED_CORES
from benchmarks.peer_runs.tables import summary_table, tables, too_short

_ROOT = Path(__file__).parents[2]

RESULTS_FILE = _ROOT / "benchmarks" / "results" / "peer.json"
README = _ROOT / "README.md"
PAGE = _ROOT / "docs" / "reference" / "benchmarks.md"

_BEGIN = "<!-- Written by `./oriel bench peer --save`. -->\n"
_END = "<!-- End of the generated table. -->\n"


_MIN_REPEAT = 3
#: Part of the results -> the case of a row. Rows are in the order of their cases.
_CASE_OF: Mapping[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {
    "rates": lambda row: ([*KINDS].index(row["kind"]), row["disorder_s"], row["part"]),
    "latency": lambda row: (row["records_per_second"], row["stores"]),
    "topics": lambda row: (row["topic"],),
}


def refused_options(options: argparse.Namespace) -> list[str]:
    """Return why results with these options cannot be saved."""
    reasons = []
    if options.repeat < _MIN_REPEAT:
        reasons.append(f"--repeat must be at least {_MIN_REPEAT}")
    if options.records < STEADY_RECORDS:
        reasons.append(f"--records must be at least {STEADY_RECORDS:,}")
    if options.seconds < LATENCY_SECONDS:
        reasons.append(f"--seconds must be at least {LATENCY_SECONDS:g}")
    if not options.check:
        reasons.append("--no-check does not compare the stores")
    # The systems run in turn, so that a case compares them on the same machine.
    if missing := TITLES.keys() - set(options.systems):
        reasons.append(f"--systems lacks {', '.join(sorted(missing))}")
    return reasons


def different_stores(results: Mapping[str, Any]) -> list[str]:
    """Return the cases whose figures do not compare, because the stores have other windows."""
    return [
        f"{_title(row)}: the stores differ"
        for row in results["rates"]
        if row["same_windows"] is False
    ]


def refused_runs(results: Mapping[str, Any]) -> list[str]:
    """Return a reason for each run that prevents saving: a short run or a loaded machine."""
    reasons = []
    for row in (*results["rates"], *results["latency"]):
        for system, found in row["systems"].items():
            where = f"{_title(row)}, {TITLES[system]}"
            for run in found["runs"]:
                if run["loaded"]:
                    reasons.append(f"{where}: other processes used {_load(run)}")
                if row.get("part") == STEADY and too_short(run):
                    reasons.append(
                        f"{where}: {run['records']:,} records needed {run['seconds']:g} s, less "
                        f"than {STEADY_SECONDS:g} s. Raise its records in "
                        "benchmarks/peer_runs/cases.py"
                    )
    return reasons


def _load(run: Mapping[str, Any]) -> str:
    used = run["processor"]["others"] / run["processor"]["seconds"]
    names = ", ".join(run["processor"]["loaded_by"])
    return f"{used:.2f} cores, more than {LOADED_CORES:g} ({names})"


def _title(row: Mapping[str, Any]) -> str:
    if "part" in row:
        return f"{row['part']}, {row['windows']}, {row['disorder_s']} s of disorder"
    return f"latency, {row['records_per_second']:,} records/s, stores: {row['stores']}"


def as_json(results: Mapping[str, Any], indent: int | None = None) -> str:
    """Return the results as JSON."""
    return json.dumps(results, indent=indent)


def save(results: Mapping[str, Any]) -> None:
    """Write the results into the file and the pages, and keep the other cases of the file."""
    results = merged(saved(), results)
    RESULTS_FILE.write_text(as_json(results, indent=2) + "\n")
    for page, content in pages_with_tables(results).items():
        page.write_text(content)


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved results with the cases of a new benchmark, each with its machine.

    Args:
        before: The saved results.
        now: The results of the benchmark. They replace the cases that they have.
    """
    found: dict[str, Any] = {"benchmark": "peer", "machine": now["machine"]}
    for name, case_of in _CASE_OF.items():
        rows = {
            # Saved rows of the earlier format have no machine.
            case_of(row): {"machine": results["machine"], **row}
            for results in (before, now)
            for row in results[name]
        }
        found[name] = [rows[case] for case in sorted(rows)]
    return found


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
