"""Which row of a window counts: one rule for following a table and for building an index.

The row with the highest revision among all live rows of a window counts. If this row is
``deleted``, the window does not exist. The pipeline never writes two rows of a window with one
revision, but other programs can. Then a window has precedence over its removal, and of two windows
the one with the greater JSON bytes counts. So the result depends only on the set of live rows, and
not on files, versions or their order (docs/decisions/0030).
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from oriel.storage.index.rows import IndexRows

_REVISION_BYTES = 8
_SIGN_BIT = np.uint64(1 << 63)

#: Returns the window that the index has for a record key, or None.
FindWindow = Callable[[bytes], bytes | None]


def revision_bytes(revisions: npt.NDArray[np.int64]) -> list[bytes]:
    """Encode each revision in 8 bytes with the order of the revisions, including negative ones."""
    # In two's complement, flipping the sign bit adds 2**63 modulo 2**64.
    big_endian = (revisions.astype(np.int64).view(np.uint64) ^ _SIGN_BIT).astype(">u8").tobytes()
    return [
        big_endian[at : at + _REVISION_BYTES]
        for at in range(0, len(big_endian), _REVISION_BYTES)
    ]  # fmt: skip


def counting(
    rows: IndexRows, known: Mapping[bytes, bytes], find_window: FindWindow
) -> npt.NDArray[np.bool_]:
    """Return which rows count, compared with the known revisions of their windows.

    Args:
        rows: The rows.
        known: Revisions by record key, encoded by ``revision_bytes``. A window that is missing here
            has only lower revisions.
        find_window: Returns the window that the index has for a record key.

    Returns:
        A mask of the rows.
    """
    count = np.ones(len(rows.keys), np.bool_)
    if not known:
        return count
    revisions = revision_bytes(rows.revisions)
    for at, key in enumerate(rows.keys):
        before = known.get(key)
        if before is not None and before >= revisions[at]:
            count[at] = before == revisions[at] and _wins_against_equal_revision(
                rows, at, find_window
            )
    return count


def _wins_against_equal_revision(rows: IndexRows, at: int, find_window: FindWindow) -> bool:
    if rows.deleted[at]:
        return False
    current_window = find_window(rows.keys[at])
    return current_window is None or rows.values[at] > current_window


def select_rows(rows: IndexRows, mask: npt.NDArray[np.bool_]) -> IndexRows:
    """Return the rows that a mask selects. The extent is still the extent of all rows."""
    if mask.all():
        return rows
    indices = np.flatnonzero(mask).tolist()
    return IndexRows(
        keys=[rows.keys[place] for place in indices],
        values=[rows.values[place] for place in indices],
        deleted=rows.deleted[mask],
        revisions=rows.revisions[mask],
        extent=rows.extent,
        partials=None if rows.partials is None else [rows.partials[place] for place in indices],
    )
