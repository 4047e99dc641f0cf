"""Check a join of two aggregations by the same time windows."""

from typing import Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.step_checks import check_inputs
from oriel.pipeline.language.topology import JoinedWindows, Rows, verb

#: The alternatives if windows cannot be joined in this way.
_ALTERNATIVES = (
    "Create tables of both with to_stream().select_key('key', 'window_start_ms', 'window_end_ms')"
    ".map_values(n='count').to_table(), join to_stream() of both as streams, or aggregate both "
    "streams in one cogroup"
)


def joined_windows(
    how: Literal["inner", "left", "outer"], left: Rows, right: Rows
) -> JoinedWindows:
    """Return the rows that are ``left`` and ``right`` joined by key and window.

    Raises:
        InvalidTopology: The windows differ or are not time windows, an aggregation has functions
            or steps, only one aggregation emits final rows, both have a column with the same
            name, or both together have more than 128 inputs.
    """
    step = verb(how)
    if left.windows.kind not in {"tumbling", "hopping"} or left.windows != right.windows:
        message = (
            f"{step}: windowed tables need equal time windows to be joined, not {left.windows!r} "
            f"and {right.windows!r}. {_ALTERNATIVES}"
        )
        raise InvalidTopology(message)
    if not left.columns or not right.columns:
        message = f"{step}: windowed tables need named aggregates to be joined. {_ALTERNATIVES}"
        raise InvalidTopology(message)
    if left.has_steps or right.has_steps or left.emit != right.emit:
        message = (
            f"{step}: windowed tables must be joined directly after their aggregations, and with "
            "the same emit strategy. Call steps and suppress after the join. Aggregate three or "
            "more streams in one cogroup"
        )
        raise InvalidTopology(message)
    twice = {name for name in left.columns if name.lower() in map(str.lower, right.columns)}
    if twice:
        message = (
            f"{step}: both tables have columns named {sorted(twice)}. Rename the columns "
            "of one table with aggregate(other=...)"
        )
        raise InvalidTopology(message)
    joined = JoinedWindows(left=left, right=right, how=how, windows=left.windows, emit=left.emit)
    check_inputs(step, len(joined.inputs))
    return joined
