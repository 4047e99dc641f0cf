"""Which partition sessions of a key are one session (docs/decisions/0009, rule 2).

Two sessions X and Y of different partitions, Y ending first, are one iff some record of X
with close time <= Y's end lies at most the gap after Y's end: iff max(close time, time - gap)
of some record of X is <= Y's end. So a partition session is described by its bounds and the
least of that number over its records, its *reach*: it is one with every session of its key
that ends in [reach, end]. Of one partition there is none: what X's record could reach was
open for it, and they would have been joined as records came.
"""

from dataclasses import dataclass

import numpy as np

from oriel.pipeline.windows.arrays import Flags, Ints, heads, pair_order


@dataclass(frozen=True)
class Sessions:
    """Partition sessions in any order: key code, bounds and how far they reach down, in ms."""

    code: Ints
    start: Ints
    end: Ints
    reach: Ints


def components(sessions: Sessions) -> Ints:
    """Number the sessions from 0 on so that equal numbers are one session of the store.

    By ascending end, a component goes on wherever a later session reaches the one before.
    """
    order = pair_order(sessions.code, sessions.end)
    component = np.empty(len(order), dtype=np.int64)
    if not len(order):
        return component
    code, end, reach = sessions.code[order], sessions.end[order], sessions.reach[order]
    least = -running_max(-reach[::-1], heads(code[::-1]))[::-1]
    begins = heads(code)
    begins[1:] |= least[1:] > end[:-1]
    component[order] = np.cumsum(begins) - 1
    return component


def chain_heads(code: Ints, start: Ints, end: Ints, gap: int) -> Flags:
    """Where a chain begins, in intervals sorted by (code, start); all in ms."""
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
