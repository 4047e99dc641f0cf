"""Which row of a window counts: one rule for following a table and for building from nothing.

Of all live rows of a window the one of the highest revision counts; if it says ``deleted``,
there is no such window. Of rows of one revision (the pipeline writes none, others may) a window
counts against its removal, and of two windows the one whose JSON is greater as bytes. So the
answer is a function of the set of live rows: files, versions and their order are no part of it
(docs/decisions/0030).
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from oriel.storage.index.rows import IndexRows

_REVISION_BYTES = 8
_SIGN_BIT = np.uint64(1 << 63)

#: Gives the window that stands under a record key, None where there is none.
Standing = Callable[[bytes], bytes | None]


def revision_bytes(revisions: npt.NDArray[np.int64]) -> list[bytes]:
    """Each revision as 8 bytes that compare as the revisions do, negative ones too."""
    # In two's complement, flipping the sign bit adds 2**63 modulo 2**64.
    big_endian = (revisions.astype(np.int64).view(np.uint64) ^ _SIGN_BIT).astype(">u8").tobytes()
    return [
        big_endian[at : at + _REVISION_BYTES]
        for at in range(0, len(big_endian), _REVISION_BYTES)
    ]  # fmt: skip


def counting(
    rows: IndexRows, known: Mapping[bytes, bytes], standing: Standing
) -> npt.NDArray[np.bool_]:
    """Which of these rows count against what is known of their windows.

    ``known`` are revisions by record key, as ``revision_bytes`` has them; a window that it lacks
    has had lower ones only.
    """
    count = np.ones(len(rows.keys), np.bool_)
    if not known:
        return count
    revisions = revision_bytes(rows.revisions)
    for at, key in enumerate(rows.keys):
        before = known.get(key)
        if before is not None and before >= revisions[at]:
            count[at] = before == revisions[at] and _counts_against_equal(rows, at, standing)
    return count


def _counts_against_equal(rows: IndexRows, at: int, standing: Standing) -> bool:
    if rows.deleted[at]:
        return False
    stands = standing(rows.keys[at])
    return stands is None or rows.values[at] > stands


def only(rows: IndexRows, mask: npt.NDArray[np.bool_]) -> IndexRows:
    """These of the rows; the extent stays that of all."""
    if mask.all():
        return rows
    places = np.flatnonzero(mask).tolist()
    return IndexRows(
        keys=[rows.keys[place] for place in places],
        values=[rows.values[place] for place in places],
        deleted=rows.deleted[mask],
        revisions=rows.revisions[mask],
        extent=rows.extent,
    )
