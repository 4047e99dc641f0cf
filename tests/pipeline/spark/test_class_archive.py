"""The archive of Spark's classes is used only if it is complete and fits. No start needs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from oriel.pipeline.operations import class_archive
from oriel.pipeline.spark import (
    archive_prefix,
    create_in_background,
    find_archive,
    use_archive,
    write_archive,
)

_JARS = Path(pyspark.__file__).parent / "jars"
#: Java logs this about a class of the archive.
_FROM_ARCHIVE = "shared objects file (top)"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty directory of archives."""
    monkeypatch.setenv("ORIEL_CLASS_ARCHIVES", str(tmp_path / "archives"))
    (tmp_path / "archives").mkdir()
    return tmp_path / "archives"


def _java(*options: str) -> str:
    """Start Spark's command line with these options, and return its output."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    command = [java, *options, "-cp", f"{_JARS}/*", "org.apache.spark.deploy.SparkSubmit"]
    ended = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def _created(directory: Path) -> Path:
    """Let Java write an archive of the classes of a small program, and name it as Oriel does."""
    made = directory / "made"
    _java(*write_archive(made))
    path = directory / f"{archive_prefix()}-{made.stat().st_size}.jsa"
    made.rename(path)
    path.chmod(0o600)
    return path


def test_java_takes_classes_from_a_complete_archive_only(directory: Path) -> None:
    """Java does not use a damaged archive. A short file would end Java, so Oriel ignores it."""
    assert find_archive() is None
    assert use_archive(None) == ()
    path = _created(directory)
    assert find_archive() == path
    log = "-Xlog:class+load:stdout"
    assert _FROM_ARCHIVE in _java(log, *use_archive(path))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + b"\xff" * 4096 + whole[middle + 4096 :])
    assert find_archive() == path
    assert _FROM_ARCHIVE not in _java(log, *use_archive(path))
    path.write_bytes(os.urandom(len(whole)))
    assert _FROM_ARCHIVE not in _java(log, *use_archive(path))
    path.write_bytes(whole[:middle])
    assert find_archive() is None


def test_an_archive_fits_one_java_and_one_directory_of_jars(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Java, or with a space in a path, an archive is neither created nor used."""
    prefix = archive_prefix()
    assert prefix is not None
    (directory / f"{prefix}-3.jsa").write_bytes(b"jsa")
    assert find_archive() is not None
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(directory.parent, "exit 1")))
    assert archive_prefix() not in {None, prefix}
    assert find_archive() is None
    monkeypatch.setenv("JAVA_HOME", str(directory / "none"))
    assert archive_prefix() is None
    monkeypatch.undo()
    monkeypatch.setenv("ORIEL_CLASS_ARCHIVES", str(directory / "with space"))
    assert archive_prefix() is None
    monkeypatch.setenv("ORIEL_CLASS_ARCHIVES", "")
    assert find_archive() is None
    assert class_archive.main() == 1


def test_an_archive_that_cannot_be_created_is_not_tried_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine on which Java writes no archive does not try it at each start."""
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(class_archive, "_run", lambda _directory, _archive: None)
    assert class_archive.main() == 1
    create_in_background()
    assert [path.suffix for path in sorted(directory.iterdir())] == [".failed", ".lock"]


def test_an_archive_without_use_is_deleted(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new archive replaces archives that no run has used for 30 days."""
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(class_archive, "_run", lambda _directory, _archive: None)
    used, unused, foreign = (
        directory / name for name in ("spark-a-1.jsa", "spark-b-1.jsa", "mine")
    )
    for path in (used, unused, foreign):
        path.touch()
        os.utime(path, (1, 1))
    use_archive(used)
    assert class_archive.main() == 1
    assert [used.exists(), unused.exists(), foreign.exists()] == [True, False, True]


def test_a_start_without_the_archive_follows_a_crash_with_it(directory: Path) -> None:
    """Java ends with the archive. The session starts without it, and the archive is deleted."""
    java = shutil.which(f"{os.environ.get('JAVA_HOME', '')}/bin/java") or shutil.which("java")
    script = f'case "$*" in *SharedArchiveFile*) exit 134;; esac\nexec {java} "$@"'
    environment = {**os.environ, "JAVA_HOME": str(_fake_java(directory.parent, script))}
    # The archive of the tests is not used either.
    environment.pop("SPARK_SUBMIT_OPTS", None)
    code = (
        "from oriel.pipeline.spark import archive_prefix, archive_directory, build_session\n"
        "path = archive_directory() / f'{archive_prefix()}-3.jsa'\n"
        "path.write_bytes(b'jsa')\n"
        "session = build_session('test', cores=1)\n"
        "assert not path.exists()\n"
        "assert session.range(3).count() == 3\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def _fake_java(directory: Path, script: str) -> Path:
    """Return a Java home whose `java` is a shell script."""
    home = directory / "java-home"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home
