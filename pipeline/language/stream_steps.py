"""Row-wise steps of a stream."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions, require_parameters
from oriel.pipeline.language.joins import stepped
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.step_checks import (
    checked_flat_map,
    checked_key,
    checked_map_values,
)
from oriel.pipeline.language.topology import Filter, Node, Peek, Peeker, Step

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class StreamSteps(CallHints):
    """The row-wise steps of ``KStream``."""

    registry: Registry
    #: One input, or the inputs of merged streams.
    origins: tuple[Node, ...]

    def filter(self, condition: "str | Column") -> Self:
        """Keep the records for which a condition is true.

        It corresponds to ``KStream.filter`` of Kafka Streams. A record is dropped if the condition
        is false or null. Dropped records do not advance stream time (semantics.md#1-1).

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
        """Keep the records for which a condition is false or null.

        It corresponds to ``KStream.filterNot`` of Kafka Streams. Dropped records do not advance
        stream time (semantics.md#1-1).

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

        It corresponds to ``KStream.selectKey`` of Kafka Streams, without a repartition topic. All
        later steps read the new key. If the new key is null, the record becomes a dead letter when
        a later step needs a key.

        Args:
            *columns: Columns of the value or expressions. Their values are cast to string and
                combined into one key, as by ``group_by``.

        Returns:
            The stream with the new keys.

        Raises:
            InvalidTopology: No column is passed, or one is neither a string nor a ``Column``.

        Example:
            >>> by_carrier = flights.select_key("carrier")
        """
        return self._with_step(checked_key("select_key", columns, ("*",), {}))

    def map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> Self:
        """Replace the key and the value of each record.

        It corresponds to ``KStream.map`` of Kafka Streams. All expressions read the old key and the
        old value.

        Args:
            key: The expression of the new key, or a tuple of expressions that are combined into one
                key, as by ``group_by``.
            *keep: Columns of the old value to keep, or ``"*"`` for all.
            **columns: New columns and their expressions, for example ``hours="delay / 60"``.

        Returns:
            The stream with the new keys and values.

        Raises:
            InvalidTopology: The new value has no column, ``key`` is an empty tuple, ``keep`` has
                ``key`` or ``timestamp_ms``, or an expression is neither a string nor a ``Column``.

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

        It corresponds to ``KStream.mapValues`` of Kafka Streams. A null value stays null, whatever
        you compute.

        Args:
            *keep: Columns of the old value to keep, or ``"*"`` for all. To keep ``key`` or
                ``timestamp_ms``, use another name in ``columns``, for example ``airport="key"``.
            **columns: New columns and their expressions. They can read the columns of the old
                value, ``key`` and ``timestamp_ms``.

        Returns:
            The stream with the new values.

        Raises:
            InvalidTopology: The new value has no column, ``keep`` has ``key`` or ``timestamp_ms``,
                or an expression is neither a string nor a ``Column``.

        Example:
            >>> hours = flights.map_values("carrier", hours="delay / 60", airport="key")
        """
        return self._with_step(checked_map_values(keep, columns))

    def flat_map_values(self, *keep: str, **columns: "str | Column") -> Self:
        """Replace each record with one record per element of an array.

        It corresponds to ``KStream.flatMapValues`` of Kafka Streams. The flattened records are in
        the order of the array, and have the key and the time of the record. A record is dropped if
        its array is empty or null, or if its value is null. If the elements are structs, read their
        fields with a later step, for example ``map_values(price="item.price")``.

        Args:
            *keep: Columns of the old value to keep in each flattened record, or ``"*"`` for all.
            **columns: New columns and their expressions. Exactly one must be an array. In each
                flattened record, this column contains one element. The types are checked when the
                pipeline starts.

        Returns:
            The stream of flattened records.

        Raises:
            InvalidTopology: No column is computed, ``keep`` has ``key`` or ``timestamp_ms``, or an
                expression is neither a string nor a ``Column``.

        Example:
            >>> lines = builder.stream("lines", schema="user STRING, line STRING")
            >>> words = lines.flat_map_values("user", word="split(line, ' ')")
        """
        step = checked_flat_map("flat_map_values", keep, columns)
        return self._with_step(step)

    def flat_map(
        self, key: "str | Column | tuple[str | Column, ...]", *keep: str, **columns: "str | Column"
    ) -> Self:
        """Replace each record with one record per element of an array, with a new key.

        It corresponds to ``KStream.flatMap`` of Kafka Streams. See ``flat_map_values`` for the
        rules of the array.

        Args:
            key: The expression of the new key, or a tuple of expressions. It can read the element
                and all columns of the old value.
            *keep: Columns of the old value to keep in each flattened record, or ``"*"`` for all.
            **columns: New columns and their expressions. Exactly one must be an array.

        Returns:
            The stream of flattened records with their new keys.

        Raises:
            InvalidTopology: ``key`` is an empty tuple, no column is computed, ``keep`` has ``key``
                or ``timestamp_ms``, or an expression is neither a string nor a ``Column``.

        Example:
            >>> lines = builder.stream("lines", schema="user STRING, line STRING")
            >>> words = lines.flat_map("word", "user", word="split(line, ' ')")
        """
        parts = key if isinstance(key, tuple) else (key,)
        flattened = checked_flat_map("flat_map", ("*",), columns)
        keyed = checked_key("flat_map", parts, (*keep, *columns), {})
        return self._with_step(flattened, keyed)

    def peek(self, function: Peeker) -> Self:
        """Call a function with each record, and forward the record unchanged.

        It corresponds to ``KStream.peek`` of Kafka Streams. The function runs in the Python workers
        of Spark, also in a test. It can write files and send requests, but it cannot change objects
        of this process. If it raises, the run stops with an error that names the function.

        The function is called once for each store that reads the stream. If a batch is computed
        again, for example after a crash, the function is called again (guarantees.md#3-2). With
        ``peek``, Spark runs all row-wise steps of the input, and Arrow runs none.

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
        return replace(
            self, origins=tuple(stepped(stream_input, *steps) for stream_input in self.origins)
        )
