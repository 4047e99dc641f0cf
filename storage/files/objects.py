"""Objects in buckets as files, with the S3 protocol.

The environment variables ``AWS_...`` set credentials, region and endpoint. A put is durable and
atomic, so neither syncs nor drafts are needed. A create is a put with ``If-None-Match: *``. If
several processes create an object, one put succeeds. A directory exists while an object name
starts with it. A mapped object is fetched once, into a cache on a local disk.
"""

import io
import time
import zlib
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from oriel.storage.files.cache import FileCache
from oriel.storage.files.contract import FileIdentity, Fill, ListedFile, WrittenFile
from oriel.storage.files.object_requests import ObjectRequests, object_not_found
from oriel.storage.files.paths import bucket_and_key, uri

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import S3Store

_CREATE_RETRY_SECONDS = 0.05
#: Concurrent parts of one upload. More would share the bandwidth, and one could time out.
_PARTS_AT_A_TIME = 4


class ObjectFiles:
    """``Files`` in buckets."""

    def __init__(self) -> None:
        self._requests = ObjectRequests()

    @cached_property
    def cache(self) -> FileCache:
        """Return the local copies of objects."""
        return FileCache()

    def reach(self, directory: Path) -> None:
        """See ``Files``. One list request checks endpoint, credentials and bucket."""
        import obstore  # noqa: PLC0415 - only where there are objects

        def list_first(store: "S3Store", key: str) -> None:
            next(iter(obstore.list(store, f"{key}/" if key else None, chunk_size=1)), None)

        self._requests.send("list", directory, list_first, is_first=True)

    def read(self, path: Path) -> bytes:
        import obstore  # noqa: PLC0415

        return self._requests.send(
            "read", path, lambda store, key: obstore.get(store, key).bytes().to_bytes()
        )

    def open(self, path: Path) -> "pa.NativeFile":
        """See ``Files``. Without a local copy, each read requests a range."""
        import pyarrow as pa  # noqa: PLC0415 - only processes that read tables have it in memory

        if (copy := self.cache.find(uri(path))) is not None:
            try:
                return pa.OSFile(str(copy))
            except FileNotFoundError:
                pass
        return pa.PythonFile(_RangesFile(self, path), mode="r")

    def map(self, path: Path) -> "pa.NativeFile":
        """See ``Files``. The local copy is mapped, and fetched first if it does not exist."""
        import obstore  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        if (copy := self.cache.find(uri(path))) is not None:
            try:
                return pa.memory_map(str(copy))
            except FileNotFoundError:
                pass
        with self.cache.draft() as draft:

            def fetch(store: "S3Store", key: str) -> None:
                with draft.open("wb") as file:
                    for part in obstore.get(store, key):
                        file.write(part)

            self._requests.send("read", path, fetch)
            mapped = pa.memory_map(str(draft))
            self.cache.keep(uri(path), draft)
        return mapped

    def exists(self, path: Path) -> bool:
        return self.identity(path) is not None

    def is_directory(self, path: Path) -> bool:
        import obstore  # noqa: PLC0415

        def list_first(store: "S3Store", key: str) -> bool:
            return next(iter(obstore.list(store, key or None, chunk_size=1)), None) is not None

        return self._requests.send("list", path, list_first)

    def identity(self, path: Path) -> FileIdentity | None:
        import obstore  # noqa: PLC0415

        try:
            meta = self._requests.send("read", path, obstore.head)
        except FileNotFoundError:
            return None
        modified_ns = int(meta["last_modified"].timestamp() * 1000) * 1_000_000
        return zlib.crc32((meta["e_tag"] or "").encode()), modified_ns, meta["size"]

    def names(self, directory: Path) -> list[str]:
        files, directories = self._listed(directory)
        return [*(file.name for file in files), *directories]

    def listed(self, directory: Path) -> list[ListedFile]:
        return self._listed(directory)[0]

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        """See ``Files``. A directory exists from its first object on."""

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:  # noqa: ARG002
        import obstore  # noqa: PLC0415

        def put(store: "S3Store", key: str) -> None:
            obstore.put(store, key, content, mode="create", use_multipart=False)

        while True:
            try:
                self._requests.send("create", path, put)
            except FileExistsError:
                try:
                    is_ours = self.read(path) == content
                except FileNotFoundError:
                    # Another process's put did not complete, or the object was deleted.
                    time.sleep(_CREATE_RETRY_SECONDS)
                    continue
                # If a response is lost, the client repeats the put. Each created content names
                # its creator, so equal content is from this process.
                if not is_ours:
                    raise
            return

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:  # noqa: ARG002
        import obstore  # noqa: PLC0415

        self._requests.send(
            "write", path, lambda store, key: obstore.put(store, key, content, use_multipart=False)
        )

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:  # noqa: ARG002
        """See ``Files``. The file is written locally, uploaded, and kept as the local copy."""
        import obstore  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        with self.cache.draft() as draft:
            with pa.OSFile(str(draft), "wb") as sink:
                fill(sink)
            self._requests.send(
                "write",
                path,
                lambda store, key: obstore.put(store, key, draft, max_concurrency=_PARTS_AT_A_TIME),
            )
            status = draft.stat()
            self.cache.keep(uri(path), draft)
        return WrittenFile(status.st_size, status.st_mtime_ns // 1_000_000)

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:  # noqa: ARG002
        """See ``Files``. The object store copies the object without a download."""
        import obstore  # noqa: PLC0415

        to = bucket_and_key(target)[1]
        self._requests.send("copy", source, lambda store, key: obstore.copy(store, key, to))

    def touch(self, path: Path) -> None:
        """See ``Files``. An object cannot be copied to itself, so a temporary name is used."""
        temporary = path.with_name(f"{path.name}.touched")
        self.copy(path, temporary, sync=False)
        self.copy(temporary, path, sync=False)
        self.delete(temporary)

    def delete(self, path: Path) -> None:
        import obstore  # noqa: PLC0415

        with suppress(FileNotFoundError):
            self._requests.send("delete", path, obstore.delete)
        self.cache.forget(uri(path))

    def delete_directory(self, directory: Path) -> None:
        import obstore  # noqa: PLC0415

        def delete(store: "S3Store", key: str) -> None:
            for objects in obstore.list(store, key):
                obstore.delete(store, [found["path"] for found in objects])

        self._requests.send("delete", directory, delete)

    def sync_file(self, path: Path) -> None:
        """See ``Files``. A put is already durable."""

    def sync_directory(self, directory: Path) -> None:
        """See ``Files``. The name of an object is durable with its put."""

    def read_range(self, path: Path, start: int, size: int) -> bytes:
        """Return the ``size`` bytes of a file from ``start``. The file must have them."""
        import obstore  # noqa: PLC0415

        return self._requests.send(
            "read",
            path,
            lambda store, key: obstore.get_range(store, key, start=start, length=size).to_bytes(),
        )

    def _listed(self, directory: Path) -> tuple[list[ListedFile], list[str]]:
        """Return the files in a directory, and the names of its subdirectories."""
        import obstore  # noqa: PLC0415

        found = self._requests.send(
            "list", directory, lambda store, key: obstore.list_with_delimiter(store, key or None)
        )
        files = [
            ListedFile(
                meta["path"].rpartition("/")[2],
                meta["size"],
                int(meta["last_modified"].timestamp() * 1000),
            )
            for meta in found["objects"]
        ]
        directories = [prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]]
        return files, directories


class _RangesFile(io.RawIOBase):
    """An object as a seekable file. Each read is a range request."""

    def __init__(self, files: ObjectFiles, path: Path) -> None:
        super().__init__()
        identity = files.identity(path)
        if identity is None:
            raise object_not_found(path)
        self._files, self._path, self._size = files, path, identity[2]
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        self._position = begins[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        count = left if size is None or size < 0 else min(size, left)
        if not count:
            return b""
        content = self._files.read_range(self._path, self._position, count)
        self._position += len(content)
        return content
