"""Tests of flipped bits in an index: each result is correct or an error.

Subprocesses read the damaged copies, because LMDB can crash on them. After a crash, the supervisor
requests a verification of the index (``tests/app/test_serve.py``).
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from operator import methodcaller
from pathlib import Path
from typing import Any

import lmdb
import pytest

from oriel.storage import SessionRange, StoreNotReady, WindowRange
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import IndexDirectory, IndexReader, damage
from oriel.storage.index.check import find_damage
from oriel.storage.index.checksums import check, with_checksum
from oriel.testing.store_models import Put, put
from tests.storage.store_tables import SESSION, SLIDING
from tests.storage.written_index import window_snapshot, write_index

pytestmark = pytest.mark.slow

#: The number of copies, each with one flipped random bit.
_FLIPS = int(os.environ.get("ORIEL_FLIPS", "40"))
_ERROR = "error"
_KEYS = [f"key {number}" for number in range(12)]


def read_results(directory: IndexDirectory, *, is_session: bool) -> dict[str, object]:
    """Return the result of each read of every key, or ``_ERROR`` if the read fails."""
    reader = IndexReader(directory)
    reads: dict[str, Callable[[Any], object]] = {"keys": lambda s: s.keys("", 1000)}
    for key in [*_KEYS, "none"]:
        some = WindowRange(key, 20, 150, 1000)
        reads |= {
            f"latest {key}": methodcaller("latest", key),
            f"fetch {key}": methodcaller("fetch", some),
            f"page {key}": methodcaller("backward_fetch", some._replace(limit=7)),
            f"one {key}": methodcaller("fetch_window", key, 77),
        }
        if is_session:
            reads[f"found {key}"] = methodcaller("find_sessions", SessionRange(key, 90, 120))
    said: dict[str, object] = {}
    for name, read in reads.items():
        try:
            with reader.snapshot() as snapshot:
                said[name] = read(snapshot)
        except StoreNotReady:
            said[name] = _ERROR
    reader.close()
    return said


def make_index(path: Path, window: Any) -> IndexDirectory:
    """Create an index of about 30 pages. Sessions have different lengths."""
    directory = IndexDirectory(path / "index" / "store")
    if window == SESSION:
        puts: Iterable[Put] = [
            Put(key, start, start + length, b'{"key":"%b","start":%d}' % (key.encode(), start))
            for key in _KEYS
            for start, length in zip(range(150), [0, 1, 3, 9, 40, 7] * 25, strict=True)
        ]
    else:
        puts = [put(key, start) for key in _KEYS for start in range(200)]
    write_index(directory, puts, None, window)
    return directory


def flipped(directory: IndexDirectory, to: Path, bit: int) -> IndexDirectory:
    """Return a copy of an index with one flipped bit."""
    copy = IndexDirectory(to / "index" / "store")
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(directory.path, copy.path)
    generation = copy.current()
    assert generation is not None
    with (generation / "data.mdb").open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    return copy


@pytest.mark.parametrize("window", [SLIDING, SESSION], ids=["windows", "sessions"])
def test_a_flipped_bit_is_never_served(tmp_path: Path, window: Any) -> None:
    """Each result of a damaged copy is correct or an error, or the verification finds the bit.

    The verification is only needed for the few bits of page headers and inner pages. They locate
    records and have no checksum.
    """
    directory = make_index(tmp_path / "whole", window)
    right = read_results(directory, is_session=window == SESSION)
    generation = directory.current()
    assert generation is not None
    bits = 8 * (generation / "data.mdb").stat().st_size
    chooser = random.Random(7)
    missed, errors = [], 0
    for _ in range(_FLIPS):
        # The two header pages are skipped: the size shows their damage, or it has no effect.
        bit = chooser.randrange(2 * 4096 * 8, bits)
        copy = flipped(directory, tmp_path / "copy", bit)
        child = os.fork()
        if child == 0:
            said = read_results(copy, is_session=window == SESSION)
            wrong = [name for name in right if said[name] not in (_ERROR, right[name])]
            os._exit(1 if wrong else 2 if _ERROR in said.values() else 0)
        _, status = os.waitpid(child, 0)
        errors += os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 2
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            current = copy.current()
            assert current is not None
            assert find_damage(current) is not None, f"bit {bit} is served and not found"
            missed.append(bit)
    assert errors > 0
    assert len(missed) <= _FLIPS // 100, f"served with a flipped bit: {missed}"


def test_each_bit_of_a_record_counts() -> None:
    """A flipped bit in a key or a value is found, at any position among other records."""
    records = [(key, with_checksum(key, b'{"n":%d}' % n)) for n, key in enumerate([b"a", b"b\0"])]
    check(records)
    for number, record in enumerate(records):
        for part in (0, 1):
            for bit in range(8 * len(record[part])):
                garbled = bytearray(record[part])
                garbled[bit // 8] ^= 1 << bit % 8
                changed = (bytes(garbled), record[1]) if part == 0 else (record[0], bytes(garbled))
                with pytest.raises(lmdb.CorruptedError):
                    check([*records[:number], changed, *records[number + 1 :]])


def test_what_is_garbled_is_marked_for_a_rebuild(tmp_path: Path) -> None:
    """A reader that finds a damaged row raises an error and marks the index as damaged."""
    directory = make_index(tmp_path, SLIDING)
    generation = directory.current()
    assert generation is not None
    path = generation / "data.mdb"
    # Replace every occurrence, because the file can have older copies of pages.
    path.write_bytes(
        path.read_bytes().replace(
            b'"key 3","window_start_ms":77,', b'"key 3","window_start_ms":78,'
        )
    )
    reader = IndexReader(directory)

    def read_all() -> None:
        for start in range(0, 200, 50):
            with window_snapshot(reader) as snapshot:
                snapshot.fetch(WindowRange("key 3", start, start + 49))

    with pytest.raises(IndexDamaged, match="the checksum of a record is wrong"):
        read_all()
    reader.close()
    assert damage(generation) is not None


def test_the_look_through_finds_a_number_that_changed(tmp_path: Path) -> None:
    """The verification finds a changed value, although structure and JSON are valid."""
    directory = make_index(tmp_path, SLIDING)
    generation = directory.current()
    assert generation is not None
    path = generation / "data.mdb"
    path.write_bytes(path.read_bytes().replace(b'"key":"key 7"', b'"key":"key 8"'))
    done = subprocess.run(
        [sys.executable, "-m", "oriel.storage.index", str(generation)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "checksum" in done.stdout) == (1, True)
