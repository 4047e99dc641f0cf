"""The planned inputs of a store: streams with their row-wise steps, and joins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from oriel.pipeline import stage_columns
from oriel.pipeline.language import Source
from oriel.pipeline.lowered import AggregatedRows, Input
from oriel.pipeline.plan.batch import StreamPlan, StreamTimePlan
from oriel.pipeline.plan.join import JoinStage


class Steps(Protocol):
    """Row-wise steps of one input. ``oriel.pipeline.rows`` implements them."""

    #: The value columns after the steps.
    values: pa.Schema

    @property
    def arrow(self) -> "Steps | None":
        """The same steps over Arrow tables, or None if only Spark can run them."""

    def select(self, output: stage_columns.StepsOutput) -> None:
        """Select the columns and the records that ``rows`` returns."""

    def rows(self, records: Any) -> Any:
        """Return the rows for the stream task, from decoded records or results of a join."""


#: Returns the steps of an input, or of the rows of an aggregation. The second argument is the
#: source that the input reads, or the columns of join results or rows.
StepsOf = Callable[[Input | AggregatedRows, Source | pa.Schema], Steps]


@dataclass(frozen=True)
class InputPlan:
    """One input of a store or of a join.

    Attributes:
        source: The source. For results of a join, the source of its left input.
        steps: The row-wise steps.
        stream: How the rows reach the next operator.
        join: The upstream join. None: the input reads the source.
        takes_null_values: True if the downstream join uses records with a null value, for example
            tombstones.
    """

    source: Source
    steps: Steps
    stream: StreamPlan
    join: "JoinInput | None"
    takes_null_values: bool = False

    @property
    def stream_time_plans(self) -> tuple[StreamTimePlan, ...]:
        """The stream times of its records.

        Records of a source, and results with a stream time of their own, have one. Other join
        results have the stream times of all inputs of the join. Records that are joined with a
        table have only the stream times of the left input.
        """
        if self.join is None:
            return (self.stream.stream_time,)
        if self.join.own_stream_time is not None:
            return (self.join.own_stream_time,)
        # The table does not delay a record that is joined with it, because the record finds the row
        # that exists at that moment (semantics.md#5).
        sides = self.join.sides[:1] if self.join.stage.operator.keeps_records else self.join.sides
        return tuple(each for side in sides for each in side.stream_time_plans)

    @property
    def is_stream(self) -> bool:
        """Whether it is one stream, whose records keep their order."""
        return self.join is None or self.join.returns_stream

    @property
    def sides(self) -> "list[InputPlan]":
        """The inputs of all its upstream joins."""
        joins = self.join.joins if self.join else []
        return [side for join in joins for side in join.sides]


@dataclass(frozen=True)
class JoinInput:
    """A join, or another operator before a store, whose results an input reads.

    Attributes:
        number: The index of the operator in its store (see ``JoinPlan``).
        stage: The operator with its steps.
        sides: The inputs, first the left one.
        of_elements: For each input, True if it has flattened records.
        own_stream_time: The stream time of the results, if it is not the stream time of the left
            input.
        counts: False if another operator of the store counts its records.
    """

    number: int
    stage: JoinStage
    sides: tuple[InputPlan, ...]
    of_elements: tuple[bool, ...]
    own_stream_time: StreamTimePlan | None = None
    counts: bool = True

    @property
    def stream_time(self) -> StreamTimePlan:
        """The stream time that decides which results are late, if the results are records."""
        return self.own_stream_time or self.sides[0].stream.stream_time

    @property
    def of_records(self) -> tuple[bool, ...]:
        """For each input, True if it has records of a stream, also after joins with tables."""
        return tuple(side.join is None or side.join.gives_records for side in self.sides)

    @property
    def gives_records(self) -> bool:
        """Whether the results are records of a stream that is joined with one or more tables."""
        return self.stage.operator.keeps_records and self.of_records[0]

    @property
    def returns_stream(self) -> bool:
        """Whether the results are one stream, whose stream time continues after the join."""
        # If an input mixes partitions, the results have no order in which a stream time could
        # continue.
        return self.stage.operator.keeps_order and self.sides[0].is_stream

    @property
    def joins(self) -> "list[JoinInput]":
        """All upstream joins of this join, then the join itself."""
        upstream_joins = (side.join for side in self.sides if side.join is not None)
        return [*(join for upstream in upstream_joins for join in upstream.joins), self]
