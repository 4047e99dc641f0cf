"""Tests of crashed processes: only the index that the process used becomes suspect."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oriel.app.server import supervisor as supervising
from oriel.app.server.supervisor import Supervisor
from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory, IndexWriter, damage, is_verification_requested
from tests.storage.store_tables import SLIDING
from tests.storage.written_index import write_index

_CHILD: Any = SimpleNamespace(name="worker 0", ended_pid=4711)


@pytest.fixture
def generations(tmp_path: Path) -> list[Path]:
    """Return the indexes of two stores."""
    found = []
    for name in ("a", "b"):
        directory = IndexDirectory(DataLayout(tmp_path).index(name))
        write_index(directory, [], None, SLIDING)
        generation = directory.current()
        assert generation is not None
        found.append(generation)
    return found


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    """Return a supervisor without processes."""
    return Supervisor(DataLayout(tmp_path), socket.socket(), workers=1)


def test_the_index_that_was_read(
    supervisor: Supervisor, generations: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index that a crashed worker read is suspect, and damaged after the second crash."""
    monkeypatch.setattr(supervising, "ended_in_read", lambda one, _: one == generations[1])
    supervisor._suspect_indexes(_CHILD, is_writer=False)
    assert [is_verification_requested(one) for one in generations] == [False, True]
    supervisor._suspect_indexes(_CHILD, is_writer=False)
    assert [damage(one) is not None for one in generations] == [False, True]


def test_the_index_that_the_tailer_had_open(
    supervisor: Supervisor, generations: list[Path]
) -> None:
    """The index that a crashed tailer had open is suspect, by its marker file."""
    writer = IndexWriter(generations[0])
    supervisor._suspect_indexes(_CHILD, is_writer=True)
    writer.close()
    assert [is_verification_requested(one) for one in generations] == [True, False]


def test_all_indexes_if_nothing_says_which(supervisor: Supervisor, generations: list[Path]) -> None:
    """If the index is unknown, all become suspect, and repeated crashes rebuild no index."""
    for _ in range(3):
        supervisor._suspect_indexes(_CHILD, is_writer=False)
    assert [is_verification_requested(one) for one in generations] == [True, True]
    assert [damage(one) for one in generations] == [None, None]
