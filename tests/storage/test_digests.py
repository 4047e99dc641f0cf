"""Tests of file digests."""

from pathlib import Path

import pyarrow as pa
import xxhash

from oriel.storage.files import digest, file_digest


def test_a_digest_names_its_algorithm() -> None:
    """A digest has the name of the algorithm and 16 hexadecimal digits."""
    assert digest(b"") == "xxh3:2d06800538d394c2"
    assert digest(b"oriel") == f"xxh3:{xxhash.xxh3_64_hexdigest(b'oriel')}"
    assert digest(memoryview(b"oriel")) == digest(pa.py_buffer(b"oriel")) == digest(b"oriel")


def test_a_file_has_the_digest_of_its_content(tmp_path: Path) -> None:
    """The digest of a file includes every byte, also if the file has several blocks."""
    content = bytes(range(256)) * 10_000
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert file_digest(file) == digest(content)
    with pa.OSFile(str(path)) as source:
        assert file_digest(source) == digest(content)
