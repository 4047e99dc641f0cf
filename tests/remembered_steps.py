"""Row-wise steps that Spark has read in this process, for the next run of the same topology.

Reading them takes Spark 40 ms each (hundreds of calls from Python to Java), of a topology of twenty
stores 2.5 s at each start: most of what a run over a small log costs. Tests start the same topology
again and again. Only the session that tests share does this; the first start is as ever, and so is
each of ``oriel run`` as a process of its own.
"""

from copy import copy

from pyspark.sql import DataFrame

from oriel.pipeline.arrow_steps import TypedKeys
from oriel.pipeline.language import AggregatedRows, Input, Side
from oriel.pipeline.rows import RowSteps

#: By the session, their text and what they read.
_already_read: dict[tuple[str, str, str], RowSteps] = {}


def remember_steps() -> None:
    """Let runs in this process take steps that one before has read."""
    from oriel.pipeline.run import query  # noqa: PLC0415 - needs what few tests need

    vars(query).update(RowSteps=_remembered)


def _remembered(records: DataFrame, origin: Input | Side | AggregatedRows, store: str) -> RowSteps:
    """The steps, read by Spark if they have never been, or if their text does not say it all."""
    if isinstance(origin, AggregatedRows):
        what = repr(origin)
    else:
        what = repr((str(origin.source), origin.steps, origin.group_by, TypedKeys.of(origin)))
    # Functions, and columns that are made of any.
    if " at 0x" in what or "Column<" in what:
        return RowSteps(records, origin, store)
    place = records.sparkSession.sparkContext.applicationId, what, repr(records.schema)
    if place not in _already_read:
        _already_read[place] = RowSteps(records, origin, store)
    # Whoever gets them selects columns in them.
    steps = copy(_already_read[place])
    steps.arrow = copy(steps.arrow)
    return steps
