"""A store's two Delta tables as the pipeline writes them: its windows and its dead letters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from oriel.pipeline.dead_letters import DEAD_LETTER_SCHEMA
from oriel.pipeline.language import Functions, Store, TableRows
from oriel.pipeline.plan import aggregate_calls
from oriel.pipeline.windows import TimeWindows
from oriel.storage import (
    STORE_PROPERTY,
    AggregateSpec,
    DataLayout,
    ForeignCheckpoint,
    IncompatibleStore,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import AddedFile, Table, delta_type, open_table, store_schema

#: What may not change as long as a table lives, and what messages call it.
_FIXED = {
    "topic": "topic",
    "grouped_by": "grouping",
    "window": "window",
    "aggregates": "aggregation",
    "emit": "emission",
}


class StoreTables:
    """The tables of one store, opened for one application."""

    def __init__(
        self,
        layout: DataLayout,
        definition: StoreDefinition,
        aggregates: Mapping[str, pa.DataType],
        *,
        sync: bool,
    ) -> None:
        """Open the tables, making them where they aren't there.

        Raises:
            IncompatibleStore: the table was made by another definition.
            ForeignCheckpoint: the table belongs to another application.
        """
        self.table_folder = layout.table(definition.name)
        self.dead_letters_folder = layout.dead_letters
        properties = {STORE_PROPERTY: definition.to_json()}
        schema = store_schema(aggregates, windowed=definition.window.is_windowed)
        self._table = open_table(self.table_folder, schema, properties, sync=sync)
        self.definition = _settled(self._table, definition)
        self._dead_letters = open_table(self.dead_letters_folder, DEAD_LETTER_SCHEMA, {}, sync=sync)
        self._dead_letter_id = f"{definition.application}/{definition.name}"

    def recorded_batch(self) -> int:
        """The last batch in the store's table, -1 before the first."""
        recorded = self._table.recorded_batch(self.definition.application)
        return -1 if recorded is None else recorded

    def commit(self, files: Sequence[AddedFile], batch: int, info: Mapping[str, Any]) -> int:
        """Commit the batch to the store's table; return the new version."""
        return self._table.commit(files, self.definition.application, batch, info)

    def commit_dead_letters(self, files: Sequence[AddedFile], batch: int) -> None:
        """Commit the batch's dead letters, unless there are none or they are there already."""
        if not files:
            return
        if self.dead_letters_batch() < batch:
            self._dead_letters.commit(files, self._dead_letter_id, batch, {})

    def dead_letters_batch(self) -> int:
        """The last batch of this store with dead letters in their table, -1 before the first."""
        recorded = self._dead_letters.recorded_batch(self._dead_letter_id)
        return -1 if recorded is None else recorded


def define(
    store: Store, aggregates: Mapping[str, pa.DataType], application: str, key_groups: int
) -> StoreDefinition:
    """Return what the table will say about ``store``."""
    calls = aggregate_calls(store)
    windows = store.windows
    advance_ms = windows.advance_ms if isinstance(windows, TimeWindows) else None
    return StoreDefinition(
        name=store.name,
        topic=", ".join(store.topics),
        grouped_by=store.grouped_by,
        window=WindowSpec(
            StoreKind(windows.kind),
            windows.length_ms,
            windows.grace_ms,
            advance_ms if windows.kind == "hopping" else None,
        ),
        aggregates=tuple(
            AggregateSpec(name, calls.get(name, _made_by(store)), delta_type(column_type))
            for name, column_type in aggregates.items()
        ),
        key_groups=key_groups,
        retention_ms=store.retention_ms,
        application=application,
        emit=store.emit.name,
    )


def _made_by(store: Store) -> str:
    """How columns that no declarative aggregate makes come about, for people."""
    if isinstance(store.aggregation, Functions):
        return store.aggregation.step
    if isinstance(store.aggregation, TableRows) and len(store.inputs) > 1:
        return f"{store.aggregation.how} join of tables"
    return "the table's own column"


def _settled(table: Table, defined: StoreDefinition) -> StoreDefinition:
    """Return the definition to run with: the table's key groups, the topology's retention.

    Key groups are fixed when the table is made: another number of them would look for a key's
    state with another task.
    """
    text = table.properties.get(STORE_PROPERTY)
    if text is None:
        message = f"store {defined.name!r}: the Delta table there is not one of this system"
        raise IncompatibleStore(message)
    recorded = StoreDefinition.from_json(text)
    if recorded.application != defined.application:
        message = (
            f"store {defined.name!r}: the table was written by application "
            f"{recorded.application}, this checkpoint is of {defined.application}. A new "
            "checkpoint over an old table would repeat records: restore the checkpoint, or start "
            "anew with an empty data folder"
        )
        raise ForeignCheckpoint(message)
    settled = replace(defined, key_groups=recorded.key_groups)
    for name, title in _FIXED.items():
        before, now = getattr(recorded, name), getattr(settled, name)
        if before != now:
            message = (
                f"store {defined.name!r}: its {title} was {_written(before)}, the topology says "
                f"{_written(now)}. Use another store name, or start anew with an empty data folder"
            )
            raise IncompatibleStore(message)
    if settled != recorded:
        table.set_property(STORE_PROPERTY, settled.to_json())
    return settled


def _written(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
