"""Row-wise steps of a stream."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions, require_parameters
from oriel.pipeline.language.joins import stepped
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import (
    checked_flat_map,
    checked_key,
    checked_map_values,
)
from oriel.pipeline.language.topology import Filter, Input, Peek, Peeker, Step

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class StreamSteps(OtherWords):
    """The row-wise steps of ``KStream``."""

    registry: Registry
    #: One input, or the inputs of merged streams.
    origins: tuple[Input, ...]

    def filter(self, condition: "str | Column") -> Self:
        """Keep the records for which a condition is true.

        A record is dropped if the condition is false or null. Dropped records do not advance
        stream time (semantics.md#1-1).

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN. It can read the
                columns of the value, ``key`` and ``timestamp_ms`` of the same record, and must be
                deterministic.

        Returns:
            The stream of the remaining records.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> late = flights.filter("delay > 15")
        """
        require_expressions("filter", condition)
        return self._with_step(Filter(condition))

    def filter_not(self, condition: "str | Column") -> Self:
        """Keep the records for which a condition is not true.

        A record is kept if the condition is false or null. Dropped records do not advance stream
        time.

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN, as for ``filter``.

        Returns:
            The stream of the remaining records.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``.

        Example:
            >>> known = flights.filter_not("carrier IS NULL")
        """
        require_expressions("filter_not", condition)
        return self._with_step(Filter(condition, is_negated=True))

    def select_key(self, *columns: "str | Column") -> Self:
        """Replace the key of each record.

        All later steps read the new key. A record whose new key is null becomes a dead letter if a
        later step needs a key.

        Args:
            *columns: Columns or expressions. They are cast to string and combined to one key as in
                ``group_by``.

        Returns:
            The stream with the new keys. It needs no repartition topic.

        Raises:
            InvalidTopology: No column is named, or one is neither a string nor a ``Column``.

        Example:
            >>> by_carrier = flights.select_key("carrier")
        """
        return self._with_step(checked_key("select_key", columns, ("*",), {}))

    def map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> Self:
        """Replace the key and the value of each record.

        All expressions read the old key and the old value.

        Args:
            key: The expression of the new key, or a tuple of several.
            *keep: Columns of the old value to keep, or ``"*"`` for all.
            **columns: New columns and their expressions.

        Returns:
            The stream with the new keys and values.

        Raises:
            InvalidTopology: The new value has no column, no key is named, or an expression is
                neither a string nor a ``Column``.

        Example:
            >>> by_carrier = flights.map("carrier", "delay", airport="key")
        """
        parts = key if isinstance(key, tuple) else (key,)
        require_expressions("map", *parts)
        if not keep and not columns:
            message = "map: name at least one column after the key, or '*' for all"
            raise InvalidTopology(message)
        return self._with_step(checked_key("map", parts, keep, columns))

    def map_values(self, *keep: str, **columns: "str | Column") -> Self:
        """Replace the value of each record.

        A record with a null value keeps the null value, whatever you compute.

        Args:
            *keep: Columns of the old value to keep, or ``"*"`` for all. To keep ``key`` or
                ``timestamp_ms``, give it another name, for example ``airport="key"``.
            **columns: New columns and their expressions. They can read the columns of the old
                value, ``key`` and ``timestamp_ms``.

        Returns:
            The stream with the new values.

        Raises:
            InvalidTopology: The new value has no column, or an expression is neither a string nor
                a ``Column``.

        Example:
            >>> hours = flights.map_values("carrier", hours="delay / 60", airport="key")
        """
        return self._with_step(checked_map_values(keep, columns))

    def flat_map_values(self, *keep: str, **columns: "str | Column") -> Self:
        """Replace each record by one record per element of an array.

        The flattened records follow the order of the array and have the key and the time of the
        record. A record whose array is empty or null, or whose value is null, is filtered out. If
        the elements are structs, read their fields with ``map_values(price="item.price")``.

        Args:
            *keep: Columns of the old value to keep in each flattened record, or ``"*"`` for all.
            **columns: New columns and their expressions. Exactly one must be an array, and that
                column contains one element in each flattened record. This is checked when the
                topology is run.

        Returns:
            The stream of flattened records.

        Raises:
            InvalidTopology: No column is computed, or an expression is neither a string nor a
                ``Column``.

        Example:
            >>> lines = builder.stream("lines", schema="user STRING, line STRING")
            >>> words = lines.flat_map_values("user", word="split(line, ' ')")
        """
        step = checked_flat_map("flat_map_values", keep, columns)
        return self._with_step(step)

    def flat_map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> Self:
        """Replace each record by one record per element of an array, with a new key.

        Args:
            key: The expression of the new key, or a tuple of several. It can read the element and
                all columns of the old value.
            *keep: Columns of the old value to keep in each flattened record, or ``"*"`` for all.
            **columns: New columns and their expressions. Exactly one must be an array.

        Returns:
            The stream of flattened records.

        Raises:
            InvalidTopology: No key is named, no column is computed, or an expression is neither a
                string nor a ``Column``.

        Example:
            >>> lines = builder.stream("lines", schema="user STRING, line STRING")
            >>> words = lines.flat_map("word", "user", word="split(line, ' ')")
        """
        parts = key if isinstance(key, tuple) else (key,)
        flattened = checked_flat_map("flat_map", ("*",), columns)
        keyed = checked_key("flat_map", parts, (*keep, *columns), {})
        return self._with_step(flattened, keyed)

    def peek(self, function: Peeker) -> Self:
        """Call a function with each record, and pass on the record unchanged.

        The function runs in the Python workers of Spark, also in a test. It can write
        files and send requests, but it cannot change objects of this process. It is called once for
        each store that reads the stream. It is called again if a batch is computed again, for
        example after a crash. If it raises, the run stops, and the error names it.
        With ``peek``, Spark runs all steps of this input.

        Args:
            function: A function ``(key, value, timestamp_ms)``. ``value`` is a dict of the columns,
                or None if the record has a null value.

        Returns:
            The same stream.

        Raises:
            InvalidTopology: ``function`` does not accept three arguments.

        Example:
            >>> shown = flights.peek(lambda key, value, timestamp_ms: print(key, value))
        """
        if not callable(function):
            message = (
                "peek: the argument must be a function (key, value, timestamp_ms), not "
                f"{function!r}"
            )
            raise InvalidTopology(message)
        require_parameters("peek: the function", function, ("key", "value", "timestamp_ms"))
        return self._with_step(Peek(function))

    def _with_step(self, *steps: Step) -> Self:
        return replace(self, origins=tuple(stepped(origin, *steps) for origin in self.origins))
