"""Files that few data directories have: of sinks, of commands, and of a backup."""

import shutil
from pathlib import Path

from oriel.pipeline.commit import (
    Checkpoint,
    SinkDefinition,
    SinkTopic,
    StateVersions,
    StreamTimeOverride,
    check_log,
)
from oriel.pipeline.operations import compact
from oriel.pipeline.operations.backups import backup
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import DataLayout
from oriel.storage.dead_letters import note_line
from oriel.storage.tailer import StatusFile, StoreStatus, stores_with_tables
from tests.pipeline.commit.writers import Writer, write_log

#: A store of the first golden topology with a compacted table, and one whose stream time was set.
_COMPACTED, _SET = "hopping", "sessions"
#: A store whose state a sink reuses.
_TAKEN = "totals"
#: The number of batches in the data directory of the backup.
_BATCHES = 4


def add_rare_files(data: Path, scratch: Path, topology: str) -> None:
    """Add to the data directory of a topology the files that its pipeline does not write."""
    layout = DataLayout(data)
    assert compact.main([_COMPACTED, "--all", "--data", str(data)]) == 0
    _set_clock(layout.checkpoint(topology) / "state" / _SET)
    _add_sink(layout, layout.checkpoint(topology) / "state" / _TAKEN)
    place = ("orders", 0, 5)
    notes = [note_line(place, 700_000, None), note_line(place, 700_000, 900)]
    layout.replayed.parent.mkdir()
    layout.replayed.write_bytes(b"".join(notes))
    stores = stores_with_tables(layout)
    StatusFile(layout).write({store: StoreStatus("following", 1) for store in stores})
    # A small one, because the test searches all of its files for each damage.
    shutil.rmtree(data / "backup", ignore_errors=True)
    write_log(scratch, _BATCHES)
    writer = Writer(scratch, sync=False)
    writer.run()
    writer.close()
    assert backup.main(["--data", str(writer.data), "--to", str(data / "backup")]) == 0


def _newest(state: Path) -> PreparedBatch:
    prepared = StateVersions(state, sync=False).last_prepared()
    assert prepared is not None
    return prepared


def _set_clock(state: Path) -> None:
    record = _newest(state).record
    override = StreamTimeOverride(
        record.stream_time_ms, record.close_ms, record.observed_ms, ["set back"]
    )
    override.write(state, record.batch)


def _add_sink(layout: DataLayout, state: Path) -> None:
    prepared = _newest(state)
    defined = SinkDefinition("sold", ("orders",), ("filter",), "none", 4)
    with Checkpoint(layout.checkpoint("sink"), sync=False) as checkpoint:
        check_log(checkpoint.directory, {"event log": "17 of device 3"}, sync=False)
        topic = SinkTopic(layout, checkpoint, defined, lambda *_: None, sync=False)
        versions = checkpoint.versions(defined.name)
        for name in prepared.state_files:
            shutil.copy(state / name, versions.directory / name)
        versions.prepare(prepared.record.batch, prepared, [])
        topic.commit(prepared, prepared.record.batch)
