"""Commands on a full disk name the file and what to do, and leave no half-written file."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oriel.pipeline.disk_errors import user_error
from oriel.pipeline.operations import clock, compact
from oriel.pipeline.operations.backups import backup
from oriel.storage.files import use_files
from oriel.testing import FailingFiles
from tests.disks import small_disk
from tests.pipeline.commit.writers import Writer, write_log

_MB = 1 << 20


@pytest.fixture(scope="module", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of two stores after some batches."""
    directory = tmp_path_factory.mktemp("written")
    write_log(directory, 6)
    writer = Writer(directory, sync=False)
    writer.run()
    writer.close()
    return writer.data


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the directory of a small disk."""
    with small_disk(tmp_path / "disk", 2 * _MB) as directory:
        yield directory


def _fill(disk: Path) -> None:
    descriptor = os.open(disk / "filler", os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        # The last write can be cut off.
        while os.write(descriptor, bytes(4096)) == 4096:
            pass
    os.close(descriptor)


def test_a_backup_to_a_full_disk_names_the_file(
    disk: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed backup leaves nothing, and the next one succeeds when space is free."""
    _fill(disk)
    os.truncate(disk / "filler", 2 * _MB - (64 << 10))
    target = disk / "backup"
    assert backup.main(["--data", str(written), "--to", str(target)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"oriel backup: {disk}/backup.writing/")
    assert ": the disk is full (No space left on device). Free space on the file system" in line
    assert [path.name for path in disk.iterdir()] == ["filler"]
    (disk / "filler").unlink()
    assert backup.main(["--data", str(written), "--to", str(target)]) == 0


def test_compaction_on_a_full_disk_names_the_file(
    disk: Path, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table stays as it is, and the next compaction succeeds when space is free."""
    data = disk / "data"
    shutil.copytree(written, data)
    _fill(disk)
    before = sorted(data.rglob("*"))
    assert compact.main(["first", "--data", str(data), "--all"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"oriel compact: {data}/tables/first/")
    assert ": the disk is full (No space left on device). Free space on the file system" in line
    assert sorted(data.rglob("*")) == before
    (disk / "filler").unlink()
    assert compact.main(["first", "--data", str(data), "--all"]) == 0


def test_a_batch_on_a_full_disk_names_the_file(disk: Path, tmp_path: Path) -> None:
    """The run ends with the file and what to do, and resumes when space is free."""
    write_log(tmp_path, 3)
    site = disk / "site"
    site.mkdir()
    (site / "log").symlink_to(tmp_path / "log")
    writer = Writer(site, sync=False)
    writer.run(1)
    _fill(disk)
    with pytest.raises(OSError, match="No space left") as raised:
        writer.run()
    writer.close()
    line = str(user_error(raised.value))
    assert line.startswith(f"{writer.data}/")
    assert ": the disk is full (No space left on device). Free space on the file system" in line
    (disk / "filler").unlink()
    again = Writer(site, sync=False)
    again.run()
    again.close()
    prepared = again.stores["first"].prepared(2)
    assert prepared is not None
    assert prepared.record.counters["input"] == 18


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.ENOSPC, "the disk is full (No space left on device). Free space on"),
        (errno.EDQUOT, "the quota is used up (Disk quota exceeded). Free space or raise the quota"),
        (errno.EROFS, "the file system is read-only (Read-only file system). Make "),
        (errno.EACCES, "access is denied (Permission denied). Let user "),
        (errno.EIO, "the device fails (Input/output error). Check the device"),
    ],
)
@pytest.mark.parametrize("command", ["backup", "compact", "clock"])
def test_each_error_of_a_disk_says_what_to_do(
    tmp_path: Path,
    written: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    number: int,
    problem: str,
) -> None:
    """Each error is one line that begins with the file and says what to do."""
    data = tmp_path / "data"
    shutil.copytree(written, data)
    run: dict[str, Callable[[], int]] = {
        "backup": lambda: backup.main(["--data", str(data), "--to", str(tmp_path / "copy")]),
        "compact": lambda: compact.main(["first", "--data", str(data), "--all"]),
        "clock": lambda: clock.main(["--data", str(data), "--set", "t", "0", "12"]),
    }
    with use_files(FailingFiles(1, number)):
        assert run[command]() == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"oriel {command}: {data}")
    assert f": {problem}" in line
    assert line.endswith(" and start again. Nothing is lost")
