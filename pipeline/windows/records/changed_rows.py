"""The one layout of a changed row: what every engine gives of a window, a session or a key."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints

#: A changed row's columns in front of the aggregates, and behind them.
WINDOW_COLUMNS = ("key", "window_start_ms", "window_end_ms")
STATUS_COLUMNS = ("timestamp_ms", "final", "deleted")


def changed_rows(
    key: pa.Array | pa.ChunkedArray,
    window_ms: tuple[Ints, Ints],
    aggregates: Mapping[str, pa.Array | pa.ChunkedArray],
    timestamp_ms: Ints,
    *,
    final: Flags | None = None,
    deleted: Flags | None = None,
) -> pa.Table:
    """Put changed rows together, one for each entry of ``key``.

    ``window_ms`` has the windows' starts and ends, ``timestamp_ms`` the greatest time of their
    records (KIP-259; of a session its end), each an array as long as ``key``. ``final`` rows are
    of windows that never change again; ``deleted`` rows take a window away, and count as not
    final whatever ``final`` says. Where a flag is not given, it is false in each row.
    """
    no_row = np.zeros(len(key), dtype=np.bool_)
    final, deleted = (no_row if flags is None else flags for flags in (final, deleted))
    start_ms, end_ms = window_ms
    window = (key, pa.array(start_ms), pa.array(end_ms))
    status = (pa.array(timestamp_ms), pa.array(final & ~deleted), pa.array(deleted))
    return pa.table({
        **dict(zip(WINDOW_COLUMNS, window, strict=True)),
        **aggregates,
        **dict(zip(STATUS_COLUMNS, status, strict=True)),
    })  # fmt: skip
