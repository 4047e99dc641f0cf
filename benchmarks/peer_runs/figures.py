"""The figures of a run, their comparison, and the tables with both."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

ORIEL, EVENT_LOG, PEER = "oriel", "oriel_event_log", "kafka_streams"
TITLES = {ORIEL: "Oriel", EVENT_LOG: "Oriel, event log", PEER: "Kafka Streams"}

KAFKA_STREAMS = "4.3.1"


class Totals(NamedTuple):
    """The content of a store at the end: windows, the sum of counts, and the sum of sums."""

    windows: int
    members: int
    total: float


class Figures(NamedTuple):
    """The figures of one run, as a whole and for its second half.

    ``cold_seconds``: from the start of the process to its end, with everything committed.
    ``first_seconds``: from the start of the process to the first commit. None if not known.
    ``steady_records``: records of the second half, processed in ``steady_seconds``. 0 if the run
    has no second half.
    """

    cold_seconds: float
    first_seconds: float | None
    steady_records: int
    steady_seconds: float
    totals: Totals | None

    @property
    def steady_per_second(self) -> float | None:
        """Records per second in the second half. None without a second half."""
        return self.steady_records / self.steady_seconds if self.steady_records else None


def summary(runs: Sequence[Figures]) -> dict[str, Any]:
    """Return the medians of a system's runs as JSON."""
    rates = [run.steady_per_second for run in runs if run.steady_per_second is not None]
    firsts = [run.first_seconds for run in runs if run.first_seconds is not None]
    return {
        "cold_seconds": round(statistics.median(run.cold_seconds for run in runs), 2),
        "first_commit_seconds": round(statistics.median(firsts), 2) if firsts else None,
        "steady_records_per_second": round(statistics.median(rates)) if rates else None,
        "steady_records": runs[-1].steady_records,
        "runs": len(runs),
    }


def case_result(
    title: str, records: int, disorder_s: int, runs: Mapping[str, Sequence[Figures]]
) -> dict[str, Any]:
    """Return the result of one kind over one topic as JSON. If a ratio is above 1, Oriel is faster.

    ``same_windows``: True if all runs have the same totals. None for fewer than two runs.
    """
    summaries = {system: summary(figures) for system, figures in runs.items()}
    totals = [one.totals for figures in runs.values() for one in figures if one.totals is not None]
    return {
        "windows": title,
        "disorder_s": disorder_s,
        "records": records,
        **summaries,
        "cold_ratio": _ratio(summaries, PEER, ORIEL, "cold_seconds"),
        "steady_ratio": _ratio(summaries, ORIEL, PEER, "steady_records_per_second"),
        "same_windows": len(set(totals)) == 1 if len(totals) > 1 else None,
        "totals": totals[0]._asdict() if totals else None,
    }


def _ratio(summaries: Mapping[str, Any], above: str, below: str, figure: str) -> float | None:
    numbers = [summaries.get(system, {}).get(figure) for system in (above, below)]
    return round(numbers[0] / numbers[1], 2) if all(numbers) else None


def machine() -> dict[str, Any]:
    """Return the machine and the date. If the load is above 0.5, measure again."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "load_before": round(os.getloadavg()[0], 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "java": java.split('"')[1],
        "pyspark": version("pyspark"),
        "kafka_streams": KAFKA_STREAMS,
    }


def tables(results: Mapping[str, Any]) -> str:
    """Return the results in Markdown: the machine and the date, then one table per part."""
    where = results["machine"]
    place = f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB"
    software = f"Java {where['java']}, Spark {where['pyspark']}, Kafka {where['kafka_streams']}"
    lines = [f"{place}, load {where['load_before']} before, {where['system']}, {software}."]
    rates, latency = results["rates"], results["latency"]
    if rates:
        lines += ["", f"{rates[0]['records']:,} records, seconds from start to end:"]
        lines += ["", *_rates(rates, "cold_seconds", "cold_ratio", ".1f")]
        lines += ["", "Records per second, in the second half of the records:"]
        lines += ["", *_rates(rates, "steady_records_per_second", "steady_ratio", ",")]
    if latency:
        lines += ["", "Time from produce to the HTTP response with the record, at 1,000 records/s:"]
        lines += ["", *_latency(latency)]
    return "\n".join(lines)


def summary_table(results: Mapping[str, Any]) -> str:
    """Return one table of at most eight rows: the most disorder of each kind, and one store.

    The name of the faster system is in the last column, in bold if it is Kafka Streams.
    """
    rates, latency = results["rates"], results["latency"]
    disorder_s = max((row["disorder_s"] for row in rates), default=0)
    rows = [
        _compared(
            f"{row['windows']}: seconds for {row['records']:,} records",
            row.get(ORIEL, {}).get("cold_seconds"),
            row.get(PEER, {}).get("cold_seconds"),
            row["cold_ratio"],
        )
        for row in rates
        if row["disorder_s"] == disorder_s
    ]
    of_one_store = {row["system"]: row for row in latency if row["stores"] == 1}
    for percentile in ("p50", "p99") if of_one_store else ():
        oriel, peer = (of_one_store.get(one, {}).get(f"{percentile}_ms") for one in (ORIEL, PEER))
        ratio = peer / oriel if oriel and peer else None
        rows.append(_compared(f"produce to HTTP response: {percentile}, ms", oriel, peer, ratio))
    return "\n".join(_markdown(["measured", TITLES[ORIEL], TITLES[PEER], "faster"], rows))


def _compared(
    measured: str, oriel: float | None, peer: float | None, ratio: float | None
) -> list[str]:
    """Return one row of two durations. If the ratio is above 1, Oriel is faster."""
    return [measured, _number(oriel, ".1f"), _number(peer, ".1f"), _faster(ratio)]


def _faster(ratio: float | None) -> str:
    """Return the faster system and by how many times, with Kafka Streams in bold."""
    if ratio is None:
        return ""
    name = TITLES[ORIEL] if ratio >= 1 else f"**{TITLES[PEER]}**"
    return f"{name}, {max(ratio, 1 / ratio):.1f} times"


def _rates(rows: Sequence[Mapping[str, Any]], figure: str, ratio: str, form: str) -> list[str]:
    systems = [system for system in TITLES if any(system in row for row in rows)]
    head = ["windows", "disorder", *(TITLES[system] for system in systems), "faster"]
    cells = [
        [
            row["windows"],
            f"{row['disorder_s']} s",
            *(_number(row.get(system, {}).get(figure), form) for system in systems),
            _faster(row[ratio]),
        ]
        for row in rows
    ]
    return _markdown(head, cells)


def _latency(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ["system", "stores", "probes", "p50, ms", "p99, ms"]
    cells = []
    for row in rows:
        numbers = [str(row["stores"]), str(row["probes"])]
        times = [f"{row['p50_ms']:.0f}", f"{row['p99_ms']:.0f}"]
        cells.append([TITLES[row["system"]], *numbers, *times])
    return _markdown(head, cells)


def _number(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return ["| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines]


def as_json(results: Mapping[str, Any], indent: int | None = None) -> str:
    """Return the results as JSON."""
    return json.dumps(results, indent=indent)
