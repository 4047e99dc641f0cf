"""A cache of the steps that Spark has read, for inputs with the same steps.

Spark needs some 40 ms to read the steps of one input, with hundreds of calls from Python to Java.
The stores of one topology share steps, and a test suite starts the same topologies repeatedly.
"""

from copy import copy
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from oriel.pipeline.arrow_steps import TypedKeys
from oriel.pipeline.language import expressions_of
from oriel.pipeline.lowered import AggregatedRows, Input
from oriel.pipeline.rows.steps import RowSteps


def row_steps(records: DataFrame, origin: Input | AggregatedRows, store: str) -> RowSteps:
    """Return ``RowSteps`` for these arguments, from the cache if possible.

    The result is a copy, because each caller selects its own columns.

    Raises:
        InvalidTopology: See ``RowSteps``.
    """
    reading = _CacheKey.of(records, origin)
    steps = _cache.get(reading)
    if steps is None:
        steps = RowSteps(records, origin, store)
        # Steps that Spark runs are not cached. They can call a registered function, and later
        # another function can have its name.
        if steps.arrow is not None:
            if len(_cache) == _CACHE_ENTRIES_MAX:
                _cache.clear()
            _cache[reading] = steps
    steps = copy(steps)
    # The caller selects columns in its own copy.
    steps.arrow = copy(steps.arrow)
    return steps


@dataclass(frozen=True)
class _CacheKey:
    """The cache key of steps. ``same_as`` has all that distinguishes two keys."""

    same_as: tuple[object, ...]
    records: DataFrame = field(compare=False)
    origin: Input | AggregatedRows = field(compare=False)

    @classmethod
    def of(cls, records: DataFrame, origin: Input | AggregatedRows) -> "_CacheKey":
        """Return the cache key of the steps after ``records``.

        It contains the texts of the steps and of the grouping, and the columns that they read.
        """
        expressions = (*expressions_of(origin.steps), *origin.group_by)
        same_as = (
            # One session only, because plans belong to one Java process.
            id(records.sparkSession.sparkContext),
            repr(records.schema),
            (origin.are_rows, origin.scope),
            repr((origin.steps, origin.group_by)),
            TypedKeys.of(origin),
            # The text of a column does not show everything, so the object must be the same. The
            # cache entry keeps the object, so no other object has its id.
            *(id(each) for each in expressions if not isinstance(each, str)),
        )
        return cls(same_as, records, origin)


_cache: dict[_CacheKey, RowSteps] = {}
#: A topology has some dozens of entries.
_CACHE_ENTRIES_MAX = 2000
