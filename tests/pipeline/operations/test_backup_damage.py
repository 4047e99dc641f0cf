"""A backup of a damaged directory names the file and leaves nothing. Backups are verified."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
import pytest

from oriel.pipeline.operations import verify
from oriel.pipeline.operations.backups import backup, restore
from oriel.storage import DataLayout
from oriel.storage.dead_letters import read_replays
from tests.campaigns import cases
from tests.pipeline.commit.writers import Writer, write_log
from tests.pipeline.operations.damages import cut, delete

BATCHES = 4
_NEWEST = f"{BATCHES - 1:012d}"


@pytest.fixture(scope="module", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of two stores after some batches, with replayed dead letters."""
    directory = tmp_path_factory.mktemp("written")
    write_log(directory, BATCHES)
    writer = Writer(directory, sync=False)
    writer.run()
    writer.close()
    replayed = DataLayout(writer.data).replayed
    replayed.parent.mkdir()
    replayed.write_bytes(b'["t",0,5,7]\n["t",0,5,7,900]\n')
    return writer.data


@pytest.fixture(name="data")
def _data(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        (f"checkpoints/app/state/first/{_NEWEST}-*.arrow", delete),
        (f"checkpoints/app/state/first/{_NEWEST}-*.arrow", cut),
        # Without this file, the backup has the batch before.
        (f"checkpoints/app/state/first/{_NEWEST}.json", cut),
        ("checkpoints/app/application.json", delete),
        ("checkpoints/app/application.json", cut),
        ("tables/second/part-*.parquet", delete),
        ("tables/second/part-*.parquet", cut),
        ("tables/_dead_letters/dead-*.parquet", delete),
        ("tables/_dead_letters/dead-*.parquet", cut),
        ("tables/second/_delta_log/00000000000000000002.json", delete),
        ("tables/second/_delta_log/00000000000000000002.json", cut),
    ],
)
def test_a_damaged_file_is_named(
    data: Path, capsys: pytest.CaptureFixture[str], pattern: str, damage: Callable[[Path], None]
) -> None:
    """The backup fails with one line that has the solution, and leaves nothing."""
    path = min(data.glob(pattern))
    whole = path.read_bytes()
    damage(path)
    target = data.with_name("backup")
    assert backup.main(["--data", str(data), "--to", str(target)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    # If a log lacks an entry, the message names its table.
    is_lacking = "entry 2 of the log is missing" in line
    assert str(path.parent.parent if is_lacking else path) in line
    assert "backup" in line.partition(": ")[2]
    assert "changes faster" not in line
    assert [one.name for one in data.parent.iterdir()] == ["data"]
    assert list(data.glob(".backup-*")) == []
    # The same command succeeds when the file exists again.
    path.write_bytes(whole)
    assert backup.main(["--data", str(data), "--to", str(target)]) == 0


def test_a_missing_table_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint knows its stores, so a backup without a table of theirs is rejected."""
    table = data / "tables" / "second"
    shutil.rmtree(table)
    assert backup.main(["--data", str(data), "--to", str(data.with_name("backup"))]) == 1
    line = capsys.readouterr().err
    assert f"{table}: the table of store 'second' is missing. " in line
    assert "`oriel rebuild second`" in line


def test_a_copy_that_differs_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup is read again, so a disk that stores other bytes is noticed."""
    copied = backup.copied

    def garbled(source: Path, target: Path, progress: str) -> str:
        digest = copied(source, target, progress)
        if target.name.startswith("dead-"):
            target.write_bytes(b"x" + target.read_bytes()[1:])
        return digest

    monkeypatch.setattr(backup, "copied", garbled)
    target = data.with_name("backup")
    assert backup.main(["--data", str(data), "--to", str(target)]) == 1
    assert "SHA-256" in capsys.readouterr().err
    assert not target.exists()


def test_marks_of_replayed_dead_letters_are_part_of_a_backup(data: Path) -> None:
    """A restored directory does not send these records again."""
    target, restored = data.with_name("backup"), data.with_name("restored")
    assert backup.main(["--data", str(data), "--to", str(target)]) == 0
    assert restore.main(["--from", str(target), "--data", str(restored)]) == 0
    replays = read_replays(DataLayout(restored))
    assert replays == read_replays(DataLayout(data))
    assert replays.has("t", 0, 5)


def test_marks_that_came_from_a_bucket_count(data: Path) -> None:
    """The notes of a bucket, one object each, are also read after a restore to a disk."""
    layout = DataLayout(data)
    directory = layout.replayed.with_suffix("")
    directory.mkdir()
    (directory / "000000000000.jsonl").write_bytes(b'"id"\n["t",0,11,7]\n')
    replays = read_replays(layout)
    assert replays.has("t", 0, 5)
    assert replays.has("t", 0, 11)
    layout.replayed.unlink()
    assert read_replays(layout).has("t", 0, 11)


def test_a_backup_of_the_first_batch_begins_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If only one store has prepared the first batch, the backup has no batch."""
    write_log(tmp_path, 2)
    writer = Writer(tmp_path, sync=False)
    writer.run(1)
    writer.close()
    state = writer.checkpoint.directory / "state" / "second"
    shutil.rmtree(state)
    state.mkdir()
    shutil.rmtree(writer.data / "tables" / "second")
    target, restored = tmp_path / "backup", tmp_path / "restored" / "data"
    restored.parent.mkdir()
    shutil.copytree(tmp_path / "log", restored.parent / "log")
    assert backup.main(["--data", str(writer.data), "--to", str(target)]) == 0
    assert orjson.loads(capsys.readouterr().out)["batches"] == {"app": -1}
    assert restore.main(["--from", str(target), "--data", str(restored)]) == 0
    again = Writer(restored.parent, sync=False)
    again.run()
    again.close()
    counters = [
        one.record.counters for store in again.stores.values() if (one := store.prepared(1))
    ]
    assert [one["input"] for one in counters] == [12, 12]


@pytest.mark.parametrize("kind", ["other", "missing", "surplus"])
def test_a_damaged_backup_is_found(
    data: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """`oriel verify --backup` compares each file with the manifest."""
    target = data.with_name("backup")
    assert backup.main(["--data", str(data), "--to", str(target)]) == 0
    assert verify.main(["--backup", str(target)]) == 0
    capsys.readouterr()
    path = min(target.glob("data/tables/first/*.parquet"))
    if kind == "surplus":
        path = path.with_name("other.txt")
    else:
        path.unlink()
    if kind != "missing":
        path.write_bytes(b"x")
    assert verify.main(["--backup", str(target)]) == (kind != "surplus")
    lines = capsys.readouterr().out.splitlines()[:-1]
    assert lines
    assert [line for line in lines if not line.startswith(f"{path}: ")] == []


@cases(20, 2_000)
def test_each_flipped_bit_of_a_manifest_is_found(
    data: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """Both commands reject a manifest with another file, size, digest or batch."""
    target, restored = data.with_name("backup"), data.with_name("restored")
    assert backup.main(["--data", str(data), "--to", str(target)]) == 0
    manifest = target / "backup.json"
    whole, missed = manifest.read_bytes(), []
    assert restore.main(["--from", str(target), "--data", str(restored)]) == 0
    intact = capsys.readouterr().out.splitlines()[-1]
    shutil.rmtree(restored)
    for seed in range(number):
        random = Random(seed)
        content = bytearray(whole)
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        manifest.write_bytes(content)
        codes = [
            verify.main(["--backup", str(target)]),
            restore.main(["--from", str(target), "--data", str(restored)]),
        ]
        captured = capsys.readouterr()
        # A flip in the name of the digest leaves the manifest as it was.
        is_same = codes == [0, 0] and captured.out.splitlines()[-1] == intact
        if not is_same and not (codes == [1, 1] and "another backup" in captured.err):
            missed.append(f"seed {seed}: {codes}: {captured.err}")
        shutil.rmtree(restored, ignore_errors=True)
    assert missed == []
