"""Tests of `Files`: the contract for directories and buckets, and behavior of buckets only."""

import argparse
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oriel.storage import ObjectStoreFailed, current_files, parse_data_directory, uri
from oriel.storage.files import FilesByPath
from tests.object_store import BUCKET, ObjectStore
from tests.ports import reserved_port

_ROWS = pa.table({"v": range(50_000)})


@pytest.fixture(params=["folder", "bucket"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a path that does not exist yet, on this machine or in a bucket."""
    if request.param == "folder":
        return tmp_path / "data"
    store: ObjectStore = request.getfixturevalue("object_store")
    return store.data(tmp_path.name)


class TestFiles:
    """The contract, which is the same for every place."""

    def test_what_is_not_there(self, directory: Path) -> None:
        """Reads of missing files raise FileNotFoundError, and deletes of missing files succeed."""
        files = current_files()
        files.reach(directory)
        for read in (files.read, files.open, files.map):
            with pytest.raises(FileNotFoundError):
                read(directory / "f")
        assert not files.exists(directory / "f")
        assert not files.is_directory(directory)
        assert files.identity(directory / "f") is None
        assert (files.names(directory), files.listed(directory)) == ([], [])
        files.delete(directory / "f")
        files.delete_directory(directory)

    def test_a_created_file_is_never_overwritten(self, directory: Path) -> None:
        """A second create raises FileExistsError, and the first content stays."""
        files = current_files()
        files.make_directory(directory, sync=True)
        files.create(directory / "f", b"first", sync=True)
        with pytest.raises(FileExistsError):
            files.create(directory / "f", b"second", sync=True)
        assert files.read(directory / "f") == b"first"

    def test_a_replaced_file_is_another_one(self, directory: Path) -> None:
        """A replaced file has the new content and another identity."""
        files = current_files()
        files.make_directory(directory, sync=False)
        files.replace(directory / "f", b"old", sync=False)
        identity = files.identity(directory / "f")
        files.replace(directory / "f", b"new content", sync=True)
        assert files.read(directory / "f") == b"new content"
        assert files.identity(directory / "f") != identity

    def test_names_of_files_and_directories(self, directory: Path) -> None:
        """Listings have the direct children only, and the sizes of files."""
        files = current_files()
        for name in ("in/a", "in/b", "in/below/c", "inner/d"):
            path = directory / name
            files.make_directory(path.parent, sync=False)
            files.create(path, name.encode(), sync=False)
        assert sorted(files.names(directory / "in")) == ["a", "b", "below"]
        assert sorted((f.name, f.size) for f in files.listed(directory / "in")) == [
            ("a", 4),
            ("b", 4),
        ]
        assert files.is_directory(directory / "in" / "below")
        files.delete_directory(directory / "in")
        assert files.names(directory) == ["inner"]

    def test_a_written_file_is_read_in_part_or_mapped(self, directory: Path) -> None:
        """A new process can open or map a copied file after the original was deleted."""
        files = current_files()
        files.make_directory(directory, sync=False)
        written = files.write(directory / "t.parquet", _fill, sync=True)
        assert [f.size for f in files.listed(directory)] == [written.size]
        files.copy(directory / "t.parquet", directory / "copy", sync=True)
        files.touch(directory / "copy")
        files.delete(directory / "t.parquet")
        assert files.names(directory) == ["copy"]
        for opened in (FilesByPath().open, FilesByPath().map):
            with opened(directory / "copy") as source, pq.ParquetFile(source) as file:
                assert file.metadata.num_rows == len(_ROWS)
                assert file.read().equals(_ROWS)


def _fill(sink: pa.NativeFile) -> None:
    pq.write_table(_ROWS, sink, row_group_size=10_000)


def _race(path: Path, writers: int) -> bytes:
    """Create one file in many threads at once, and return the content of the successful thread."""
    won: list[bytes] = []
    start = threading.Barrier(writers)

    def create(content: bytes) -> None:
        start.wait()
        try:
            # Each thread has its own client, as processes have.
            FilesByPath().create(path, content, sync=False)
        except FileExistsError:
            return
        won.append(content)

    threads = [threading.Thread(target=create, args=(b"%d" % n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    return winner


@pytest.mark.slow
def test_one_of_eight_creates_an_object(object_store: ObjectStore) -> None:
    """If eight threads create an object, one succeeds, and the object has its content."""
    for number in range(25):
        path = object_store.data("race") / f"{number}.json"
        winner = _race(path, 8)
        assert current_files().read(path) == winner


def test_an_own_create_that_is_repeated_is_no_conflict(object_store: ObjectStore) -> None:
    """A create that repeats the same content succeeds, as when the client retries a request."""
    path = object_store.data("repeated") / "f"
    current_files().create(path, b"of process 7", sync=True)
    current_files().create(path, b"of process 7", sync=True)
    assert current_files().read(path) == b"of process 7"


def test_a_mapped_object_is_fetched_once(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped object is cached for all processes of a run, even if the object changes."""
    monkeypatch.setenv("ORIEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ORIEL_CACHE_RUN", "one")
    path = object_store.data("mapped") / "f.arrow"
    FilesByPath().replace(path, b"content", sync=False)
    assert FilesByPath().map(path).read() == b"content"
    FilesByPath().replace(path, b"another", sync=False)
    assert FilesByPath().map(path).read() == b"content"
    monkeypatch.setenv("ORIEL_CACHE_RUN", "another")
    assert FilesByPath().map(path).read() == b"another"


def test_copies_are_bounded_by_bytes(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache evicts the least recently used copies, and mapped copies stay readable."""
    monkeypatch.setenv("ORIEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ORIEL_CACHE_BYTES", "4000")
    files, directory = FilesByPath(), object_store.data("bounded")
    for number in range(8):
        files.replace(directory / str(number), b"%d" % number * 1000, sync=False)
    first = files.map(directory / "0")
    for number in range(8):
        files.map(directory / str(number))
        files.map(directory / "1")
    assert sum(copy.stat().st_size for copy in (tmp_path / "cache").iterdir()) <= 4000
    assert first.read() == b"0" * 1000
    files.replace(directory / "1", b"changed", sync=False)
    files.replace(directory / "0", b"changed", sync=False)
    assert files.map(directory / "1").read() == b"1" * 1000
    assert files.map(directory / "0").read() == b"changed"


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("data", "data"),
        ("/a:b/data", "/a:b/data"),
        ("file:///mnt/a%20b", "/mnt/a b"),
        ("s3://bucket/a/b", "s3:/bucket/a/b"),
        ("s3:/bucket/a/b", "s3:/bucket/a/b"),
    ],
)
def test_folders_as_they_are_named(text: str, directory: str) -> None:
    """A data directory is a path or a URI, and an object path has the URI that you passed."""
    assert parse_data_directory(text) == Path(directory)
    assert not text.startswith("s3://") or uri(Path(directory)) == text


@pytest.mark.parametrize(
    "text", ["hdfs://head/data", "gs://bucket/data", "s3a://bucket/data", "s3://", "file://host/a"]
)
def test_other_places_are_refused(text: str) -> None:
    """Other URI schemes are rejected with the supported ones."""
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"is not on a supported file system.* s3://BUCKET"
    ):
        parse_data_directory(text)


def _no_bucket(_: ObjectStore, patch: pytest.MonkeyPatch) -> Path:
    return Path("s3:/no-such-bucket/data")


def _no_server(store: ObjectStore, patch: pytest.MonkeyPatch) -> Path:
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{reserved_port()}")
    return store.data("data")


def _refused(store: ObjectStore, patch: pytest.MonkeyPatch) -> Path:
    patch.setenv("AWS_ENDPOINT_URL", _refusing_server())
    return store.data("data")


class _Refusing(BaseHTTPRequestHandler):
    """Responds as S3 does to an invalid secret."""

    def do_GET(self) -> None:
        content = b"<Error><Code>SignatureDoesNotMatch</Code><Message>No.</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _refusing_server() -> str:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "message"),
    [
        (_no_bucket, "the bucket 'no-such-bucket' does not exist. Create it"),
        (
            _no_server,
            rf"at http://127\.0\.0\.1:\d+ cannot be used for s3://{BUCKET}/data .*ENDPOINT_URL",
        ),
        (_refused, f"refuses access to s3://{BUCKET}/data. Check AWS_ACCESS_KEY_ID"),
    ],
)
def test_an_error_is_one_line(
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[ObjectStore, pytest.MonkeyPatch], Path],
    message: str,
) -> None:
    """A problem of the object store is reported in one line with a solution."""
    directory = place(object_store, monkeypatch)
    with pytest.raises(ObjectStoreFailed, match=message) as raised:
        FilesByPath().reach(directory)
    assert "\n" not in str(raised.value)
