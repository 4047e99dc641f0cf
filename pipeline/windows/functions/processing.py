"""The functions of ``process``: rows from the records and the timers of a key.

The functions follow the rules of aggregators (see ``UserFunctions``): they receive copies, and
their results are converted to the declared types at once. If a function raises, the call changes
nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.definitions import MAX_TIMESTAMP_MS, IllegalArgument, said
from oriel.pipeline.windows.functions.converters import converter
from oriel.pipeline.windows.functions.user_functions import Rejected

#: No row, one row, or several rows as dicts of columns.
ProcessedRows = Mapping[str, Any] | Iterable[Mapping[str, Any]] | None


class ProcessContext:
    """The state and the timers of a key, for a function of ``process``.

    It corresponds to ``ProcessorContext`` of Kafka Streams and to the ``Context`` of a
    ``KeyedProcessFunction`` of Flink. Each call has its own context.

    Example:
        >>> def counted(key, value, context):
        ...     context.state = {"n": 1 + (context.state["n"] if context.state else 0)}
        ...     context.set_timer(context.timestamp_ms + 60_000)
    """

    def __init__(
        self,
        timestamp_ms: int,
        stream_time_ms: int,
        state: dict[str, Any] | None,
        timers: Iterable[int],
        earliest_timer_ms: int = 0,
    ) -> None:
        """Create the context of one call. ``earliest_timer_ms`` is the least time of a timer."""
        self._timestamp_ms = timestamp_ms
        self._stream_time_ms = stream_time_ms
        self._timers = set(timers)
        self._earliest_timer_ms = earliest_timer_ms
        #: The columns of the state, or None if the key has no state. Assign None to delete it.
        self.state = state

    @property
    def timestamp_ms(self) -> int:
        """The time of the record or of the timer, in milliseconds. Its rows have the same time.

        Example:
            >>> ProcessContext(5, 9, None, []).timestamp_ms
            5
        """
        return self._timestamp_ms

    @property
    def stream_time_ms(self) -> int:
        """The stream time of the partition of the key, in milliseconds.

        For a record, it includes this record. For a timer, it is the time of the timer, or the
        stream time at which a record set the timer, if this is greater.

        Example:
            >>> ProcessContext(5, 9, None, []).stream_time_ms
            9
        """
        return self._stream_time_ms

    @property
    def timers(self) -> tuple[int, ...]:
        """The times of the timers of the key that have not fired, ascending, in milliseconds.

        Example:
            >>> ProcessContext(5, 9, None, [30, 20]).timers
            (20, 30)
        """
        return tuple(sorted(self._timers))

    def set_timer(self, time_ms: int) -> None:
        """Set a timer of the key. A key has one timer per time.

        The timer fires when the stream time of the partition of the key reaches ``time_ms``, before
        the record that advances it. If stream time is already there, it fires after this call.

        Args:
            time_ms: The time in milliseconds. In ``on_timer``, it must be greater than the time of
                the timer that fires.

        Raises:
            IllegalArgument: ``time_ms`` is not an integer, or is out of range.

        Example:
            >>> context = ProcessContext(5, 9, None, [])
            >>> context.set_timer(context.timestamp_ms + 60_000)
            >>> context.timers
            (60005,)
        """
        if isinstance(time_ms, bool) or not isinstance(time_ms, int | np.integer):
            message = f"set_timer: the time must be an integer in ms, not {time_ms!r}"
            raise IllegalArgument(message)
        if not self._earliest_timer_ms <= time_ms <= MAX_TIMESTAMP_MS:
            message = (
                f"set_timer: the time must be from {self._earliest_timer_ms} to "
                f"{MAX_TIMESTAMP_MS} ms, not {time_ms}"
            )
            raise IllegalArgument(message)
        self._timers.add(int(time_ms))

    def delete_timer(self, time_ms: int) -> None:
        """Delete the timer of the key with this time. Without such a timer, nothing changes.

        Args:
            time_ms: The time in milliseconds.

        Example:
            >>> context = ProcessContext(5, 9, None, [20, 30])
            >>> context.delete_timer(20)
            >>> context.timers
            (30,)
        """
        self._timers.discard(time_ms)


#: (key, value, context) -> rows. A null value is passed as None.
Processor = Callable[[str, Any, ProcessContext], ProcessedRows]
#: (key, context) -> rows.
OnTimer = Callable[[str, ProcessContext], ProcessedRows]


@dataclass(frozen=True)
class ProcessFunctions:
    """The functions of ``process`` with the types of their rows and of the state.

    Args:
        function: The function of records.
        on_timer: The function of timers. None: the function of records can set no timer.
        rows: The columns of rows.
        state: The columns of the state of a key. None: no state.
        step: The step in the topology, for messages.
    """

    function: Processor
    on_timer: OnTimer | None
    rows: pa.Schema
    state: pa.Schema | None
    step: str

    def of_record(self, key: str, value: Any, context: ProcessContext) -> list[dict[str, Any]]:
        """Return the rows of a record. The context has the next state and timers afterwards.

        Raises:
            Rejected: The function raised, or its rows or the state do not fit the types.
        """
        try:
            return self._typed(self.function(key, value, context), context)
        except Exception as error:
            message = f"{self.step}: {said(error)}"
            raise Rejected(message) from error

    def of_timer(self, key: str, context: ProcessContext) -> list[dict[str, Any]]:
        """Return the rows of a timer. The context has the next state and timers afterwards.

        Raises:
            Rejected: The function raised, or its rows or the state do not fit the types.
        """
        assert self.on_timer is not None, "without the function, no timer is set"
        try:
            return self._typed(self.on_timer(key, context), context)
        except Exception as error:
            message = f"{self.step}, timer at {context.timestamp_ms}: {said(error)}"
            raise Rejected(message) from error

    def copied(self, state: dict[str, Any] | None) -> Any:
        """Return a copy of a state that a function can change."""
        return None if state is None else self._convert_state(state)

    def _typed(self, rows: ProcessedRows, context: ProcessContext) -> list[dict[str, Any]]:
        # A generator runs here, so the state is converted after its last row.
        listed = [] if rows is None else [rows] if isinstance(rows, Mapping) else list(rows)
        if any(row is None for row in listed):
            message = "a row must be a dict of columns, not None"
            raise TypeError(message)
        typed = [self._convert_row(row) for row in listed]
        if context.state is not None:
            if self.state is None:
                message = "context.state: the key has no state. Pass state= to process"
                raise IllegalArgument(message)
            context.state = self._convert_state(context.state)
        if self.on_timer is None and context.timers:
            message = "set_timer: no function receives the timer. Pass on_timer= to process"
            raise IllegalArgument(message)
        return typed

    @cached_property
    def _convert_row(self) -> Callable[[Any], Any]:
        return converter(pa.struct(list(self.rows)), "row").convert

    @cached_property
    def _convert_state(self) -> Callable[[Any], Any]:
        return converter(pa.struct(list(self.state or ())), "state").convert
