"""`oriel clock` after a topology lost a store, and directly after a stream time was set."""

import pytest

from oriel.pipeline.operations import clock
from oriel.pipeline.run.reporting.run_report import RunReport
from tests.pipeline.run.wall_clock_runs import YEAR_9999, ClockRuns, runs
from tests.system.runs.test_run_stream_times import record, topology

__all__ = ["runs"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("batches", [1, 2])
def test_a_store_that_left_the_topology_keeps_its_clocks(
    runs: ClockRuns, capsys: pytest.CaptureFixture[str], batches: int
) -> None:
    """Setting a stream time affects the topology's stores, however many batches ran since.

    A store that is not in the topology any more keeps its stream times.
    """
    runs.append({0: [record(100), record(YEAR_9999)]})
    runs.run(topology("s", "left"))
    for batch in range(batches):
        runs.append({0: [record(YEAR_9999 - batch)]})
        runs.run(topology("s"))
    # `oriel run` does the same.
    report = RunReport(runs.data / "checkpoints" / "app", "app", "bytes", dict, dict)
    report.on_batch({"s": runs.last["s"]}, {})
    report.write_heartbeat()
    report.end()
    data = ["--data", str(runs.data)]
    assert clock.main([*data, "--set", "t", "0", "113"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "left: no longer in the topology, so its stream times stay unchanged"
    assert [line.partition(":")[0] for line in lines] == ["left", "s"]
    assert clock.main([*data, "left", "--set", "t", "0", "113"]) == 1
    assert "store 'left' is no longer in the topology" in capsys.readouterr().err
    assert clock.main([*data, "left"]) == 0
    assert "9999-12-31T23:59:59.999Z" in capsys.readouterr().out


def test_the_partition_that_was_set_back_holds_windows_open(
    runs: ClockRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    """The partition that was set back keeps windows from becoming final, not the earlier one."""
    runs.append({0: [record(YEAR_9999)], 1: [record(200)]})
    runs.run(topology("s"))
    data = ["--data", str(runs.data)]

    def holders() -> list[str]:
        assert clock.main(data) == 0
        lines = capsys.readouterr().out.splitlines()
        return [
            line.split()[2] for line in lines if line.endswith("keeps windows from becoming final")
        ]

    assert holders() == ["1"]
    assert clock.main([*data, "--set", "t", "0", "300"]) == 0
    capsys.readouterr()
    assert holders() == ["1"]
    assert clock.main([*data, "--set", "t", "0", "150"]) == 0
    capsys.readouterr()
    assert holders() == ["0"]
