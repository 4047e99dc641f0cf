"""The files of tasks on a cluster: directories that all machines share, and synced names."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oriel import StreamsBuilder, count
from oriel.pipeline.errors import DirectoryNotShared
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.tasks import DirectoryFiles, files
from oriel.pipeline.windows import NEVER_CLOSED_MS, Times
from tests.pipeline.tasks.task_runs import files_of, plan_of

VALUES = pa.schema([("v", pa.float64())])
DEAD_LETTER_ROWS = pa.table({"store": ["s"]})
TIMES = Times.closing(NEVER_CLOSED_MS, NEVER_CLOSED_MS)


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    """Return the first batch of a store without windows."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "v DOUBLE").group_by_key()
    stream.aggregate(n=count()).materialize("s")
    return plan_of(tmp_path, builder.build(), 1, VALUES)


@pytest.fixture
def on_cluster(plan: BatchPlan) -> DirectoryFiles:
    """Return its files as tasks on other machines receive them."""
    return replace(files_of(plan), on_cluster=True)


def test_a_machine_without_the_directories_is_an_error(
    plan: BatchPlan, on_cluster: DirectoryFiles
) -> None:
    """A missing mount on one machine must not look like a lost state file."""
    records = plan.assembly.engine.record_schema.empty_table()
    on_cluster.state.rmdir()
    with pytest.raises(
        DirectoryNotShared, match=f"has no directory {on_cluster.state}\\. --data must"
    ):
        on_cluster.run_operator(plan, plan.stored, [0], records, TIMES)
    on_cluster.dead_letters.rmdir()
    with pytest.raises(
        DirectoryNotShared, match=f"has no directory {on_cluster.dead_letters}\\. --data"
    ):
        on_cluster.write_dead_letters(plan, [DEAD_LETTER_ROWS])


@pytest.mark.parametrize(("sync", "on_cluster", "synced"), [
    (True, True, ["state", "dead"]), (True, False, []), (False, True, []),
])  # fmt: skip
def test_names_are_on_disk_where_the_driver_can_not_see_to_it(
    plan: BatchPlan,
    monkeypatch: pytest.MonkeyPatch,
    *,
    sync: bool,
    on_cluster: bool,
    synced: list[str],
) -> None:
    """A sync in the driver covers only its own machine, so other tasks sync directories."""
    directories: list[str] = []
    monkeypatch.setattr(
        files, "sync_directory", lambda directory: directories.append(directory.name)
    )
    task_files = replace(files_of(plan), sync=sync, on_cluster=on_cluster)
    records = plan.assembly.engine.record_schema.empty_table()
    task_files.run_operator(plan, plan.stored, [0], records, TIMES)
    task_files.write_dead_letters(plan, [DEAD_LETTER_ROWS])
    assert directories == synced
