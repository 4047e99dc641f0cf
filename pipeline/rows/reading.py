"""What Spark has read of steps, kept for whoever has the same ones.

Reading the steps of one input takes Spark some 40 ms (hundreds of calls from Python to Java). The
stores of one topology share steps, and a test suite starts the same topologies again and again.
"""

from copy import copy
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from oriel.pipeline.arrow_steps import TypedKeys
from oriel.pipeline.language import AggregatedRows, Input, expressions_of
from oriel.pipeline.rows.steps import RowSteps


def row_steps(records: DataFrame, origin: Input | AggregatedRows, store: str) -> RowSteps:
    """``RowSteps`` of these arguments, for the caller alone.

    Raises:
        InvalidTopology: see ``RowSteps``.
    """
    reading = _Reading.of(records, origin)
    steps = _already_read.get(reading)
    if steps is None:
        steps = RowSteps(records, origin, store)
        # What Arrow does not run may call a function by a name that is another's the next time.
        if steps.arrow is not None:
            if len(_already_read) == _MOST_KEPT:
                _already_read.clear()
            _already_read[reading] = steps
    steps = copy(steps)
    # Whoever gets them selects columns in them.
    steps.arrow = copy(steps.arrow)
    return steps


@dataclass(frozen=True)
class _Reading:
    """What steps are read of; ``same_as`` tells those apart that are not the same."""

    same_as: tuple[object, ...]
    records: DataFrame = field(compare=False)
    origin: Input | AggregatedRows = field(compare=False)

    @classmethod
    def of(cls, records: DataFrame, origin: Input | AggregatedRows) -> "_Reading":
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
            # The text of a column doesn't say everything. As long as the entry stands, so does what
            # it is of, and nothing else has its id.
            *(id(each) for each in expressions if not isinstance(each, str)),
        )
        return cls(same_as, records, origin)


_already_read: dict[_Reading, RowSteps] = {}
#: A topology has some tens.
_MOST_KEPT = 2000
