"""The results of `oriel bench peer`, their tables, and when they are not saved."""

from typing import Any

import pytest

from benchmarks.peer import parsed
from benchmarks.peer_runs.cases import EVENT_LOG, ORIEL, PEER
from benchmarks.peer_runs.figures import (
    Figures,
    Totals,
    case_result,
    latency_result,
    rate_figures,
    results_of,
)
from benchmarks.peer_runs.plan import COLD, STEADY, LatencyCase, RateCase, Run
from benchmarks.peer_runs.saved import (
    different_stores,
    merged,
    pages_with_tables,
    refused_options,
    refused_runs,
    saved,
)
from benchmarks.peer_runs.tables import mark, summary_table, tables

_SAME = Totals(10, 20, 5.5)
_CASE = {"windows": "sliding 10 s", "part": COLD, "kind": "sliding", "disorder_s": 5}
_MACHINE = {
    "date": "2026-11-22", "commit": "0123456789abcdef", "cores": 2, "memory_gib": 24,
    "load_before": 0.1, "system": "Linux", "java": "17.0.15", "pyspark": "4.2.0",
    "kafka_streams": "4.3.1",
}  # fmt: skip
_PROCESSOR = {
    "seconds": 10.0, "system": 15.0, "broker": 2.5, "producer": 0.5, "benchmark": 0.1,
    "others": 0.2, "loaded_by": ["gcc (7): 0.02 cores"],
}  # fmt: skip


def _run(
    seconds: float, steady_records: int, totals: Totals | None = _SAME, records: int = 1_000
) -> dict[str, Any]:
    """Return a run as JSON. Its second half has 2 s."""
    figures = Figures(seconds, None, steady_records, 2.0, totals)
    return rate_figures(figures, records) | {"processor": _PROCESSOR, "loaded": False}


def _wait(p50_ms: float, p99_ms: float) -> dict[str, Any]:
    return {
        "probes": 300, "p50_ms": p50_ms, "p99_ms": p99_ms, "processor": _PROCESSOR, "loaded": False,
    }  # fmt: skip


