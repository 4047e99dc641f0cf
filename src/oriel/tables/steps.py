"""Steps that select the current rows of a table's layers.

Each step reads the files of one layer, without the rows whose windows are also in newer layers.
Only windows whose start is in the ranges of both layers can be in both. A newer layer without such
a start is not read for the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from oriel.storage import StoreDefinition
from oriel.storage.delta import Range
from oriel.storage.table_store import VersionRows, store_columns
from oriel.tables.layers import Layer, layers

#: Columns of the table that the current rows do not have: they are the same in each row, or they
#: only order the rows.
_INTERNAL = frozenset({"deleted", "revision"})


class Earliest(NamedTuple):
    """The retention: the column that it uses, and the least visible value in microseconds."""

    column: str
    time: int


class Windows(NamedTuple):
    """The windows of files, whose rows supersede older rows.

    Attributes:
        paths: The files.
        foreign: True if the columns can have other types than the table.
        starts: Only windows with a start in this range count, in microseconds. None: all.
    """

    paths: tuple[Path, ...]
    foreign: bool
    starts: Range | None


@dataclass(frozen=True)
class Step:
    """A part of the current rows.

    Attributes:
        paths: The files.
        repeats: True to select the row with the highest revision of each window.
        foreign: True if the columns can have other types than the table.
        newer: Windows whose rows are not returned.
    """

    paths: tuple[Path, ...]
    repeats: bool = False
    foreign: bool = False
    newer: tuple[Windows, ...] = ()


@dataclass(frozen=True)
class Selection:
    """All steps that select the current rows of a version.

    Attributes:
        definition: The store.
        schema: The columns of the table.
        steps: The steps. Together, they return each row once.
        earliest: The retention. None: all windows are visible.
    """

    definition: StoreDefinition
    schema: pa.Schema
    steps: tuple[Step, ...]
    earliest: Earliest | None

    @property
    def columns(self) -> list[str]:
        """The names of the returned columns."""
        return [name for name in self.schema.names if name not in _INTERNAL]

    @property
    def window(self) -> list[str]:
        """The columns that identify a row."""
        return [name for name in ("key", "window_start", "window_end") if name in self.schema.names]


def selection(rows: VersionRows) -> Selection:
    """Return the steps that select the current rows of a version.

    Raises:
        CorruptLog: The table has deletion vectors, or a footer of a file cannot be read.
    """
    state = rows.state
    found = layers(rows)
    steps = [_step(layer, found[place + 1 :]) for place, layer in enumerate(found)]
    column = "window_end" if state.definition.window.kind.expires_by_end else "window_start"
    earliest = Earliest(column, state.earliest_ms * 1000) if state.earliest_ms else None
    return Selection(
        state.definition, store_columns(state.definition), tuple(_merged(steps)), earliest
    )


def _step(layer: Layer, newer: Sequence[Layer]) -> Step:
    shared = [(each, _shared(layer.starts, each.starts)) for each in newer]
    windows = tuple(
        Windows(each.paths, each.foreign, both) for each, both in shared if not _is_empty(both)
    )
    return Step(layer.paths, layer.repeats, layer.foreign, windows)


def _shared(one: Range | None, other: Range | None) -> Range | None:
    """Return the common part of two ranges. None: unknown."""
    if one is None or other is None:
        return None
    return Range(max(one.least, other.least), min(one.greatest, other.greatest))


def _is_empty(starts: Range | None) -> bool:
    return starts is not None and bool(starts.least > starts.greatest)


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with one step for all files that are read without a condition."""
    plain = [step for step in steps if step == Step(step.paths)]
    others = [step for step in steps if step != Step(step.paths)]
    if not plain:
        return others
    return [Step(tuple(path for step in plain for path in step.paths)), *others]
