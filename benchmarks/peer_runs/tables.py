"""The tables of the results in Markdown."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.peer_runs.cases import EVENT_LOG, ORIEL, STEADY_RECORDS, STEADY_SECONDS, TITLES
from benchmarks.peer_runs.figures import cores, kept_up, processor_per_million
from benchmarks.peer_runs.plan import COLD, STEADY

#: The pace of the short table's rows.
_PACE = 1_000

_LEGEND = (
    "A cell has the median of the runs, and the minimum and the maximum in parentheses. Ratios "
    "compare Oriel with Kafka Streams. Above 1, Oriel is faster. **slower** marks a ratio below 1."
)
_SHORT = f"Some runs have less than {STEADY_SECONDS:g} s, so their rates are less reliable."
_WIDTH = 120

Row = Mapping[str, Any]


def tables(results: Mapping[str, Any]) -> str:
    """Return the machines with their dates and a legend, then one table per part.

    If cases were measured on several dates, each row has its date.
    """
    results = _with_dates(results)
    rates, latency = results["rates"], results["latency"]
    cold, steady = ([row for row in rates if row["part"] == part] for part in (COLD, STEADY))
    sections = [
        (
            f"Seconds of the whole command, {_records(cold)} records:",
            _rates(cold, "seconds", "seconds_ratios", ",.1f"),
        ),
        (
            f"Records per second in the second half of a run, {_records(steady)} records:",
            _rates(steady, "steady_records_per_second", "steady_ratios", ",.0f"),
        ),
        ("Processor seconds per 1,000,000 records in the same runs:", _processor(steady)),
        (
            "Processor seconds per 1,000,000 records to write the topics:",
            _written(results["topics"]),
        ),
        ("Milliseconds from produce to the HTTP response with the record:", _latency(latency)),
        ("These runs used these percentages of a core:", _shares(latency)),
    ]
    legend = f"Runs per cell: {_runs([*cold, *steady, *latency])}. {_LEGEND}"
    if any(too_short(run) for row in steady for run in _all_runs(row)):
        legend += f" {_SHORT}"
    lines = []
    for machine in _machines(results):
        lines += [*_wrapped(machine), ""]
    lines += _wrapped(legend)
    for title, table in sections:
        if table:
            lines += ["", title, "", *table]
    return "\n".join(lines)


def too_short(run: Row) -> bool:
    """Return True if a steady run has neither 60 s nor all records."""
    return bool(run["records"] < STEADY_RECORDS and run["seconds"] < STEADY_SECONDS)


def summary_table(results: Mapping[str, Any]) -> str:
    """Return one table of at most eight rows: the most disorder of each kind, and one store."""
    results = _with_dates(results)
    steady = [row for row in results["rates"] if row["part"] == STEADY]
    disorder_s = max((row["disorder_s"] for row in steady), default=0)
    rows = [
        _short(
            f"{row['windows']}: records/s", row, "steady_records_per_second", "steady_ratios", ""
        )
        for row in steady
        if row["disorder_s"] == disorder_s
    ]
    for row in results["latency"]:
        if (row["records_per_second"], row["stores"]) == (_PACE, 1):
            for figure in ("p50", "p99"):
                title = f"produce to HTTP response, {_PACE:,} records/s: {figure}"
                rows.append(_short(title, row, f"{figure}_ms", f"{figure}_ratios", " ms"))
    if len({date for *_, date in rows}) == 1:
        # Only rows of the other tables have another date.
        rows = [[*cells, ""] for *cells, _ in rows]
    return "\n".join(_markdown(["measured", *TITLES.values(), *_RATIO_HEAD, _DATE], rows))


_RATIO_HEAD = ["ratio", "ratio, event log"]
#: The last column of tables, which is left out if it is empty.
_DATE = "date"


def _short(title: str, row: Row, figure: str, ratios: str, unit: str) -> list[str]:
    cells = []
    for system in TITLES:
        found = row["systems"].get(system, {}).get(figure)
        cells.append(f"{found['median']:,.0f}{unit}" if found else "")
    return [title, *cells, *_marked(row[ratios]), row[_DATE]]


def _machine_of(results: Row, row: Row) -> Row:
    """Return the conditions of a row. Results that are not saved have them once."""
    found: Row = row.get("machine", results["machine"])
    return found


def _machines(results: Row) -> list[str]:
    """Return the conditions of all cases in words, the newest first."""
    rows = [*results["rates"], *results["latency"]]
    found = {_machine(_machine_of(results, row)) for row in rows} or {_machine(results["machine"])}
    return sorted(found, reverse=True)


def _with_dates(results: Row) -> dict[str, Any]:
    """Return results whose rows have a date, which is empty if all were measured on one day."""
    parts = ("rates", "latency")
    dates = {_machine_of(results, row)["date"] for part in parts for row in results[part]}
    return {**results} | {
        part: [
            {**row, _DATE: _machine_of(results, row)["date"] if len(dates) > 1 else ""}
            for row in results[part]
        ]
        for part in parts
    }


def _machine(machine: Row) -> str:
    commit = f"commit {machine['commit'][:10]}, " if machine.get("commit") else ""
    place = f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"
    software = (
        f"Java {machine['java']}, Spark {machine['pyspark']}, Kafka {machine['kafka_streams']}"
    )
    others = machine.get("most_others_cores")
    load = f"load {machine['load_before']} before"
    if others is not None:
        load += f", other processes used at most {others:.2f} cores during a run"
    return f"{machine['date']}, {commit}{place}, {software}. Machine: {load}."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _all_runs(row: Row) -> list[Row]:
    return [run for found in row["systems"].values() for run in found["runs"]]


def _runs(rows: Sequence[Row]) -> str:
    return _span({len(found["runs"]) for row in rows for found in row["systems"].values()})


def _records(rows: Sequence[Row]) -> str:
    return _span({found["records"] for row in rows for found in row["systems"].values()})


def _span(counts: Collection[int]) -> str:
    """Return the smallest and the largest count, or the only one."""
    ends = sorted({min(counts, default=0), max(counts, default=0)})
    return " to ".join(f"{count:,}" for count in ends)


def _systems(rows: Sequence[Row]) -> list[str]:
    return [system for system in TITLES if any(system in row["systems"] for row in rows)]


def _rates(rows: Sequence[Row], figure: str, ratios: str, form: str) -> list[str]:
    systems = _systems(rows)
    head = ["windows", "disorder", *(TITLES[system] for system in systems), *_RATIO_HEAD, _DATE]
    cells = [
        [
            row["windows"],
            f"{row['disorder_s']} s",
            *(_cell(row["systems"].get(system, {}).get(figure), form) for system in systems),
            *_marked(row[ratios]),
            row[_DATE],
        ]
        for row in rows
    ]
    return _markdown(head, cells)


def _latency(rows: Sequence[Row]) -> list[str]:
    cells = []
    for row in rows:
        for system, found in row["systems"].items():
            times = [_cell(found[figure], ",.0f") for figure in ("p50_ms", "p99_ms")]
            if not kept_up(found["runs"]):
                times = ["does not keep up", ""]
            ratio = row["p50_ratios"].get(system)
            cells.append(
                [
                    *_pace(row),
                    TITLES[system],
                    *times,
                    "" if ratio is None else mark(ratio),
                    row[_DATE],
                ]
            )
    head = ["records/s", "stores", "system", "p50", "p99", "ratio of p50", _DATE]
    return _markdown(head, cells)


def _shares(rows: Sequence[Row]) -> list[str]:
    cells = []
    for row in rows:
        for system, found in row["systems"].items():
            used = [cores(found["runs"], process) for process in ("system", "broker", "producer")]
            shares = ["" if one is None else f"{100 * one:.0f}" for one in used]
            if shares != [""] * len(used):
                cells.append([*_pace(row), TITLES[system], *shares])
    head = ["records/s", "stores", "system", "the system", "broker", "producer"]
    return _markdown(head, cells)


def _pace(row: Row) -> list[str]:
    return [f"{row['records_per_second']:,}", str(row["stores"])]


def _processor(rows: Sequence[Row]) -> list[str]:
    cells = []
    for row in rows:
        found = {
            system: processor_per_million(one["runs"]) for system, one in row["systems"].items()
        }
        if any(found.values()):
            used = [found.get(system) for system in TITLES]
            texts = ["" if one is None else f"{one[0]:.1f} + {one[1]:.1f}" for one in used]
            cells.append([row["windows"], f"{row['disorder_s']} s", *texts])
    head = ["windows", "disorder", *(f"{title} + broker" for title in TITLES.values())]
    return _markdown(head, cells)


def _written(topics: Sequence[Row]) -> list[str]:
    cells = [
        [
            topic["topic"],
            f"{topic['records']:,}",
            *(
                f"{topic[process] / topic['records'] * 1e6:.1f}"
                for process in ("producer", "broker")
            ),
        ]
        for topic in topics
    ]
    return _markdown(["topic", "records", "producer", "broker"], cells)


def _cell(spread: Mapping[str, float] | None, form: str) -> str:
    """Return ``median (minimum to maximum)``, or the median if all runs have the same figure."""
    if spread is None:
        return ""
    median, least, most = (format(spread[name], form) for name in ("median", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"


def _marked(ratios: Mapping[str, float]) -> list[str]:
    return [mark(ratios[system]) if system in ratios else "" for system in (ORIEL, EVENT_LOG)]


def mark(ratio: float) -> str:
    """Return a ratio, marked if Oriel is slower.

    Example:
        >>> mark(0.48), mark(3.5)
        ('0.48 **slower**', '3.50')
    """
    return f"{ratio:.2f}" if ratio >= 1 else f"{ratio:.2f} **slower**"


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    if head[-1] == _DATE and not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines]