def _rows(text: str) -> list[list[str]]:
    """Return the cells of all tables, without the lines between head and rows."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if not row[0].startswith("-")]


def test_ratios_say_how_many_times_as_fast_oriel_is() -> None:
    """All ratios are above 1 if Oriel is faster, and the medians of the runs count."""
    found = case_result(
        _CASE,
        {
            ORIEL: [_run(10.0, 100), _run(99.0, 300), _run(12.0, 900)],
            EVENT_LOG: [_run(3.0, 600)],
            PEER: [_run(36.0, 60)],
        },
    )
    oriel = found["systems"][ORIEL]
    assert oriel["seconds"] == {"median": 12.0, "min": 10.0, "max": 99.0}
    assert oriel["steady_records_per_second"] == {"median": 150, "min": 50, "max": 450}
    assert [run["seconds"] for run in oriel["runs"]] == [10.0, 99.0, 12.0]
    assert found["seconds_ratios"] == {ORIEL: 3.0, EVENT_LOG: 12.0}
    assert found["steady_ratios"] == {ORIEL: 5.0, EVENT_LOG: 10.0}
    assert found["same_windows"] is True


def test_stores_that_differ_are_reported() -> None:
    """One window more or less is a difference. Without a second store nothing is compared."""
    other = _SAME._replace(windows=11)
    for totals, same in ((_SAME, True), (other, False), (None, None)):
        runs = {ORIEL: [_run(1.0, 100)], PEER: [_run(1.0, 100, totals)]}
        assert case_result(_CASE, runs)["same_windows"] is same


def test_stores_are_compared_over_the_same_records() -> None:
    """Kafka Streams has other windows if it reads fewer records."""
    fewer = _run(1.0, 100, _SAME._replace(windows=3), records=500)
    runs = {ORIEL: [_run(1.0, 100)], EVENT_LOG: [_run(1.0, 100)], PEER: [fewer]}
    assert case_result(_CASE, runs)["same_windows"] is True
    runs[PEER].append(_run(1.0, 100, _SAME, records=500))
    assert case_result(_CASE, runs)["same_windows"] is False


def test_results_have_all_runs_of_each_case() -> None:
    """Cases keep their order, with the load of the most loaded run and the written topics."""
    rate, pace = RateCase(STEADY, "tumbling", 5), LatencyCase(1_000, 1)
    loaded = _run(2.0, 10) | {"processor": _PROCESSOR | {"others": 3.0}, "loaded": True}
    runs = {
        Run(rate, ORIEL, 0): _run(1.0, 20),
        Run(rate, PEER, 0): _run(1.0, 10),
        Run(rate, ORIEL, 1): loaded,
        Run(pace, ORIEL, 0): _wait(50.0, 100.0),
    }
    topic = {"topic": "even", "records": 1_000, "producer": 1.0, "broker": 0.5}
    results = results_of(_MACHINE, runs, {"even": topic})
    assert results["machine"] == _MACHINE | {"most_others_cores": 0.3}
    (row,), (waits,) = results["rates"], results["latency"]
    assert (row["windows"], row["part"], row["disorder_s"]) == ("tumbling 10 s", STEADY, 5)
    assert row["systems"][ORIEL]["runs"] == [_run(1.0, 20), loaded]
    assert waits["systems"][ORIEL]["p50_ms"]["median"] == 50.0
    assert (waits["records_per_second"], waits["stores"]) == (1_000, 1)
    assert results["topics"] == [topic]


def test_a_system_that_does_not_keep_up_has_no_percentiles() -> None:
    """One such run of three means that the system does not keep up."""
    pace = {"records_per_second": 10_000, "stores": 1}
    lagging = _wait(0.0, 0.0) | {"p50_ms": None, "p99_ms": None, "kept_up": False}
    runs = {ORIEL: [_wait(50.0, 90.0)], PEER: [_wait(5.0, 9.0), lagging, _wait(5.0, 9.0)]}
    row = latency_result(pace, runs)
    assert row["systems"][PEER]["p50_ms"] is None
    assert row["p50_ratios"] == {}
    text = tables({"machine": _MACHINE, "rates": [], "latency": [row], "topics": []})
    assert ["10,000", "1", "Kafka Streams", "does not keep up", "", ""] in _rows(text)


def test_ratios_below_one_are_marked() -> None:
    """A ratio below 1 is marked as slower, even if two decimals show 1."""
    assert [mark(ratio) for ratio in (1.0, 12.345, 0.48, 0.9999)] == [
        "1.00", "12.35", "0.48 **slower**", "1.00 **slower**",
    ]  # fmt: skip


def test_tables_leave_empty_what_was_not_measured() -> None:
    """A run without the peer, and without a second half, has no ratio and no rate."""
    alone = [_run(1.25, 0) | {"processor": None}]
    both = {ORIEL: [_run(2.0, 80), _run(4.0, 160), _run(3.0, 120)], PEER: [_run(2.0, 160)]}
    rates = [
        case_result(_CASE | {"windows": "tumbling 10 s", "disorder_s": 0}, {ORIEL: alone}),
        case_result(_CASE, both),
        case_result(_CASE | {"part": STEADY, "disorder_s": 0}, {ORIEL: alone}),
        case_result(_CASE | {"part": STEADY}, both),
    ]
    pace = {"records_per_second": 1_000, "stores": 1}
    waits = latency_result(pace, {EVENT_LOG: [_wait(251.4, 480.6)], PEER: [_wait(5.0, 9.0)]})
    topic = {"topic": "even", "records": 2_000_000, "producer": 5.0, "broker": 1.0}
    text = tables({"machine": _MACHINE, "rates": rates, "latency": [waits], "topics": [topic]})
    assert text.startswith("2026-11-22, commit 0123456789, 2 cores, 24 GiB, Linux, Java 17.0.15,")
    assert "Runs per cell: 1 to 3." in text
    assert "Some runs have less than 60 s" in text
    head = ["windows", "disorder", "Oriel", "Kafka Streams", "ratio", "ratio, event log"]
    assert _rows(text) == [
        head,
        ["tumbling 10 s", "0 s", "1.2", "", "", ""],
        ["sliding 10 s", "5 s", "3.0 (2.0 to 4.0)", "2.0", "0.67 **slower**", ""],
        head,
        ["sliding 10 s", "0 s", "", "", "", ""],
        ["sliding 10 s", "5 s", "60 (40 to 80)", "80", "0.75 **slower**", ""],
        [
            "windows", "disorder",
            "Oriel + broker", "Oriel, event log + broker", "Kafka Streams + broker",
        ],
        ["sliding 10 s", "5 s", "15000.0 + 2500.0", "", "15000.0 + 2500.0"],
        ["topic", "records", "producer", "broker"],
        ["even", "2,000,000", "2.5", "0.5"],
        ["records/s", "stores", "system", "p50", "p99", "ratio of p50"],
        ["1,000", "1", "Oriel, event log", "251", "481", "0.02 **slower**"],
        ["1,000", "1", "Kafka Streams", "5", "9", ""],
        ["records/s", "stores", "system", "the system", "broker", "producer"],
        ["1,000", "1", "Oriel, event log", "150", "25", "5"],
        ["1,000", "1", "Kafka Streams", "150", "25", "5"],
    ]  # fmt: skip


def test_the_short_table_marks_where_the_peer_is_faster() -> None:
    """It has the steady rate with the most disorder, and the latency of one store."""
    steady = _CASE | {"part": STEADY}
    rates = [
        case_result(_CASE, {ORIEL: [_run(9.0, 80)], PEER: [_run(9.0, 40)]}),
        case_result(steady | {"disorder_s": 0}, {ORIEL: [_run(9.0, 80)], PEER: [_run(9.0, 4)]}),
        case_result(steady, {ORIEL: [_run(2.0, 80)], PEER: [_run(3.0, 40)]}),
        case_result(
            steady | {"windows": "sessions"}, {ORIEL: [_run(4.0, 80)], EVENT_LOG: [_run(4.0, 160)]}
        ),
    ]
    latency = [
        latency_result(
            {"records_per_second": rate, "stores": stores},
            {ORIEL: [_wait(200.4, 320.0)], PEER: [_wait(4.0, 16.0)]},
        )
        for rate, stores in ((10, 1), (1_000, 1), (1_000, 5))
    ]
    text = summary_table({"machine": _MACHINE, "rates": rates, "latency": latency})
    title = "produce to HTTP response, 1,000 records/s"
    assert _rows(text) == [
        ["measured", "Oriel", "Oriel, event log", "Kafka Streams", "ratio", "ratio, event log"],
        ["sliding 10 s: records/s", "40", "", "20", "2.00", ""],
        ["sessions: records/s", "40", "80", "", "", ""],
        [f"{title}: p50", "200 ms", "", "4 ms", "0.02 **slower**", ""],
        [f"{title}: p99", "320 ms", "", "16 ms", "0.05 **slower**", ""],
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--repeat", "2"], "--repeat must be at least 3"),
        (["--records", "200000"], "--records must be at least 20,000,000"),
        (["--seconds", "5"], "--seconds must be at least 60"),
        (["--no-check"], "--no-check does not compare the stores"),
        (["--systems", ORIEL, PEER], f"lacks {EVENT_LOG}"),
        (["--quick"], "--records must be at least 20,000,000"),
    ],
)
def test_a_partial_benchmark_is_not_saved(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line is rejected before anything is measured."""
    with pytest.raises(SystemExit):
        parsed([*words, "--save"])
    assert reason in capsys.readouterr().err
    assert refused_options(parsed(words))


