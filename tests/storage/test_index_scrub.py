"""Tests of the scrub, which finds damage of an index in use, so that it is rebuilt."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index import IndexReader, damage, raise_findings, start_verification, withdraw
from oriel.storage.tailer.pool import PooledStore
from oriel.storage.tailer.scrub import EVERY_SECONDS, Scrub
from tests.storage.test_index_trust import AtRest
from tests.storage.waiting import wait_for
from tests.storage.written_index import window_snapshot

pytestmark = pytest.mark.slow


class Scrubbed(AtRest):
    """A store with a scrub, whose times the test sets."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.restart()
        self.catch_up()
        self.seconds = self.wall_seconds = 0.0
        self.scrub = Scrub(lambda: self.seconds, lambda: self.wall_seconds)
        self.stores = {"store": PooledStore(self.tailer)}
        self.scrub.step(self.stores)

    def is_looking(self) -> bool:
        """Step, and return True while a verification runs."""
        self.scrub.step(self.stores)
        return self.scrub._look is not None

    def look(self) -> None:
        """Start a verification and wait until it ends."""
        self.seconds += EVERY_SECONDS
        assert self.is_looking()
        wait_for(False, self.is_looking, "the end of the look")


@pytest.fixture
def scrubbed(tmp_path: Path) -> Iterator[Scrubbed]:
    """Return a followed store with a scrub."""
    made = Scrubbed(tmp_path)
    yield made
    made.scrub.close()
    made.tailer.close()


@pytest.mark.parametrize("is_at_rest", [False, True], ids=["open", "at rest"])
def test_a_look_finds_a_hidden_record(scrubbed: Scrubbed, *, is_at_rest: bool) -> None:
    """A verification finds a page header with a wrong number of records."""
    if is_at_rest:
        scrubbed.tailer.close()
    scrubbed.look()
    generation = scrubbed.generation()
    assert damage(generation) is None
    _hide_records(generation / "data.mdb")
    scrubbed.look()
    assert damage(generation) is not None
    scrubbed.catch_up()
    assert scrubbed.generation() != generation
    assert scrubbed.tailer.status.damaged == 1


def _hide_records(path: Path) -> None:
    """Hide the last record of each leaf page (``mp_lower`` counts the pointers to records)."""
    content = bytearray(path.read_bytes())
    for page in range(2 * 4096, len(content), 4096):
        if content[page + 10] == 2 and int.from_bytes(content[page + 12 : page + 14], "little") > 2:
            content[page + 12] ^= 2
    path.write_bytes(bytes(content))


def test_looks_use_a_bounded_share(scrubbed: Scrubbed) -> None:
    """After a verification, the scrub pauses for 19 times its duration."""
    scrubbed.seconds += EVERY_SECONDS
    assert scrubbed.is_looking()
    scrubbed.seconds += 10
    wait_for(False, scrubbed.is_looking, "the end of the look")
    scrubbed.tailer.is_verified = False
    scrubbed.seconds += 189
    assert not scrubbed.is_looking()
    scrubbed.seconds += 1
    assert scrubbed.is_looking()
    wait_for(False, scrubbed.is_looking, "the end of the look")
    assert scrubbed.tailer.is_verified
    scrubbed.seconds += EVERY_SECONDS - 1
    assert not scrubbed.is_looking()


def test_a_look_is_no_damage_where_a_writer_commits(scrubbed: Scrubbed) -> None:
    """A verification reads one version, and new versions during it are not damage."""
    generation = scrubbed.generation()
    look = start_verification(generation)
    start = 1_000
    while look.poll() is None:
        scrubbed.table.commit([{"key": "b", "start": start + n} for n in range(50)])
        scrubbed.catch_up()
        start += 50
    raise_findings(generation, look.returncode, *look.communicate())
    assert start > 1_000


def test_readers_that_have_a_withdrawn_index_open_stop(scrubbed: Scrubbed) -> None:
    """Readers with an open index stop serving it when the scrub withdraws it."""
    scrubbed.tailer.close()
    reader = IndexReader(scrubbed.directory)
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is not None
    withdraw(scrubbed.directory, scrubbed.generation(), "page 7 is garbled")
    reader._pointer_seen_at = 0.0
    with pytest.raises(IndexDamaged, match="page 7 is garbled"):
        reader.snapshot()
    reader.close()


def test_a_look_that_was_killed_is_no_damage(scrubbed: Scrubbed) -> None:
    """A verification that the system kills does not mark the index, and is repeated later."""
    look = start_verification(scrubbed.generation())
    os.kill(look.pid, 9)
    with pytest.raises(StoreNotReady, match="cannot be checked"):
        raise_findings(scrubbed.generation(), look.wait(), *look.communicate())
