"""The runs of `oriel bench peer`: their order, their records, and what an interruption keeps."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.peer import parsed
from benchmarks.peer_runs.cases import EVENT_LOG, KINDS, ORIEL, PEER, TITLES, DataSet
from benchmarks.peer_runs.plan import (
    CHECK,
    COLD,
    LATENCY,
    STEADY,
    LatencyCase,
    RateCase,
    Run,
    data_set,
    data_sets,
    needed_bytes,
    planned,
    remaining_seconds,
)
from benchmarks.peer_runs.processes import Failed
from benchmarks.peer_runs.run_file import RunFile

_ALL = 20_000_000
_RUN = Run(RateCase(COLD, "tumbling", 5), ORIEL, 0)


def test_systems_take_turns_in_each_case() -> None:
    """The runs of a case follow each other: all systems, then all systems again."""
    options = parsed(["--kinds", "tumbling", "--disorder", "5", "--parts", "cold", "steady"])
    runs = planned(options)
    turns = [(repeat, system) for repeat in range(3) for system in TITLES]
    for part in (COLD, STEADY):
        case = RateCase(part, "tumbling", 5)
        assert [(run.repeat, run.system) for run in runs if run.case == case] == turns
    assert [run.case.part for run in runs if isinstance(run.case, RateCase)] == (
        [COLD] * len(turns) + [STEADY] * len(turns)
    )


def test_single_cases_of_latency() -> None:
    """A saved case of latency can be measured again without the others."""
    runs = planned(parsed(["--parts", LATENCY, "--rates", "1000", "--stores", "5"]))
    assert {run.case for run in runs} == {LatencyCase(1_000, 5)}


def test_a_full_benchmark_has_each_case() -> None:
    """Each kind and disorder, cold and steady, and each pace with one and five stores."""
    runs = planned(parsed([]))
    assert len(set(runs)) == len(runs)
    rates = {run.case for run in runs if isinstance(run.case, RateCase)}
    for part in (COLD, STEADY):
        assert {case for case in rates if case.part == part} == {
            RateCase(part, kind, disorder_s) for kind in KINDS for disorder_s in (0, 5)
        }
    assert {case.kind for case in rates if case.part == CHECK} == {"sliding", "dense"}
    latency = [run for run in runs if isinstance(run.case, LatencyCase)]
    assert {(run.case, run.system) for run in latency} == {
        (LatencyCase(rate, stores), system)
        for rate in (10, 1_000, 10_000)
        for stores in (1, 5)
        for system in ((ORIEL, EVENT_LOG, PEER) if stores == 1 else (ORIEL, EVENT_LOG))
    }


def test_small_runs_need_no_check_of_their_own() -> None:
    """Kafka Streams still has all windows of 100,000 records, so the runs themselves compare."""
    for words in (["--quick"], ["--no-check"], ["--systems", ORIEL], ["--parts", LATENCY]):
        runs = planned(parsed(words))
        assert CHECK not in {run.case.part for run in runs if isinstance(run.case, RateCase)}


def test_cases_over_a_topic_follow_each_other() -> None:
    """A topic that is deleted after its last run is written once."""
    runs = [run for run in planned(parsed([])) if isinstance(run.case, RateCase)]
    groups = [(data.dense, data.disorder_s) for data in (data_set(run, _ALL) for run in runs)]
    changes = sum(one != other for one, other in pairwise(groups))
    assert changes == len(set(groups)) - 1 == 3


@pytest.mark.parametrize(
    ("part", "kind", "system", "records"),
    [
        (CHECK, "sliding", PEER, 100_000),
        (COLD, "sliding", PEER, 1_000_000),
        (STEADY, "sliding", ORIEL, 20_000_000),
        (STEADY, "sliding", PEER, 3_000_000),
        (STEADY, "dense", EVENT_LOG, 20_000_000),
        (STEADY, "dense", PEER, 600_000),
        (STEADY, "tumbling", PEER, 20_000_000),
    ],
)
def test_records_depend_on_part_and_system(part: str, kind: str, system: str, records: int) -> None:
    """A steady run has 20,000,000 records, but not if Kafka Streams is slow."""
    run = Run(RateCase(part, kind, 5), system, 0)
    assert data_set(run, _ALL) == DataSet(KINDS[kind].dense, 5, records)
    assert data_set(run, 50_000).records == 50_000


def test_the_disk_must_hold_the_topics_that_exist_together() -> None:
    """All topics of one group, with the tables of the largest run."""
    options = parsed(["--kinds", "tumbling", "dense", "--disorder", "5"])
    runs = planned(options)
    assert {data.records for data in data_sets(runs, _ALL)} == {
        100_000, 600_000, 1_000_000, 20_000_000,
    }  # fmt: skip
    dense = 100_000 + 600_000 + 1_000_000 + 20_000_000
    assert needed_bytes(runs, _ALL) == 150 * dense + 400 * 20_000_000
    assert needed_bytes(planned(parsed(["--parts", LATENCY])), _ALL) == 0


def test_the_remaining_time_is_that_of_earlier_runs() -> None:
    """A repeat needs the mean time of its case and system. Nothing remains at the end."""
    runs = [_RUN._replace(repeat=repeat) for repeat in range(4)]
    writing = 1_000_000 / 250_000
    done = {runs[0]: 10.0, runs[1]: 14.0}
    assert remaining_seconds(runs, done, _ALL, 60.0) == 2 * 12.0 + writing
    assert remaining_seconds(runs, dict.fromkeys(runs, 1.0), _ALL, 60.0) == 0.0


def test_a_slow_machine_corrects_what_is_assumed() -> None:
    """A case without finished runs needs longer if the finished ones needed longer."""
    latency = [Run(LatencyCase(rate, 1), PEER, 0) for rate in (10, 1_000)]
    assumed = remaining_seconds(latency[1:], {}, _ALL, 60.0)
    assert assumed > 60.0
    done = {latency[0]: 3 * assumed}
    assert remaining_seconds(latency, done, _ALL, 60.0) == pytest.approx(3 * assumed)


def test_finished_runs_are_kept(tmp_path: Path) -> None:
    """A resumed benchmark has the runs, the topics and the date of the interrupted one."""
    path = tmp_path / "new" / "runs.jsonl"
    latency = Run(LatencyCase(10, 5), EVENT_LOG, 2)
    first = RunFile(path, {"commit": "abc", "date": "2026-11-27"}, resume=True)
    first.add_topic({"topic": "even", "producer": 1.5})
    for run in (_RUN, latency):
        first.add_run(run, {"p50_ms": 5.0, "loaded": run == latency})
    with path.open("a") as file:
        file.write('{"run": ["cold", "tumb')
    again = RunFile(path, {"commit": "abc", "date": "2026-11-28"}, resume=True)
    assert again.conditions["date"] == "2026-11-27"
    assert again.topics == {"even": {"topic": "even", "producer": 1.5}}
    assert again.runs == first.runs
    again.drop({latency})
    assert list(again.runs) == [_RUN]
    # The incomplete line does not corrupt the next one.
    again.add_run(latency, {"p50_ms": 7.0, "loaded": False})
    assert RunFile(path, {"commit": "abc"}, resume=True).runs[latency]["p50_ms"] == 7.0


def test_a_new_benchmark_begins_without_runs(tmp_path: Path) -> None:
    """Without --resume, the file has only the conditions."""
    path = tmp_path / "runs.jsonl"
    RunFile(path, {"commit": "abc"}, resume=False).add_run(_RUN, {"seconds": 1})
    assert RunFile(path, {"commit": "def"}, resume=False).runs == {}
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"commit": "def"}]


def test_runs_of_another_commit_do_not_mix(tmp_path: Path) -> None:
    """The error names the conditions that differ."""
    path = tmp_path / "runs.jsonl"
    RunFile(path, {"commit": "abc", "cores": 2, "load_before": 1}, resume=False)
    with pytest.raises(Failed, match=r"commit: abc, now def\. Start again without --resume"):
        RunFile(path, {"commit": "def", "cores": 2, "load_before": 2}, resume=True)