def test_some_cases_can_be_saved() -> None:
    """Some cases can be saved if they have three runs of all systems."""
    assert parsed(["--save", "--disorder", "5", "--kinds", "tumbling", "--parts", "cold"]).save


def test_a_saved_case_keeps_its_date_and_machine() -> None:
    """A benchmark of some cases replaces only these, and the tables show the date of each."""
    peer = {PEER: [_run(4.0, 80)]}
    old, new = {ORIEL: [_run(8.0, 80)], **peer}, {ORIEL: [_run(2.0, 80)], **peer}
    sessions = _CASE | {"windows": "sessions", "kind": "sessions"}
    before = {
        "machine": _MACHINE,
        "rates": [case_result(sessions, old), case_result(_CASE, old)],
        "latency": [latency_result({"records_per_second": 10, "stores": 1}, {PEER: [_wait(5, 9)]})],
        "topics": [],
    }
    later = _MACHINE | {"date": "2026-11-27", "commit": "fedcba9876543210"}
    topic = {"topic": "even", "records": 2_000_000, "producer": 5.0, "broker": 1.0}
    now = {
        "machine": later, "rates": [case_result(_CASE, new)], "latency": [], "topics": [topic],
    }  # fmt: skip
    results = merged(before, now)
    assert [row["machine"] for row in results["rates"]] == [later, _MACHINE]
    assert merged(results, {**now, "rates": [], "topics": []}) == results
    text = tables(results)
    assert text.startswith("2026-11-27, commit fedcba9876, 2 cores,")
    assert "\n\n2026-11-22, commit 0123456789, 2 cores," in text
    _, *rates = _rows(text)[:3]
    assert [(row[0], row[-3], row[-1]) for row in rates] == [
        ("sliding 10 s", "2.00", "2026-11-27"),
        ("sessions", "0.50 **slower**", "2026-11-22"),
    ]
    assert ["10", "1", "Kafka Streams", "5", "9", "", "2026-11-22"] in _rows(text)


