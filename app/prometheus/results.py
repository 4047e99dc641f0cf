"""The result of a query as the JSON of Prometheus' API.

Arrow writes the numbers, because a response can have many. A number has the least digits that
identify it, as in Prometheus.
"""

from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.prometheus.evaluation import Result
from oriel.app.prometheus.windows import Grid, Values, Vector


def success(data: object, warnings: Sequence[str] = ()) -> bytes:
    """Return a successful response."""
    more = {"warnings": [*warnings]} if warnings else {}
    return orjson.dumps({"status": "success", "data": data, **more})


def instant_result(result: Result, grid: Grid, *, is_ordered: bool) -> bytes:
    """Return the result at one time."""
    time = _times(grid)[0]
    if isinstance(result, str):
        return _body(b"string", b"[%b,%b]" % (time.encode(), orjson.dumps(result)))
    if not isinstance(result, Vector):
        return _body(b"scalar", f'[{time},"{_numbers(result)[0]}"]'.encode())
    rows: list[int] = np.flatnonzero(result.present[:, 0]).tolist()
    if not is_ordered:
        rows.sort(key=lambda row: result.labels[row])
    numbers = _numbers(result.values[rows, 0])
    items = [
        b'{"metric":%b,"value":[%b,"%b"]}' % (_metric(result, row), time.encode(), number.encode())
        for row, number in zip(rows, numbers, strict=True)
    ]
    return _body(b"vector", b"[%b]" % b",".join(items))


def range_result(result: Vector | Values, grid: Grid) -> bytes:
    """Return the result at many times: a list of values per series."""
    if not isinstance(result, Vector):
        present = np.ones((1, grid.size), np.bool_)
        result = Vector([()], result[np.newaxis], present)
    order = sorted(range(len(result.labels)), key=lambda row: result.labels[row])
    rows = [row for row in order if result.present[row].any()]
    items = [
        b'{"metric":%b,"values":[%b]}' % (_metric(result, row), values.encode())
        for row, values in zip(rows, _lists(result, rows, grid), strict=True)
    ]
    return _body(b"matrix", b"[%b]" % b",".join(items))


def _body(kind: bytes, result: bytes) -> bytes:
    return b'{"status":"success","data":{"resultType":"%b","result":%b}}' % (kind, result)


def _metric(vector: Vector, row: int) -> bytes:
    return orjson.dumps(dict(vector.labels[row]))


def _lists(vector: Vector, rows: Sequence[int], grid: Grid) -> list[str]:
    """Return the values of each row as a JSON list without its brackets."""
    present = vector.present[rows]
    times = pa.array(_times(grid), pa.string()).take(pa.array(np.nonzero(present)[1]))
    numbers = _texts(vector.values[rows][present])
    pairs = pc.binary_join_element_wise("[", times, ',"', numbers, '"]', "")
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    by_row = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs)
    joined: list[str] = pc.binary_join(by_row, ",").to_pylist()
    return joined


def _times(grid: Grid) -> list[str]:
    """Return the times in seconds."""
    return [_seconds(time_ms) for time_ms in grid.times.tolist()]


def _seconds(time_ms: int) -> str:
    whole, rest = divmod(abs(time_ms), 1000)
    sign = "-" if time_ms < 0 else ""
    return f"{sign}{whole}" if not rest else f"{sign}{whole}.{rest:03}".rstrip("0")


def _numbers(values: Values) -> list[str]:
    return [str(text) for text in _texts(values).to_pylist()]


def _texts(values: Values) -> pa.Array:
    texts = pa.array(values, pa.float64()).cast(pa.string())
    texts = pc.if_else(pc.equal(texts, "inf"), "+Inf", texts)
    texts = pc.if_else(pc.equal(texts, "-inf"), "-Inf", texts)
    return pc.if_else(pc.equal(texts, "nan"), "NaN", texts)
