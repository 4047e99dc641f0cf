"""The inputs of a store: streams with their row-wise steps, and joins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from oriel.pipeline import hops
from oriel.pipeline.language import AggregatedRows, Input, Source
from oriel.pipeline.plan.batch import ClockPlan, StreamPlan
from oriel.pipeline.plan.join import JoinStage


class Steps(Protocol):
    """Row-wise steps of one input; ``oriel.pipeline.rows`` has those that Spark runs."""

    #: The value columns after the steps.
    values: pa.Schema

    @property
    def arrow(self) -> "Steps | None":
        """The same steps over Arrow tables; None: only Spark can run them."""

    def select(self, output: hops.StepsOutput) -> None:
        """Choose what ``rows`` gives."""

    def rows(self, records: Any) -> Any:
        """Return the rows for the stream task, from decoded records or results of a join."""


#: Makes the steps of an input (or side of a join) that reads a source, or a join's results; or
#: those of the rows of an aggregation.
StepsOf = Callable[[Input | AggregatedRows, Source | pa.Schema], Steps]


@dataclass(frozen=True)
class InputPlan:
    """One input of a store or of a join: an upstream join, if any, row-wise steps, and a stream.

    ``takes_null_values``: the join uses records with a null value, for example tombstones.
    """

    source: Source
    steps: Steps
    stream: StreamPlan
    join: "JoinInput | None"
    takes_null_values: bool = False

    @property
    def clocks(self) -> tuple[ClockPlan, ...]:
        """The clocks that its records follow: one, but those of both sides behind a pairing join.

        What a stream looked up follows the stream's.
        """
        if self.join is None:
            return (self.stream.clock,)
        if self.join.own_clock is not None:
            return (self.join.own_clock,)
        sides = self.join.sides[:1] if self.join.stage.operator.keeps_records else self.join.sides
        return tuple(clock for side in sides for clock in side.clocks)

    @property
    def is_stream(self) -> bool:
        """Whether it is one stream, whose records come in their order."""
        return self.join is None or self.join.gives_stream

    @property
    def sides(self) -> "list[InputPlan]":
        """The sides of all its joins."""
        joins = self.join.joins if self.join else []
        return [side for join in joins for side in join.sides]


@dataclass(frozen=True)
class JoinInput:
    """A join in front of an input or of another join's side; see ``JoinPlan``.

    The changes of one table have one side, all others two, the left one first. ``of_elements``:
    for each side whether its records are elements of records. ``counts``: see ``StreamPlan``.
    """

    number: int
    stage: JoinStage
    sides: tuple[InputPlan, ...]
    of_elements: tuple[bool, ...]
    #: That of its results' stream, where it is not that of the first side.
    own_clock: ClockPlan | None = None
    counts: bool = True

    @property
    def clock(self) -> ClockPlan:
        """The clock by which results are late that are records."""
        return self.own_clock or self.sides[0].stream.clock

    @property
    def of_records(self) -> tuple[bool, ...]:
        """For each side whether it has a stream's records, that may have looked up tables."""
        return tuple(side.join is None or side.join.gives_records for side in self.sides)

    @property
    def gives_records(self) -> bool:
        """Whether results are a stream's records that looked up a table, maybe several."""
        return self.stage.operator.keeps_records and self.of_records[0]

    @property
    def gives_stream(self) -> bool:
        """Whether results are one stream, whose clock goes on behind the join."""
        return self.stage.operator.keeps_order and self.sides[0].is_stream

    @property
    def joins(self) -> "list[JoinInput]":
        """This join behind all that are in front of it."""
        fronts = (side.join for side in self.sides if side.join is not None)
        return [*(join for front in fronts for join in front.joins), self]