def _results(run: dict[str, Any]) -> dict[str, Any]:
    row = case_result(_CASE | {"part": STEADY}, {ORIEL: [run]})
    return {"machine": _MACHINE, "rates": [row], "latency": [], "topics": []}


def test_loaded_or_short_runs_are_not_saved() -> None:
    """The reason names the case, the system and the processes."""
    good = _run(61.0, 500_000)
    assert refused_runs(_results(good)) == []
    where = "steady, sliding 10 s, 5 s of disorder, Oriel"
    loaded = good | {"loaded": True, "processor": _PROCESSOR | {"others": 5.0}}
    (reason,) = refused_runs(_results(loaded))
    assert reason.startswith(f"{where}: other processes used 0.50 cores")
    assert "gcc (7)" in reason
    (reason,) = refused_runs(_results(_run(59.0, 500_000)))
    assert reason.startswith(f"{where}: 1,000 records needed 59 s, less than 60 s")
    assert refused_runs(_results(_run(30.0, 500_000, records=20_000_000))) == []


def test_results_with_different_stores_are_not_saved() -> None:
    """Figures of different windows cannot be compared."""
    runs = {ORIEL: [_run(1.0, 100)], PEER: [_run(1.0, 100, _SAME._replace(windows=11))]}
    row = case_result(_CASE, runs)
    (reason,) = different_stores({"rates": [row]})
    assert reason == "cold, sliding 10 s, 5 s of disorder: the stores differ"


def test_the_pages_show_what_is_saved() -> None:
    """benchmarks/results/peer.json has the values of the tables in benchmarks.md and README.md."""
    for page, content in pages_with_tables(saved()).items():
        assert page.read_text() == content, page


def test_the_readme_has_at_most_eight_rows() -> None:
    """The table of the saved results is short, and marks each ratio below 1."""
    columns, *rows = _rows(summary_table(saved()))
    assert 0 < len(rows) <= 8
    for row in rows:
        for ratio in (row[columns.index(name)] for name in ("ratio", "ratio, event log")):
            assert "slower" in ratio or float(ratio) >= 1
