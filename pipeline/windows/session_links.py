"""Which partition sessions of a key are one session (docs/decisions/0009, rule 2).

A partition session is described by its start and end, the least time of its records that
were not behind the grace (``regular_ms``), and its stragglers: (close time, time) of the
records behind it. Two sessions X and Y of different partitions, Y ending first, are one iff
some record of X with close time <= Y's end lies at most the gap after Y's end. For a
record that is not behind the grace the first half follows from the second.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.windows.engine import Flags, heads
from pipeline.windows.exact_sum import Ints, prefix_sums

#: Where no record of a session is in time.
NO_REGULAR_MS = 2**62

STRAGGLERS = pa.list_(pa.struct([("close_ms", pa.int64()), ("timestamp_ms", pa.int64())]))


@dataclass(frozen=True)
class Sessions:
    """Partition sessions in any order: key code, partition, start, end and how they reach down."""

    code: Ints
    partition: Ints
    start: Ints
    end: Ints
    regular: Ints
    stragglers: pa.Array


def components(sessions: Sessions, gap: int) -> Ints:
    """Number the sessions so that equal numbers are one session of the store."""
    order = np.lexsort((sessions.end, sessions.start, sessions.code))
    chain = _chains(sessions, order, gap)
    component = np.empty(len(order), dtype=np.int64)
    component[order] = chain
    for number in _unclear_chains(sessions, order, chain):
        rows = order[chain == number]
        component[rows] = _linked(sessions, rows.tolist(), gap)
    return np.unique(component, return_inverse=True)[1] if len(order) else component


def _chains(sessions: Sessions, order: Ints, gap: int) -> Ints:
    """Number the chains of sessions at most the gap apart, whoever their records came to."""
    code, start, end = sessions.code[order], sessions.start[order], sessions.end[order]
    return np.cumsum(chain_heads(code, start, end, gap)) - 1


def chain_heads(code: Ints, start: Ints, end: Ints, gap: int) -> Flags:
    """Where a chain begins, in intervals sorted by (code, start)."""
    head = heads(code)
    if len(code) < 2:
        return head
    reach = running_max(end, head)
    head[1:] |= start[1:] - gap > reach[:-1]
    return head


def running_max(values: Ints, head: Flags) -> Ints:
    """The greatest value so far within each run; ``head`` marks where runs begin."""
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    run = np.cumsum(head) - 1
    if (int(run[-1]) + 1) * span < 2**62:
        lifted = np.maximum.accumulate(run * span + (values - lowest))
        reached: Ints = lifted - run * span + lowest
        return reached
    distinct, rank = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(run * len(distinct) + rank)
    ranked: Ints = distinct[lifted - run * len(distinct)]
    return ranked


def _unclear_chains(sessions: Sessions, order: Ints, chain: Ints) -> list[int]:
    """Chains of several sessions with a straggler: who joins whom has to be looked at."""
    offsets = np.asarray(sessions.stragglers.offsets).astype(np.int64)
    straggling = np.diff(offsets)[order] > 0
    several = np.bincount(chain, minlength=1) > 1 if len(chain) else np.zeros(0, np.bool_)
    with_straggler = np.unique(chain[straggling])
    return [int(number) for number in with_straggler if several[number]]


def _linked(sessions: Sessions, rows: list[int], gap: int) -> list[int]:
    """Compare each pair; the number of a component is that of a row of it, negative."""
    parent = {row: row for row in rows}

    def root(row: int) -> int:
        while parent[row] != row:
            row = parent[row]
        return row

    told = {row: _reach(sessions, row) for row in rows}
    for row in rows:
        for other in rows:
            if sessions.partition[row] == sessions.partition[other]:
                continue
            if sessions.end[other] <= sessions.end[row]:
                bound = int(sessions.end[other])
                if any(close <= bound and time <= bound + gap for close, time in told[row]):
                    parent[root(row)] = root(other)
    return [-1 - root(row) for row in rows]


def _reach(sessions: Sessions, row: int) -> list[tuple[int, int]]:
    """(close time, time) of the records that may reach down to another session."""
    regular = int(sessions.regular[row])
    stragglers: list[dict[str, Any]] = sessions.stragglers[row].as_py()
    found = [(s["close_ms"], s["timestamp_ms"]) for s in stragglers]
    if regular != NO_REGULAR_MS:
        found.append((-(2**62), regular))
    return found


def hulls(component: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Return (order, least start, greatest end): rows sorted by component, hull by component."""
    order = np.argsort(component, kind="stable")
    begin = np.flatnonzero(heads(component[order]))
    if not len(begin):
        return order, start, end
    least = np.minimum.reduceat(start[order], begin)
    greatest = np.maximum.reduceat(end[order], begin)
    return order, least, greatest


def bounds_of(component: Ints) -> tuple[Ints, Ints]:
    """Where each component's rows begin and end, in rows sorted by component."""
    sizes = np.bincount(component) if len(component) else np.zeros(0, dtype=np.int64)
    ends = prefix_sums(sizes.astype(np.int64))
    return ends[:-1], ends[1:]
