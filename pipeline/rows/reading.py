"""What Spark has read of steps, kept for whoever has the same ones.

Reading the steps of one input takes Spark some 40 ms (hundreds of calls from Python to Java). The
stores of one topology share steps, and a test suite starts the same topologies again and again.
"""

from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache

from pyspark.sql import DataFrame

from oriel.pipeline.arrow_steps import TypedKeys
from oriel.pipeline.language import AggregatedRows, Input, Side, expressions_of
from oriel.pipeline.rows.steps import RowSteps


def row_steps(records: DataFrame, origin: Input | Side | AggregatedRows, store: str) -> RowSteps:
    """``RowSteps`` of these arguments, for the caller alone.

    Raises:
        InvalidTopology: see ``RowSteps``.
    """
    steps = copy(_read(_Unread.of(records, origin, store)))
    # Whoever gets them selects columns in them.
    steps.arrow = copy(steps.arrow)
    return steps


@dataclass(frozen=True)
class _Unread:
    """Steps to be read; ``same_as`` tells those apart that are not the same."""

    same_as: tuple[object, ...]
    records: DataFrame = field(compare=False)
    origin: Input | Side | AggregatedRows = field(compare=False)
    store: str = field(compare=False)

    @classmethod
    def of(cls, records: DataFrame, origin: Input | Side | AggregatedRows, store: str) -> "_Unread":
        """The steps behind ``records``, by their text, what they read and what they group by."""
        typed_keys = None if isinstance(origin, AggregatedRows) else TypedKeys.of(origin)
        expressions = (*expressions_of(origin.steps), *origin.group_by)
        same_as = (
            # A session's own: plans are a Java process's.
            id(records.sparkSession.sparkContext),
            repr(records.schema),
            origin.scope if isinstance(origin, AggregatedRows) else None,
            repr((origin.steps, origin.group_by)),
            typed_keys,
            # The text of a column names a function of Python and does not say what it does. As
            # long as the entry stands, so does what it is of, and nothing else has its id.
            *(id(each) for each in expressions if not isinstance(each, str)),
        )
        return cls(same_as, records, origin, store)


#: A topology has some tens; what takes longest to build is in a suite's few most used ones.
@lru_cache(maxsize=2000)
def _read(steps: _Unread) -> RowSteps:
    return RowSteps(steps.records, steps.origin, steps.store)
