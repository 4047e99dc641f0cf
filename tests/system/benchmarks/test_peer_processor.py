"""How `oriel bench peer` attributes processor time, and when a machine is loaded."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.peer_runs.processor import (
    Process,
    Snapshot,
    parsed_process,
    snapshot,
    tree,
    usage_between,
)

_TICKS = os.sysconf("SC_CLK_TCK")


def _moment(at: float, seconds: Mapping[int, tuple[int, float]], stolen: float = 0.0) -> Snapshot:
    """Return a snapshot of ``{pid: (parent, seconds)}``."""
    processes = {
        pid: Process(parent, f"name{pid}", 1, used, used)
        for pid, (parent, used) in seconds.items()
    }  # fmt: skip
    return Snapshot(at, processes, stolen)


#: 10 is the benchmark, 11 the broker, 12 the producer, 13 a system, 20 another program. 2 and 3 are
#: kernel threads, which write files for all processes.
_BEFORE = {
    1: (0, 5.0), 2: (0, 1.0), 3: (2, 1.0), 10: (1, 4.0), 11: (10, 2.0), 12: (10, 1.0), 20: (1, 9.0),
}  # fmt: skip


def test_time_belongs_to_the_system_unless_another_part_used_it() -> None:
    """The benchmark, the broker and the producer are not the system."""
    after = _BEFORE | {
        3: (2, 3.0), 10: (1, 4.5), 11: (10, 3.0), 12: (10, 1.25), 13: (10, 6.0), 20: (1, 9.5),
    }  # fmt: skip
    usage = usage_between(
        _moment(100.0, _BEFORE), _moment(110.0, after), benchmark=10, broker=11, producer=12
    )
    assert usage.seconds == 10.0
    assert (usage.system, usage.broker, usage.producer, usage.benchmark) == (6.0, 1.0, 0.25, 0.5)
    assert usage.others == 0.5
    assert usage.loaded_by == ["name20 (20): 0.05 cores"]
    assert not usage.loaded


def test_others_and_the_hypervisor_load_a_machine() -> None:
    """More than 0.1 cores are a load. The names are in the order of their use.

    Process 22 has ended, and process 1 has its time.
    """
    before = _moment(0.0, _BEFORE | {22: (1, 50.0)})
    after = _moment(10.0, _BEFORE | {20: (1, 9.1), 21: (20, 3.0)}, stolen=2.0)
    parent = after.processes[1]
    processes = {**after.processes, 1: parent._replace(seconds=parent.seconds + 54.0)}
    usage = usage_between(before, after._replace(processes=processes), benchmark=10)
    assert usage.others == pytest.approx(0.1 + 3.0 + 4.0 + 2.0)
    assert usage.others_cores == pytest.approx(0.91)
    assert usage.loaded
    assert usage.loaded_by == [
        "ended processes: 0.40 cores", "name21 (21): 0.30 cores", "hypervisor (steal): 0.20 cores",
    ]  # fmt: skip


def test_an_ended_process_counts_through_its_parent() -> None:
    """The kernel adds its time to its parent."""
    started = {10: Process(1, "benchmark", 1, 4.0, 4.0), 13: Process(10, "java", 2, 3.0, 3.0)}
    ended = {10: Process(1, "benchmark", 1, 4.0, 4.0 + 8.0)}
    usage = usage_between(Snapshot(0, started, 0), Snapshot(10, ended, 0), benchmark=10)
    assert (usage.system, usage.benchmark, usage.others) == (5.0, 0.0, 0.0)


def test_a_tree_has_the_children_of_children() -> None:
    """A root that has ended has no tree."""
    processes = _moment(0, _BEFORE | {14: (13, 0.0), 13: (10, 0.0)}).processes
    assert tree(processes, [10, None, 99]) == {10, 11, 12, 13, 14}


def test_a_name_can_contain_parentheses() -> None:
    """proc(5): the fields follow the last parenthesis."""
    fields = ["S", "1", *["0"] * 9, "200", "100", "40", "60", *["0"] * 4, "77", "0"]
    found = parsed_process(f"42 (a) (b) {' '.join(fields)}")
    assert found == Process(1, "a) (b", 77, 300 / _TICKS, 400 / _TICKS)


def test_the_kernel_is_read(tmp_path: Path) -> None:
    """A snapshot has this process, and the steal of the first line of /proc/stat."""
    found = snapshot()
    assert found.processes[os.getpid()].parent == os.getppid()
    (tmp_path / "stat").write_text("cpu 1 2 3 4 5 6 7 250 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    alone = snapshot(tmp_path)
    assert (alone.processes, alone.stolen_seconds) == ({}, 250 / _TICKS)


def test_orphans_are_adopted() -> None:
    """A process whose parent ends becomes a child of the benchmark, not of process 1."""
    program = """
import os, subprocess
from benchmarks.peer_runs.processor import adopt_orphans, parsed_process

adopt_orphans()
reader, _ = os.pipe()
# The shell ends, and `cat` waits until this process ends too.
words = ["sh", "-c", "exec 3<&0; cat <&3 >/dev/null & echo $!"]
shell = subprocess.run(words, stdin=reader, stdout=subprocess.PIPE)
with open(f"/proc/{int(shell.stdout)}/stat") as file:
    print(parsed_process(file.read()).parent == os.getpid())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n", done.stderr
