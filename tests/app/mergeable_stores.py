"""A served store whose rows keep partial aggregates, written by the engine batch by batch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from oriel import TimeWindows
from oriel.app.server import Service
from oriel.pipeline import windows as w
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    AggregateSpec,
    DataLayout,
    PartialsSpec,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import (
    Table,
    arrow_type,
    delta_type,
    open_table,
    run_name,
    store_schema,
    table_rows,
    write_file,
)
from tests.app.api_client import ApiClient, index_store
from tests.models.tables import Arrived, Logs, Outcome, Window, in_order
from tests.models.time_windows import Hopping, expected_windows
from tests.storage.store_tables import make_definition, make_record
from tests.windows.engine_runs import AGGREGATES, Row, Setup, random_cuts, run_engine, valued_logs

SIZE_MS, GRACE_MS = 2, 10
#: Aggregates that keep all records cannot be merged.
NOT_KEPT = ("all", "words")
MERGEABLE = {name: each for name, each in AGGREGATES.items() if name not in NOT_KEPT}


class MergeableStore:
    """The table, the index and the service of a store, and the windows of a slow model."""

    def __init__(self, data: Path, setup: Setup, logs: Logs, **changes: Any) -> None:
        """Create the table."""
        self.setup, self.logs, self.data = setup, logs, data
        engine = setup.engine()
        assert isinstance(setup.aggregates, Mapping)
        self.definition = replace(
            make_definition(**changes),
            window=WindowSpec(StoreKind.TUMBLING, SIZE_MS, GRACE_MS),
            aggregates=tuple(
                AggregateSpec(name, setup.aggregates[name].call, delta_type(of_type))
                for name, of_type in engine.aggregate_types.items()
            ),
            partials=partials_of(engine),
        )
        self.types = {
            **engine.aggregate_types,
            **({w.PARTIALS.name: w.PARTIALS.type} if engine.kept else {}),
        }
        self.layout = DataLayout(data)
        self.table = opened(self.layout, self.definition, self.types)
        self.service = Service(data)
        self.client = ApiClient(self.service)
        index_store(self.layout, self.definition.name)

    @property
    def outcome(self) -> Outcome:
        """The windows of the model."""
        return expected_windows(self.logs, Hopping(SIZE_MS, SIZE_MS, GRACE_MS))

    def commit(self, batch: int, rows: Sequence[Row], close_ms: int) -> None:
        """Commit the changed rows of a batch, and index them as the tailer does."""
        directory = self.layout.table(self.definition.name)
        files = []
        if rows:
            schema = {"key": pa.string(), "window_start_ms": pa.int64(),
                      "window_end_ms": pa.int64(), **self.types, "timestamp_ms": pa.int64(),
                      "final": pa.bool_(), "deleted": pa.bool_()}  # fmt: skip
            changes = pa.Table.from_pylist(rows, pa.schema(list(schema.items())))
            content = table_rows(changes, self.types, batch)
            run = run_name(batch, batch)
            files.append(write_file(directory, content, f"part-{batch}", sync=False, run=run))
        info = {COMMIT_INFO_KEY: make_record(batch, close_ms=close_ms).to_json()}
        self.table.commit(files, self.definition.application, batch, info)
        self.service.catalog.close()
        index_store(self.layout, self.definition.name)

    def ranges(self, step_ms: int) -> dict[tuple[str, int], Window]:
        """Return the windows of ``step_ms`` with the accepted records of the store's windows."""
        members: dict[tuple[str, int], list[Arrived]] = {}
        final: dict[tuple[str, int], bool] = {}
        for (key, start, _), window in self.outcome.windows.items():
            place = key, start // step_ms * step_ms
            members.setdefault(place, []).extend(window.members)
            final[place] = final.get(place, True) and window.final
        return {place: Window(in_order(of), final[place]) for place, of in members.items()}


def partials_of(engine: w.WindowEngine) -> tuple[PartialsSpec, ...]:
    """Return the kept aggregates of an engine as a definition has them."""
    return tuple(
        PartialsSpec(
            each.name,
            each.aggregate,
            each.column,
            None if each.type is None else delta_type(each.type),
            each.arguments,
            each.has_lineage,
        )
        for each in engine.kept
    )


def opened(
    layout: DataLayout, definition: StoreDefinition, types: Mapping[str, pa.DataType]
) -> Table:
    """Open the table of a store. Create a missing one."""
    assert {a.name: arrow_type(a.type) for a in definition.aggregates}.items() <= types.items()
    properties = {STORE_PROPERTY: definition.to_json()}
    return open_table(layout.table(definition.name), store_schema(types), properties, sync=False)


@contextmanager
def mergeable_store(data: Path, seed: int, **changes: Any) -> Iterator[MergeableStore]:
    """Yield a store of a random log, in random batches with late records.

    Args:
        data: The data directory.
        seed: The seed of the log and of its batches.
        **changes: Arguments of ``make_definition``.
    """
    logs = valued_logs(seed)
    setup = Setup(TimeWindows.of_size_and_grace(SIZE_MS, GRACE_MS), mergeable=True)
    store = MergeableStore(data, setup, logs, **changes)
    cuts = random_cuts(logs, Random(seed))
    run = run_engine(setup, logs, cuts, restart=True)
    close_ms = min(max((time for _, time, _ in log), default=-1) for log in logs.values())
    for batch, rows in enumerate(run.batches):
        store.commit(batch, rows, close_ms - GRACE_MS if rows is run.batches[-1] else -1)
    yield store
    store.service.catalog.close()
