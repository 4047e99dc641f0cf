"""A checkpoint stores the definition of an output topic, and its last published batch."""

from dataclasses import replace
from pathlib import Path

import pytest

from oriel import StreamsBuilder
from oriel.pipeline.commit import Checkpoint, SinkDefinition, SinkTopic, mark_published
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import CommitRecord, DataLayout, IncompatibleStore

Published = list[tuple[Path, int]]


def defined(condition: str = "v > 1", key_groups: int = 8) -> SinkDefinition:
    """Return the definition of a topic of a filtered stream."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").filter(condition).to("out")
    return SinkDefinition.of(lower(builder.build()).sinks[0], key_groups)


def prepared(batch: int, changed: int = 1) -> PreparedBatch:
    """Return a batch of `changed` records."""
    record = CommitRecord(batch, {"t": {"0": batch + 1}}, {}, -1)
    return PreparedBatch(record, {0: [f"{batch:012d}-0000.arrow"]}, {}, [], [], changed, 0)


class Opened:
    """A checkpoint with one topic, opened several times."""

    def __init__(self, directory: Path) -> None:
        self.layout = DataLayout(directory)
        self.published: Published = []

    @property
    def directory(self) -> Path:
        """Return the directory of the checkpoint."""
        return self.layout.checkpoint("app")

    def topic(self, definition: SinkDefinition | None = None) -> SinkTopic:
        """Open the topic, and remember the batches that it publishes."""

        def publish(directory: Path, batch: PreparedBatch) -> None:
            self.published.append((directory, batch.record.batch))

        with Checkpoint(self.directory, sync=False) as checkpoint:
            return SinkTopic(
                self.layout, checkpoint, definition or defined(), publish, sync=False
            )  # fmt: skip

    def prepare(self, batch: int) -> None:
        """Save a batch as prepared."""
        with Checkpoint(self.directory, sync=False) as checkpoint:
            checkpoint.versions("to(out)").prepare(batch, prepared(batch), [])


@pytest.fixture(name="opened")
def _opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def test_a_batch_is_published_and_noted(opened: Opened) -> None:
    """One note is kept, also after a batch without records, which is not published."""
    topic = opened.topic()
    assert (topic.recorded_batch(), topic.newest_record()) == (-1, None)
    for batch, changed in ((0, 3), (1, 0), (2, 1)):
        topic.commit(prepared(batch, changed), batch)
        assert topic.recorded_batch() == batch
    assert opened.published == [(topic.table_directory, 0), (topic.table_directory, 2)]
    names = sorted(path.name for path in topic.table_directory.iterdir())
    assert names == ["published-000000000002.json", "sink.json"]
    again = opened.topic()
    assert (again.recorded_batch(), again.newest_record()) == (2, prepared(2).record)


def test_a_batch_that_is_decided_is_to_be_published(opened: Opened) -> None:
    """A prepared batch counts as published when its note exists, or when a later batch exists."""
    opened.topic()
    opened.prepare(0)
    assert opened.topic().recorded_batch() == -1
    opened.prepare(1)
    topic = opened.topic()
    assert topic.recorded_batch() == 0
    topic.commit(prepared(1), 1)
    assert opened.topic().recorded_batch() == 1


def test_a_note_that_comes_late_does_no_harm(opened: Opened) -> None:
    """A late note, as of a process that was paused, is ignored. The next start removes it."""
    topic = opened.topic()
    for batch in range(4):
        topic.commit(prepared(batch), batch)
    for batch in (1, 3):
        mark_published(topic.table_directory, prepared(batch), sync=False)
    assert opened.topic().recorded_batch() == 3
    notes = [path.name for path in topic.table_directory.glob("published-*")]
    assert notes == ["published-000000000003.json"]


def test_other_steps_are_refused(opened: Opened) -> None:
    """A changed step is an error with the solutions. Key groups of the state stay."""
    opened.topic()
    with pytest.raises(IncompatibleStore) as refused:
        opened.topic(defined("v > 2"))
    assert "to(out): its chain of steps was t.filter('v > 1')" in str(refused.value)
    assert "`oriel rebuild 'to(out)' TOPOLOGY.py`" in str(refused.value)
    assert opened.topic(defined(key_groups=64)).definition.key_groups == 8


def test_the_last_generation_with_a_definition_counts(opened: Opened) -> None:
    """A directory that a killed rebuild left has no definition and is ignored."""
    opened.topic()
    state = opened.directory / "state"
    for name in ("to(out)@3", "to(out)@4"):
        (state / name).mkdir()
    later = SinkDefinition.recorded(opened.directory, "to(out)")
    assert later is not None
    assert later.state_name == "to(out)"
    replace(later, generation=3).write(state / "to(out)@3", sync=False)
    assert opened.topic().table_directory == state / "to(out)@3"


def test_a_damaged_definition_is_an_error(opened: Opened) -> None:
    """A damaged definition is an error that names the file."""
    topic = opened.topic()
    (topic.table_directory / "sink.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"sink\.json is damaged .* backup"):
        opened.topic()


def test_a_damaged_note_is_an_error(opened: Opened) -> None:
    """A damaged note is an error that names the file, because the note has the position."""
    topic = opened.topic()
    topic.commit(prepared(0), 0)
    (note,) = topic.table_directory.glob("published-*")
    whole = note.read_bytes()
    note.write_bytes(whole.replace(b'"batch":0', b'"batch":1'))
    with pytest.raises(CheckpointError, match=rf"{note.name} is damaged .* backup"):
        opened.topic().newest_record()
