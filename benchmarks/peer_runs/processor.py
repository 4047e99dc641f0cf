"""Processor time of the benchmark's processes and of all others, from Linux's ``/proc``.

A snapshot has the processor time of each process, including its ended children. The difference of
two snapshots is exact for a tree of processes, because the kernel adds the time of an ended process
to its parent. If a parent ends first, the benchmark becomes the new parent (``adopt_orphans``).
"""

import ctypes
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: A machine is loaded if other processes use more than this many cores.
LOADED_CORES = 0.1

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KERNEL_THREADS = 2
_NAMED, _NAMED_CORES = 3, 0.01
_STOLEN, _ENDED = "hypervisor (steal)", "ended processes"
# prctl(2): an orphan of the caller's tree becomes its child, not the child of process 1.
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A process. The seconds are processor time: its own, and with its ended children."""

    parent: int
    name: str
    started: int
    own_seconds: float
    seconds: float


class Snapshot(NamedTuple):
    """All processes at one time. ``stolen_seconds``: the hypervisor ran another machine."""

    at: float
    processes: Mapping[int, Process]
    stolen_seconds: float


class Usage(NamedTuple):
    """Processor seconds between two snapshots.

    ``system`` includes all processes that the benchmark started, except the broker and the
    producer. ``benchmark`` is the benchmark's own process. ``loaded_by`` names the other processes
    that used the most.
    """

    seconds: float
    system: float
    broker: float
    producer: float
    benchmark: float
    others: float
    loaded_by: list[str]

    @property
    def loaded(self) -> bool:
        """True if other processes used more than ``LOADED_CORES``."""
        return self.others_cores > LOADED_CORES

    @property
    def others_cores(self) -> float:
        """The cores that other processes used."""
        return self.others / self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return all fields with two decimals."""
        fields = self._asdict().items()
        return {name: round(one, 2) if isinstance(one, float) else one for name, one in fields}


def adopt_orphans() -> None:
    """Become the parent of each process of this tree whose parent ends, for example Spark's JVM."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def snapshot(proc: Path = _PROC) -> Snapshot:
    """Return the processor time of all processes since their start."""
    at = time.perf_counter()
    processes = {}
    for directory in proc.iterdir():
        if directory.name.isdigit():
            try:
                processes[int(directory.name)] = parsed_process((directory / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    first = (proc / "stat").read_text().splitlines()[0].split()
    return Snapshot(at, processes, int(first[8]) / _TICKS_PER_SECOND)


def parsed_process(stat: str) -> Process:
    """Return the process of a line of ``/proc/PID/stat`` (proc(5)).

    Example:
        >>> parsed_process("7 (a b) S 1 7 7 0 -1 0 0 0 0 0 200 100 50 50 20 0 1 0 9 0").name
        'a b'
    """
    # The name can contain spaces and parentheses.
    head, _, rest = stat.rpartition(") ")
    fields = rest.split()
    user, system, child_user, child_system = (int(ticks) for ticks in fields[11:15])
    own = user + system
    return Process(
        parent=int(fields[1]),
        name=head.partition("(")[2],
        started=int(fields[19]),
        own_seconds=own / _TICKS_PER_SECOND,
        seconds=(own + child_user + child_system) / _TICKS_PER_SECOND,
    )


def usage_between(
    before: Snapshot,
    after: Snapshot,
    *,
    benchmark: int,
    broker: int | None = None,
    producer: int | None = None,
) -> Usage:
    """Return the use of the processor between two snapshots. Arguments are process ids."""

    def used(*roots: int | None) -> float:
        return max(0.0, _seconds(after, roots) - _seconds(before, roots))

    own = after.processes[benchmark].own_seconds - before.processes[benchmark].own_seconds
    of_broker, of_producer = used(broker), used(producer)
    stolen = after.stolen_seconds - before.stolen_seconds
    ours = (benchmark, _KERNEL_THREADS)
    others = max(0.0, used(*before.processes, *after.processes) - used(*ours))
    return Usage(
        seconds=after.at - before.at,
        system=max(0.0, used(benchmark) - own - of_broker - of_producer),
        broker=of_broker,
        producer=of_producer,
        benchmark=own,
        others=others + stolen,
        loaded_by=_named(before, after, ours, others, stolen),
    )


def _seconds(moment: Snapshot, roots: Iterable[int | None]) -> float:
    return sum(moment.processes[pid].seconds for pid in tree(moment.processes, roots))


def tree(processes: Mapping[int, Process], roots: Iterable[int | None]) -> set[int]:
    """Return the ids of the roots that exist, and of all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: set[int] = set()
    waiting = [root for root in roots if root is not None and root in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def _named(
    before: Snapshot, after: Snapshot, ours: Iterable[int], others: float, stolen: float
) -> list[str]:
    """Return the other processes that used the most, for example ``gcc (42): 0.71 cores``."""
    used = {}
    for pid in after.processes.keys() - tree(after.processes, ours):
        process = after.processes[pid]
        known = before.processes.get(pid)
        start = known.own_seconds if known and known.started == process.started else 0.0
        used[f"{process.name} ({pid})"] = process.own_seconds - start
    used = {_ENDED: others - sum(used.values()), _STOLEN: stolen, **used}
    seconds = after.at - before.at
    most = sorted(used.items(), key=lambda one: -one[1])[:_NAMED]
    return [
        f"{name}: {spent / seconds:.2f} cores"
        for name, spent in most
        if spent > _NAMED_CORES * seconds
    ]
