"""The figures of single runs, and the results of all runs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.peer_runs.cases import KINDS, PEER
from benchmarks.peer_runs.plan import Case, LatencyCase, Run


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


def rate_figures(figures: Figures, records: int) -> dict[str, Any]:
    """Return a run over a topic as JSON."""
    rate, first = figures.steady_per_second, figures.first_seconds
    return {
        "records": records,
        "seconds": round(figures.cold_seconds, 2),
        "first_commit_seconds": None if first is None else round(first, 2),
        "steady_records": figures.steady_records,
        "steady_seconds": round(figures.steady_seconds, 3),
        "steady_records_per_second": None if rate is None else round(rate),
        "totals": None if figures.totals is None else figures.totals._asdict(),
    }


def spread(runs: Sequence[Mapping[str, Any]], figure: str) -> dict[str, float] | None:
    """Return median, minimum and maximum of a figure.

    None if no run has it, or if the system did not keep up in one run.
    """
    if not kept_up(runs):
        return None
    found = [run[figure] for run in runs if run.get(figure) is not None]
    if not found:
        return None
    return {"median": statistics.median(found), "min": min(found), "max": max(found)}


def results_of(
    conditions: Mapping[str, Any],
    runs: Mapping[Run, Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the results of all cases, with all of their runs."""
    by_case: dict[Case, dict[str, list[Mapping[str, Any]]]] = {}
    for run, found in runs.items():
        by_case.setdefault(run.case, {}).setdefault(run.system, []).append(found)
    results: dict[str, Any] = {"benchmark": "peer", "machine": dict(conditions)}
    others = [
        found["processor"]["others"] / found["processor"]["seconds"] for found in runs.values()
    ]
    results["machine"]["most_others_cores"] = round(max(others, default=0.0), 3)
    results |= {"rates": [], "latency": [], "topics": list(topics.values())}
    for case, found_runs in by_case.items():
        if isinstance(case, LatencyCase):
            results["latency"].append(latency_result(case._asdict(), found_runs))
        else:
            words = {"windows": KINDS[case.kind].title, **case._asdict()}
            results["rates"].append(case_result(words, found_runs))
    return results


def kept_up(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Return False if the system processed records more slowly than they were produced."""
    return all(run.get("kept_up", True) for run in runs)


def case_result(
    case: Mapping[str, Any], runs: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return the result of one kind over the runs of each system. Each run is JSON.

    If a ratio is above 1, Oriel is faster than Kafka Streams.
    """
    return {
        **case,
        "systems": {
            system: {
                "records": found[-1]["records"],
                "seconds": spread(found, "seconds"),
                "steady_records_per_second": spread(found, "steady_records_per_second"),
                "runs": list(found),
            }
            for system, found in runs.items()
        },
        "seconds_ratios": _ratios(runs, "seconds", less_is_faster=True),
        "steady_ratios": _ratios(runs, "steady_records_per_second", less_is_faster=False),
        "same_windows": _same_windows(run for found in runs.values() for run in found),
    }


def latency_result(
    case: Mapping[str, Any], runs: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return the result of one pace and number of stores over the runs of each system."""
    return {
        **case,
        "systems": {
            system: {
                "p50_ms": spread(found, "p50_ms"),
                "p99_ms": spread(found, "p99_ms"),
                "runs": list(found),
            }
            for system, found in runs.items()
        },
        "p50_ratios": _ratios(runs, "p50_ms", less_is_faster=True),
        "p99_ratios": _ratios(runs, "p99_ms", less_is_faster=True),
    }


def _ratios(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], figure: str, *, less_is_faster: bool
) -> dict[str, float]:
    """Return for each of Oriel's systems how many times as fast as Kafka Streams it is."""
    medians = {system: spread(found, figure) for system, found in runs.items()}
    peer = medians.pop(PEER, None)
    ratios = {}
    for system, found in medians.items():
        if peer and found:
            ratio = found["median"] / peer["median"]
            ratios[system] = round(1 / ratio if less_is_faster else ratio, 4)
    return ratios


def _same_windows(runs: Iterable[Mapping[str, Any]]) -> bool | None:
    """Return True if all runs over the same records have the same totals.

    None if no two runs can be compared.
    """
    by_records: dict[int, list[Any]] = {}
    for run in runs:
        if run["totals"] is not None:
            by_records.setdefault(run["records"], []).append(run["totals"])
    compared = [totals for totals in by_records.values() if len(totals) > 1]
    if not compared:
        return None
    return all(one == totals[0] for totals in compared for one in totals)


def processor_per_million(
    runs: Sequence[Mapping[str, Any]],
) -> tuple[float, float] | None:
    """Return processor seconds per 1,000,000 records of the system and of the broker: medians.

    None if the runs have no processor times.
    """
    measured = [run for run in runs if run.get("processor")]
    if not measured:
        return None
    system, broker = (
        statistics.median(run["processor"][process] / run["records"] * 1e6 for run in measured)
        for process in ("system", "broker")
    )
    return system, broker


def cores(runs: Sequence[Mapping[str, Any]], process: str) -> float | None:
    """Return the median of the cores that the system, the broker or the producer used."""
    used = [run["processor"][process] / run["processor"]["seconds"]
            for run in runs if run.get("processor")]  # fmt: skip
    return statistics.median(used) if used else None
