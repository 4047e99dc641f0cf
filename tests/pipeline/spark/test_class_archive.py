"""The archive of Spark's classes: used if it is whole, made once, and never in the way."""

import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oriel.pipeline.spark import class_archive
from oriel.pipeline.spark.class_archive import (
    OPTIONS,
    archive_options,
    make_archive,
    start_archiving,
)


@pytest.fixture(autouse=True)
def own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' JVMs have options of their own, with which there is no archive."""
    monkeypatch.delenv(OPTIONS)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that were started instead of making an archive."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def trained(content: bytes) -> Callable[[Path], Path]:
    """A training run whose JVM leaves an archive of this content."""

    def train(work: Path) -> Path:
        work.mkdir()
        draft = work / "classes.jsa"
        draft.write_bytes(content)
        return draft

    return train


def test_an_archive_is_made_once_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    """Before the first there is no option; behind it nothing is made any more."""
    folder = tmp_path / "with space"
    assert archive_options(folder) == []
    assert start_archiving(folder)
    assert [command[1:4] for command in started] == [["-P", "-m", class_archive.__name__]]
    (folder / "0123456789abcdef-3.jsa").write_bytes(b"old")
    monkeypatch.setattr(class_archive, "_trained", trained(b"classes"))
    assert make_archive(folder)
    (made,) = folder.glob("*.jsa")
    (option,) = shlex.split(archive_options(folder)[0])
    assert option == f"-XX:SharedArchiveFile={made}"
    assert made.read_bytes() == b"classes"
    assert not start_archiving(folder)
    assert len(started) == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted(["lock", made.name])


def test_a_cut_archive_is_not_given_to_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    """Java dies of one that a power loss or a full disk cut short; it is made anew."""
    monkeypatch.setattr(class_archive, "_trained", trained(b"classes"))
    assert make_archive(tmp_path)
    (made,) = tmp_path.glob("*.jsa")
    made.write_bytes(b"cla")
    assert archive_options(tmp_path) == []
    assert start_archiving(tmp_path)
    assert len(started) == 1


def test_another_java_makes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is for one Java: after an update it is passed over."""
    monkeypatch.setattr(class_archive, "_trained", trained(b"classes"))
    assert make_archive(tmp_path)
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    assert archive_options(tmp_path) == []


@pytest.mark.usefixtures("started")
def test_what_failed_once_is_not_tried_at_every_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java that can't make an archive costs one attempt."""
    monkeypatch.setattr(class_archive, "_trained", lambda _work: None)
    assert not make_archive(tmp_path)
    assert not start_archiving(tmp_path)


def test_own_java_options_and_places_without_rights_have_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    """Nothing is made and nothing fails."""
    (tmp_path / "file").touch()
    assert not start_archiving(tmp_path / "file" / "below")
    monkeypatch.setenv(OPTIONS, "-Xmx1g")
    assert not start_archiving(tmp_path)
    assert started == []


def test_one_process_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds the lock held leaves it to the other."""
    monkeypatch.setattr(class_archive, "_trained", lambda _work: pytest.fail("made twice"))
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make_archive(tmp_path)


@pytest.mark.slow
@pytest.mark.e2e
def test_java_loads_sparks_classes_from_the_archive(tmp_path: Path) -> None:
    """The real thing: a small run leaves an archive, and the next JVM takes classes from it."""
    assert make_archive(tmp_path)
    option, *quiet = (shlex.split(option)[0] for option in archive_options(tmp_path))
    code = (
        "import sys; from oriel.pipeline.spark import build_session; "
        "build_session('x', cores=1).stop()"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, OPTIONS: f'"{option}" -Xlog:class+load:file={tmp_path}/loaded.txt'},
        check=True,
        capture_output=True,
    )
    assert quiet
    assert b"cds" not in run.stdout + run.stderr
    lines = (tmp_path / "loaded.txt").read_text().splitlines()
    of_spark = [line for line in lines if " org.apache.spark." in line]
    archived = [line for line in of_spark if "shared objects file (top)" in line]
    assert len(archived) > len(of_spark) // 2
