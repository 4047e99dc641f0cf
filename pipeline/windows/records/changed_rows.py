"""The one layout of a changed row: what every engine gives of a window, session or key."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints

#: A changed row's columns in front of the aggregates, and behind them.
WINDOW_COLUMNS = ("key", "window_start_ms", "window_end_ms")
STATUS_COLUMNS = ("timestamp_ms", "final", "deleted")


def changed_rows(
    key: pa.Array,
    window_ms: tuple[Ints, Ints],
    aggregates: Mapping[str, pa.Array],
    timestamp_ms: Ints,
    *,
    final: Flags | None = None,
    deleted: Flags | None = None,
) -> pa.Table:
    """Put changed rows together, one for each entry of ``key``.

    ``window_ms`` has the windows' starts and ends, ``timestamp_ms`` the greatest time of their
    records (KIP-259). ``final`` rows are of windows that never change again, ``deleted`` ones of
    windows that are gone, which are never final: what is gone may come again. Without either
    no row is.
    """
    none = np.zeros(len(key), dtype=np.bool_)
    final, deleted = (none if flags is None else flags for flags in (final, deleted))
    values = {
        "key": key,
        "window_start_ms": pa.array(window_ms[0]),
        "window_end_ms": pa.array(window_ms[1]),
        **aggregates,
        "timestamp_ms": pa.array(timestamp_ms),
        "final": pa.array(final & ~deleted),
        "deleted": pa.array(deleted),
    }
    return pa.table(values)
