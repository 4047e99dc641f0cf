"""Damaged and foreign files of a checkpoint are errors that name the file and the solution."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from oriel.pipeline.commit import Checkpoint, SinkDefinition, StreamTimeOverride, check_log
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import CommitRecord
from tests.campaigns import cases

RECORD = CommitRecord(3, {"t": {"0": 17}}, {"t": {"0": 900}}, 700, {"input": 5, "applied": 5}, 800)
PREPARED = PreparedBatch(RECORD, {0: ["a.arrow"]}, {}, [], [], changed=4, open_records=9)
OVERRIDE = StreamTimeOverride({"t": {"0": 100}}, 50, 60, ["the clock of t 0 was set back"])
SINK = SinkDefinition("out", ("t",), ("filter",), "none", 4)
ID = "5b8e0c43-0b2c-44b4-8a3e-3f1b3a0f2d11"

#: For each file of a checkpoint: how to write it, its path, and how to read it again.
Reader = Callable[[Path], object]


def _application(checkpoint: Path) -> object:
    with Checkpoint(checkpoint, sync=False) as opened:
        return opened.application


def _versions(checkpoint: Path, application: str | None = ID) -> StateVersions:
    return StateVersions(checkpoint / "state" / "s", sync=False, application=application)


def _decide(checkpoint: Path) -> None:
    _versions(checkpoint).prepare(3, PREPARED, [])


def _decide_with_clock(checkpoint: Path) -> None:
    _decide(checkpoint)
    OVERRIDE.write(checkpoint / "state" / "s", 3)


def _sink(checkpoint: Path) -> None:
    directory = checkpoint / "state" / SINK.name
    directory.mkdir(parents=True)
    SINK.write(directory, sync=False)


def _log(checkpoint: Path) -> None:
    checkpoint.mkdir(exist_ok=True)
    check_log(checkpoint, {"event log": "17 of device 3"}, sync=False)
    _decide(checkpoint)


def _read_log(checkpoint: Path) -> object:
    check_log(checkpoint, {"event log": "17 of device 3"}, sync=False)
    return (checkpoint / "log.json").read_bytes()


FILES: dict[str, tuple[Callable[[Path], object], str, Reader]] = {
    "application": (_application, "application.json", _application),
    "decision": (_decide, "state/s/000000000003.json", lambda at: _versions(at).load(3)),
    "clock": (
        _decide_with_clock,
        "state/s/clock-000000000003.json",
        lambda at: _versions(at).load(3),
    ),
    "sink": (
        _sink,
        f"state/{SINK.name}/sink.json",
        lambda at: SinkDefinition.recorded(at, SINK.name),
    ),
    "log": (_log, "log.json", _read_log),
}


def _damages(content: bytes, random: Random, number: int) -> Iterator[bytes]:
    """Yield copies with flipped bits, cut ends and zeros."""
    for _ in range(number):
        damaged = bytearray(content)
        damaged[random.randrange(len(content))] ^= 1 << random.randrange(8)
        yield bytes(damaged)
    for end in range(0, len(content), 7):
        yield content[:end]
    yield bytes(len(content))


@cases(200, 4_000)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_or_reads_the_same(name: str, tmp_path: Path, number: int) -> None:
    """A damaged file is an error with its name, or reads the same if only its digest is damaged."""
    write, path, read = FILES[name]
    write(tmp_path)
    file = tmp_path / path
    whole, wanted = file.read_bytes(), read(tmp_path)
    wrong: list[tuple[bytes, object]] = []
    for damaged in _damages(whole, Random(name), number):
        file.write_bytes(damaged)
        try:
            found = read(tmp_path)
        except CheckpointError as error:
            text = str(error)
            if file.name not in text or not ("estore" in text or "emove" in text):
                wrong.append((damaged, text))
        else:
            if found != wanted and not (name == "log" and found == whole):
                wrong.append((damaged, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("directory", "application", "batch", "message"),
    [
        ("other", ID, 3, "it belongs to store 's' of application"),
        ("s", "another", 3, f"it belongs to store 's' of application {ID}"),
        ("s", ID, 4, "it is of batch 3"),
    ],
)
def test_a_version_of_another_owner_is_named(
    tmp_path: Path, directory: str, application: str, batch: int, message: str
) -> None:
    """The error names the store, the application or the batch of the file."""
    _decide(tmp_path)
    target = tmp_path / "copied" / directory
    target.mkdir(parents=True)
    shutil.copy(tmp_path / "state/s/000000000003.json", target / f"{batch:012d}.json")
    versions = StateVersions(target, sync=False, application=application)
    with pytest.raises(CheckpointError, match=message) as raised:
        versions.load(batch)
    assert str(target / f"{batch:012d}.json") in str(raised.value)
    assert f"`oriel rebuild {directory}`" in str(raised.value)


def test_a_version_without_owner_and_digest_is_read(tmp_path: Path) -> None:
    """A version of an earlier release is read, although it has no owner and no digest."""
    (tmp_path / "state" / "s").mkdir(parents=True)
    (tmp_path / "state/s/000000000003.json").write_bytes(PREPARED.to_json())
    assert _versions(tmp_path).load(3) == PREPARED


def test_a_generation_of_a_store_is_not_its_first(tmp_path: Path) -> None:
    """After a rebuild, the state of the old generation is not accepted as the new one."""
    _decide(tmp_path)
    shutil.copytree(tmp_path / "state/s", tmp_path / "state/s@1")
    versions = StateVersions(tmp_path / "state/s@1", sync=False, application=ID)
    with pytest.raises(CheckpointError, match="it belongs to store 's' of application"):
        versions.load(3)
    assert versions.prepared(3) is None
    assert versions.prepare(3, replace(PREPARED, changed=1), []).changed == 1
