"""The windows of a selector as a vector: one row per series, one column per time of the query.

At a time, a series has the value of the last window that ended, until the value expires:

    tumbling    at the end of the next window
    hopping     at the end of the next window
    session     after the gap, when no record can continue the session
    sliding     when the newest record leaves the window, so the value is that of the window that
                ends at this time (semantics.md#0-2)

So a series has a value only where a window exists. A null counts as a missing value.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oriel.app.contract import QUERY_SERIES_MAX, QUERY_VALUES_MAX, QueryNotComputable
from oriel.app.prometheus.matchers import Mask, Matcher
from oriel.app.prometheus.metrics import Labels, Metric, components_of, key_labels, labels_of
from oriel.app.prometheus.selections import keys_mask
from oriel.app.selection import item_columns
from oriel.storage import ScanRange, StoreDefinition, StoreKind, WindowSpec

Values = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


class Vector(NamedTuple):
    """Series with their values at the times of a query.

    Attributes:
        labels: The labels of each series.
        values: One row per series, one column per time.
        present: Which values exist.
    """

    labels: Sequence[Labels]
    values: Values
    present: Mask


class Grid(NamedTuple):
    """The times of a query, in ms: ``start_ms``, ``start_ms + step_ms`` and so on.

    Attributes:
        start_ms: The first time.
        step_ms: The time between two of them.
        size: Their number.
        lookback_ms: How long a value is valid. None: as long as its window says.
    """

    start_ms: int
    step_ms: int
    size: int
    lookback_ms: int | None = None

    @property
    def end_ms(self) -> int:
        """Return the last time."""
        return self.start_ms + (self.size - 1) * self.step_ms

    @property
    def times(self) -> Times:
        """Return the times."""
        return self.start_ms + self.step_ms * np.arange(self.size, dtype=np.int64)

    def earlier(self, offset_ms: int) -> "Grid":
        """Return the times that are ``offset_ms`` earlier."""
        return self._replace(start_ms=self.start_ms - offset_ms)


def empty_vector(grid: Grid) -> Vector:
    """Return a vector without series."""
    shape = (0, grid.size)
    return Vector([], np.zeros(shape), np.zeros(shape, np.bool_))


def range_of(window: WindowSpec, grid: Grid, latest_ms: int) -> ScanRange | None:
    """Return the range of the windows that can have a value at a time of the grid.

    Args:
        window: The windows of the store.
        grid: The times.
        latest_ms: The greatest time that a range can have.
    """
    first_end_ms = max(0, grid.start_ms - _valid_ms(window, grid.lookback_ms) + 1)
    last_end_ms = min(grid.end_ms, latest_ms)
    if last_end_ms < first_end_ms:
        return None
    if window.kind.is_session:
        return ScanRange(earliest_end_ms=first_end_ms, to_ms=last_end_ms)
    last_start_ms = last_end_ms - window.size_ms
    if last_start_ms < 0:
        return None
    return ScanRange(from_ms=max(0, first_end_ms - window.size_ms), to_ms=last_start_ms)


def columns_of(
    items: Sequence[bytes], definition: StoreDefinition, metrics: Sequence[Metric]
) -> pa.Table:
    """Return the columns of windows that the metrics need."""
    names = {each.aggregate for each in metrics}
    needed = tuple(each for each in definition.aggregates if each.name in names)
    columns = item_columns(items, replace(definition, aggregates=needed))
    return columns.set_column(0, "key", columns["key"].cast(pa.string()))


def vector_of(
    columns: pa.Table,
    definition: StoreDefinition,
    metrics: Sequence[Metric],
    matchers: Sequence[Matcher],
    grid: Grid,
) -> Vector:
    """Return the vector of the windows of a store.

    Args:
        columns: The columns of windows in any order.
        definition: The definition of the store.
        metrics: The metrics.
        matchers: The matchers of the labels of the key.
        grid: The times.
    """
    coded = columns["key"].combine_chunks().dictionary_encode()
    keys = coded.dictionary.to_pylist()
    is_selected = keys_mask(keys, definition, matchers)
    components, names = components_of(definition), key_labels(definition)
    key_values = [components(keys[index]) for index in np.flatnonzero(is_selected)]
    check_size(len(key_values) * len(metrics), grid)
    codes, ends = np.asarray(coded.indices), np.asarray(columns["window_end_ms"])
    order = np.lexsort((np.asarray(columns["window_start_ms"]), ends, codes))
    order = order[is_selected[codes[order]]]
    codes, ends = (np.cumsum(is_selected) - 1)[codes[order]], ends[order]
    expires = _expires(definition.window, ends, np.asarray(columns["timestamp_ms"])[order], grid)
    first, after = _columns_of_times(codes, ends, expires, grid)
    rows = _rows(codes * grid.size + first, after - first, (len(key_values), grid.size))
    found = [_of_metric(columns[each.aggregate].combine_chunks(), order, rows) for each in metrics]
    labels = [
        labels_of(each.name, definition.name, names, values)
        for each in metrics
        for values in key_values
    ]
    values = np.concatenate([each[0] for each in found])
    present = np.concatenate([each[1] for each in found])
    return _without_empty(Vector(labels, values, present))


def check_size(series: int, grid: Grid) -> None:
    """Reject a query with more series or values than the limits.

    Raises:
        QueryNotComputable: a limit is exceeded.
    """
    if series > QUERY_SERIES_MAX:
        message = (
            f"query: it selects {series:,} series, and at most {QUERY_SERIES_MAX:,} are possible. "
            "Select fewer keys."
        )
        raise QueryNotComputable(message)
    if series * grid.size > QUERY_VALUES_MAX:
        message = (
            f"query: {series:,} series at {grid.size:,} times are more than {QUERY_VALUES_MAX:,} "
            "values. Select fewer keys, a shorter time range or a greater step."
        )
        raise QueryNotComputable(message)


def joined(vectors: Sequence[Vector], grid: Grid) -> Vector:
    """Return the series of several vectors as one."""
    if not vectors:
        return empty_vector(grid)
    return Vector(
        [labels for vector in vectors for labels in vector.labels],
        np.concatenate([vector.values for vector in vectors]),
        np.concatenate([vector.present for vector in vectors]),
    )


def _valid_ms(window: WindowSpec, lookback_ms: int | None) -> int:
    """Return how long a value can be valid, from the end of its window (inclusive) on."""
    if lookback_ms is not None:
        return lookback_ms
    if window.kind is StoreKind.HOPPING:
        assert window.advance_ms is not None
        return window.advance_ms
    return window.size_ms + window.kind.has_inclusive_end


def _expires(window: WindowSpec, ends: Times, timestamps: Times, grid: Grid) -> Times:
    """Return the first time at which each value is not valid any more."""
    valid_ms = _valid_ms(window, grid.lookback_ms)
    if window.kind is StoreKind.SLIDING and grid.lookback_ms is None:
        return np.minimum(timestamps, ends) + valid_ms
    return ends + valid_ms


def _columns_of_times(codes: Times, ends: Times, expires: Times, grid: Grid) -> tuple[Times, Times]:
    """Return the first column of each window, and the column after its last one."""
    first = _column_from(ends, grid)
    after = _column_from(expires, grid)
    # The next window of the same key replaces the value.
    has_next = codes[:-1] == codes[1:]
    after[:-1] = np.where(has_next, np.minimum(after[:-1], first[1:]), after[:-1])
    return first, np.maximum(first, after)


def _column_from(times: Times, grid: Grid) -> Times:
    """Return the column of the first time of the grid at or after each time."""
    return np.clip(-((grid.start_ms - times) // grid.step_ms), 0, grid.size)


def _rows(first: Times, counts: Times, shape: tuple[int, int]) -> Times:
    """Return for each key and time the index of its window, -1 without a window.

    Args:
        first: For each window, the first place of its value in the flat result.
        counts: For each window, the number of places.
        shape: The number of keys and of times.
    """
    ends = np.cumsum(counts)
    places = np.repeat(first - ends + counts, counts) + np.arange(counts.sum())
    rows = np.full(shape[0] * shape[1], -1, np.int64)
    rows[places] = np.repeat(np.arange(len(first)), counts)
    return rows.reshape(shape)


def _of_metric(column: pa.Array, order: Times, rows: Times) -> tuple[Values, Mask]:
    """Return the values of an aggregate, and a mask of the existing ones."""
    is_valid = np.append(np.asarray(column.is_valid())[order], False)
    numbers = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    values = np.asarray(numbers.cast(pa.float64(), safe=False).fill_null(0.0))
    # The last element is for times without a window.
    return np.append(values[order], 0.0)[rows], is_valid[rows]


def _without_empty(vector: Vector) -> Vector:
    """Return a vector without the series that have no value."""
    rows = np.flatnonzero(vector.present.any(axis=1)).tolist()
    labels = [vector.labels[row] for row in rows]
    return Vector(labels, vector.values[rows], vector.present[rows])
