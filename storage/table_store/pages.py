"""Pages of the windows of a version, with the same bounds as pages of an index."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.contracts import (
    LATEST_MS,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
    version_json,
)
from oriel.storage.key_codec import after_key
from oriel.storage.key_types import KeyType
from oriel.storage.table_store.conditions import (
    Condition,
    from_key,
    of_keys,
    of_prefix,
    of_times,
)
from oriel.storage.table_store.version_rows import LiveRows

Ints = npt.NDArray[np.int64]
#: The number of windows that are encoded as JSON at a time, until a page has enough bytes.
_JSON_ROWS = 1_000


def window_page(
    windows: LiveRows, read_range: WindowRange | SessionRange, *, backward: bool
) -> WindowPage:
    """Return the page of the windows of one key that follow ``after`` in the direction."""
    starts_ms, ends_ms = windows.starts_ms, windows.ends_ms
    indexes = _indexes(windows, final=read_range.final, backward=backward)
    if read_range.after is not None:
        start_ms, end_ms = read_range.after
        if backward:
            is_after = (starts_ms < start_ms) | ((starts_ms == start_ms) & (ends_ms < end_ms))
        else:
            is_after = (starts_ms > start_ms) | ((starts_ms == start_ms) & (ends_ms > end_ms))
        indexes = indexes[is_after[indexes]]
    page = _json(windows, indexes, read_range)
    has_partials = isinstance(read_range, WindowRange) and read_range.with_partials
    partials = windows.partials(indexes[: len(page)]) if has_partials else ()
    if len(page) == len(indexes):
        return WindowPage(page, None, partials)
    last = indexes[len(page) - 1]
    return WindowPage(page, WindowId(int(starts_ms[last]), int(ends_ms[last])), partials)


def scan_page(windows: LiveRows, scan_range: ScanRange, *, backward: bool) -> ScanPage:
    """Return a page of the windows of many keys. The next page follows the last record key."""
    indexes = _indexes(windows, final=scan_range.final, backward=backward)
    records = windows.record_keys()
    if scan_range.after is not None:
        compare = pc.less if backward else pc.greater
        is_after = compare(records, pa.scalar(scan_range.after, pa.binary()))
        indexes = indexes[is_after.to_numpy(zero_copy_only=False)[indexes]]
    page = _json(windows, indexes, scan_range)
    partials = windows.partials(indexes[: len(page)]) if scan_range.with_partials else ()
    if len(page) == len(indexes):
        return ScanPage(page, None, partials)
    return ScanPage(page, records[int(indexes[len(page) - 1])].as_py(), partials)


def each_key_page(
    windows: LiveRows, scan_range: ScanRange, choose: Callable[[LiveRows, Ints], Ints]
) -> ScanPage:
    """Return a page with one window per key. The next page follows the last key prefix.

    Args:
        windows: The windows, in order of their record keys.
        scan_range: The bounds of the page.
        choose: A function that selects the windows. It is called with the index of each key's
            first window, and returns the index of a window for each key.
    """
    keys = windows.key_column()
    is_first = np.ones(len(windows), np.bool_)
    if len(windows):
        is_first[1:] = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    firsts = np.flatnonzero(is_first)
    indexes = choose(windows, firsts) if len(windows) else firsts
    return _page_of_keys(windows, indexes, scan_range, backward=False)


def newest_version_page(versions: LiveRows, scan_range: ScanRange, *, backward: bool) -> ScanPage:
    """Return a page with the newest version of each key. The next page follows a key prefix."""
    indexes = _newest_versions(versions)
    return _page_of_keys(
        versions, indexes[::-1] if backward else indexes, scan_range, backward=backward
    )


def _page_of_keys(
    rows: LiveRows, indexes: Ints, scan_range: ScanRange, *, backward: bool
) -> ScanPage:
    """Return a page of one row per key, in the order of ``indexes``."""
    if scan_range.after is not None:
        compare = pc.less if backward else pc.greater_equal
        bound = scan_range.after if backward else after_key(scan_range.after)
        is_after = compare(rows.record_keys(), pa.scalar(bound, pa.binary()))
        indexes = indexes[is_after.to_numpy(zero_copy_only=False)[indexes]]
    page = _json(rows, indexes, scan_range)
    if len(page) == len(indexes):
        return ScanPage(page, None)
    return ScanPage(page, rows.key_prefix(int(indexes[len(page) - 1])))


def newest_keys(versions: LiveRows) -> list[str]:
    """Return the keys whose newest version is not a tombstone."""
    keys: list[str] = versions.key_column().take(pa.array(_newest_versions(versions))).to_pylist()
    return keys


def _newest_versions(versions: LiveRows) -> Ints:
    """Return the indexes of the newest version of each key, without tombstones."""
    keys = versions.key_column()
    is_last = np.ones(len(versions), np.bool_)
    if len(versions):
        is_last[:-1] = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    return np.flatnonzero(is_last & (versions.ends_ms > versions.starts_ms))


def version_page(versions: LiveRows, version_range: WindowRange, *, backward: bool) -> WindowPage:
    """Return the page of the versions of one key that were valid in a range of time."""
    starts_ms = versions.starts_ms
    next_ms = np.append(starts_ms[1:], LATEST_MS)[: len(versions)]
    is_valid = (starts_ms <= version_range.to_ms) & (next_ms > version_range.from_ms)
    is_valid &= (versions.ends_ms > starts_ms) & (version_range.from_ms <= version_range.to_ms)
    if version_range.after is not None:
        after_ms = version_range.after.start_ms
        is_valid &= starts_ms < after_ms if backward else starts_ms > after_ms
    indexes = np.flatnonzero(is_valid)
    indexes = indexes[::-1] if backward else indexes
    rows = _json(versions, indexes, version_range)
    page = [
        version_json(row, int(starts_ms[i]), None if i == len(versions) - 1 else int(next_ms[i]))
        for row, i in zip(rows, indexes, strict=False)
    ]
    if len(page) == len(indexes):
        return WindowPage(page, None)
    last = indexes[len(page) - 1]
    return WindowPage(page, WindowId(int(starts_ms[last]), int(versions.ends_ms[last])))


def of_scan(scan_range: ScanRange, key_type: KeyType, *, windowed: bool) -> Condition:
    """Return the condition for the keys and windows in a range.

    Raises:
        KeyTypeMismatch: A bound is not a key of this type, or keys with the prefix are not
            adjacent.
    """
    condition = of_prefix(scan_range.prefix, key_type)
    if scan_range.key_to is not None:
        condition &= of_keys(None, scan_range.key_to, key_type)
    if scan_range.key_from is not None:
        condition &= from_key(scan_range.key_from, key_type)
    if windowed:
        condition &= of_times("window_start", max(scan_range.from_ms, 0), scan_range.to_ms)
        condition &= of_times("window_end", max(scan_range.earliest_end_ms, 0), LATEST_MS)
    return condition


def latest_of_each(windows: LiveRows, firsts: Ints) -> Ints:
    """Return the index of the last window of each key."""
    return np.append(firsts[1:], len(windows)) - 1


def current_of_each(windows: LiveRows, firsts: Ints, *, last_ms: int) -> Ints:
    """Return, for each key, the index of the first window that contains its newest record.

    ``last_ms`` is the distance from the last time in a window to its end.
    """
    newest_ms = np.maximum.reduceat(windows.timestamps_ms, firsts)
    owners = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(windows))))
    times_ms = newest_ms[owners]
    is_holding = (windows.starts_ms <= times_ms) & (times_ms <= windows.ends_ms - last_ms)
    # A window that was already closed when the record arrived does not contain it.
    is_holding &= windows.timestamps_ms >= times_ms
    # Another writer can write a time that is in no window. Then, use the last window of the key.
    indexes = latest_of_each(windows, firsts)
    holding = np.flatnonzero(is_holding)
    of_key, first_holding = np.unique(owners[holding], return_index=True)
    indexes[of_key] = holding[first_holding]
    return indexes


def last_ending_of_each(windows: LiveRows, firsts: Ints) -> Ints:
    """Return the index of each key's session with the greatest end, and then greatest start."""
    owners = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(windows))))
    by_end = np.lexsort((windows.starts_ms, windows.ends_ms, owners))
    return by_end[latest_of_each(windows, firsts)]


def _indexes(windows: LiveRows, *, final: bool | None, backward: bool) -> Ints:
    indexes = np.arange(len(windows))
    if final is not None:
        indexes = indexes[windows.is_final == final]
    return indexes[::-1] if backward else indexes


def _json(
    windows: LiveRows, indexes: Ints, read_range: WindowRange | SessionRange | ScanRange
) -> list[bytes]:
    """Return the first of the windows as JSON, up to the limits of the page."""
    items: list[bytes] = []
    size = 0
    for begin in range(0, min(read_range.limit, len(indexes)), _JSON_ROWS):
        end = min(begin + _JSON_ROWS, read_range.limit)
        for item in windows.json(indexes[begin:end]):
            items.append(item)
            size += len(item)
            if size >= read_range.bytes_max:
                return items
    return items
