"""Objects of buckets as files, by the protocol of S3.

Credentials, region and endpoint come from the usual variables of the environment (``AWS_...``).
A put is durable and seen whole, so there is nothing to sync and no draft; a create is a put with
``If-None-Match: *``, of which one succeeds. There are no folders: one is there as long as a name
begins with it. What is mapped is fetched once, into a cache on a disk of this machine.
"""

import io
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from oriel.storage.errors import ObjectStoreFailed
from oriel.storage.files.cache import FileCache
from oriel.storage.files.contract import Fill, ListedFile, Stamp, WrittenFile
from oriel.storage.files.places import bucket_and_key, uri

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import S3Store

#: How long a request is tried again while the store does not answer or is too busy.
_RETRY = timedelta(seconds=60)
#: The same for the first look at a bucket, which a person waits for.
_FIRST_RETRY = timedelta(seconds=5)
#: How long one may take, with a segment of gigabytes as its answer.
_TIMEOUT = timedelta(minutes=5)
_AGAIN_SECONDS = 0.05
_NO_BUCKET = "NoSuchBucket"
#: The client has errors of their own for these, but not of listings.
_REFUSED = re.compile(r"status code: (?:401|403)\b")


class ObjectFiles:
    """``Files`` of buckets."""

    def __init__(self) -> None:
        """Nothing is asked before the first file."""
        self._stores: dict[tuple[str, timedelta], S3Store] = {}

    @cached_property
    def cache(self) -> FileCache:
        """The copies on this machine."""
        return FileCache()

    def reach(self, folder: Path) -> None:
        """See ``Files``: one listing tells endpoint, credentials and bucket."""
        import obstore  # noqa: PLC0415 - only where there are objects

        store, key = self._at(folder, retry=_FIRST_RETRY)
        with _told(folder):
            next(iter(obstore.list(store, f"{key}/" if key else None, chunk_size=1)), None)

    def read(self, path: Path) -> bytes:
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        with _told(path):
            return obstore.get(*self._at(path)).bytes().to_bytes()

    def open(self, path: Path) -> "pa.NativeFile":
        """See ``Files``: parts of it are asked for as they are read, unless there is a copy."""
        import pyarrow as pa  # noqa: PLC0415 - only processes that read tables have it in memory

        if (copy := self.cache.find(uri(path))) is not None:
            try:
                return pa.OSFile(str(copy))
            except FileNotFoundError:
                pass
        return pa.PythonFile(_RangesFile(self, path), mode="r")

    def map(self, path: Path) -> "pa.NativeFile":
        """See ``Files``: of a copy, which is made if there is none."""
        import obstore  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        if (copy := self.cache.find(uri(path))) is not None:
            try:
                return pa.memory_map(str(copy))
            except FileNotFoundError:
                pass
        with self.cache.draft() as draft:
            with draft.open("wb") as file, _told(path):
                for part in obstore.get(*self._at(path)):
                    file.write(part)
            mapped = pa.memory_map(str(draft))
            self.cache.keep(uri(path), draft)
        return mapped

    def exists(self, path: Path) -> bool:
        """See ``Files``."""
        return self.stamp(path) is not None

    def is_folder(self, path: Path) -> bool:
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        store, key = self._at(path)
        with _told(path):
            return next(iter(obstore.list(store, key or None, chunk_size=1)), None) is not None

    def stamp(self, path: Path) -> Stamp | None:
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        try:
            with _told(path):
                meta = obstore.head(*self._at(path))
        except FileNotFoundError:
            return None
        modified_ns = int(meta["last_modified"].timestamp() * 1000) * 1_000_000
        return zlib.crc32((meta["e_tag"] or "").encode()), modified_ns, meta["size"]

    def names(self, folder: Path) -> list[str]:
        """See ``Files``."""
        files, folders = self._listed(folder)
        return [*(file.name for file in files), *folders]

    def listed(self, folder: Path) -> list[ListedFile]:
        """See ``Files``."""
        return self._listed(folder)[0]

    def make_folder(self, folder: Path, *, sync: bool) -> None:
        """See ``Files``: it is there with its first file."""

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:  # noqa: ARG002
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        while True:
            try:
                with _told(path):
                    obstore.put(*self._at(path), content, mode="create", use_multipart=False)
            except FileExistsError:
                try:
                    is_ours = self.read(path) == content
                except FileNotFoundError:
                    # Somebody was about to write it, too, and has not; or it was deleted.
                    time.sleep(_AGAIN_SECONDS)
                    continue
                # An answer may be lost, and the client then puts once more: each content that is
                # created names who made it, so this one is ours.
                if not is_ours:
                    raise
            return

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:  # noqa: ARG002
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        with _told(path):
            obstore.put(*self._at(path), content, use_multipart=False)

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:  # noqa: ARG002
        """See ``Files``: it is made on this machine, which keeps its copy."""
        import obstore  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        with self.cache.draft() as draft:
            with pa.OSFile(str(draft), "wb") as sink:
                fill(sink)
            with _told(path):
                obstore.put(*self._at(path), draft)
            status = draft.stat()
            self.cache.keep(uri(path), draft)
        return WrittenFile(status.st_size, status.st_mtime_ns // 1_000_000)

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:  # noqa: ARG002
        """See ``Files``: the store does it by itself."""
        import obstore  # noqa: PLC0415

        store, key = self._at(source)
        with _told(source):
            obstore.copy(store, key, bucket_and_key(target)[1])

    def touch(self, path: Path) -> None:
        """See ``Files``: no object may be copied to itself, so by way of another name."""
        aside = path.with_name(f"{path.name}.touched")
        self.copy(path, aside, sync=False)
        self.copy(aside, path, sync=False)
        self.delete(aside)

    def delete(self, path: Path) -> None:
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        try:
            with _told(path):
                obstore.delete(*self._at(path))
        except FileNotFoundError:
            pass
        self.cache.forget(uri(path))

    def delete_folder(self, folder: Path) -> None:
        """See ``Files``."""
        import obstore  # noqa: PLC0415

        store, key = self._at(folder)
        with _told(folder):
            for objects in obstore.list(store, key):
                obstore.delete(store, [found["path"] for found in objects])

    def sync_file(self, path: Path) -> None:
        """See ``Files``: a put is on disk."""

    def sync_folder(self, folder: Path) -> None:
        """See ``Files``: a name is there with its object."""

    def read_range(self, path: Path, start: int, size: int) -> bytes:
        """``size`` bytes of a file from ``start`` on, which it has."""
        import obstore  # noqa: PLC0415

        store, key = self._at(path)
        with _told(path):
            return obstore.get_range(store, key, start=start, length=size).to_bytes()

    def _listed(self, folder: Path) -> tuple[list[ListedFile], list[str]]:
        """The files in a folder, and the names of the folders in it."""
        import obstore  # noqa: PLC0415

        store, key = self._at(folder)
        with _told(folder):
            found = obstore.list_with_delimiter(store, key or None)
        files = [
            ListedFile(
                meta["path"].rpartition("/")[2],
                meta["size"],
                int(meta["last_modified"].timestamp() * 1000),
            )
            for meta in found["objects"]
        ]
        folders = [prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"]]
        return files, folders

    def _at(self, path: Path, *, retry: timedelta = _RETRY) -> tuple["S3Store", str]:
        """The store of a path's bucket, and its key there."""
        from obstore.store import S3Store  # noqa: PLC0415

        bucket, key = bucket_and_key(path)
        store = self._stores.get((bucket, retry))
        if store is None:
            store = S3Store(
                bucket,
                client_options={
                    "timeout": _TIMEOUT,
                    "connect_timeout": _FIRST_RETRY,
                    # Options that are given here replace those of the environment.
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"},
                },
                retry_config={"max_retries": 10, "retry_timeout": retry},
            )
            self._stores[bucket, retry] = store
        return store, key


class _RangesFile(io.RawIOBase):
    """An object that is read in any order; each read is a request."""

    def __init__(self, files: ObjectFiles, path: Path) -> None:
        super().__init__()
        stamp = files.stamp(path)
        if stamp is None:
            raise _not_there(path)
        self._files, self._path, self._size = files, path, stamp[2]
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


def _not_there(path: Path) -> FileNotFoundError:
    return FileNotFoundError(2, "there is no such object", uri(path))


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of the client as those of ``Files``, in one line that says what to do."""
    from obstore import exceptions  # noqa: PLC0415

    try:
        yield
    except FileNotFoundError as error:
        if _NO_BUCKET in str(error):
            message = f"there is no bucket {bucket_and_key(path)[0]!r}: make it, or name another"
            raise ObjectStoreFailed(message) from error
        raise _not_there(path) from error
    except exceptions.AlreadyExistsError as error:
        raise FileExistsError(17, "the object is there already", uri(path)) from error
    except exceptions.BaseError as error:
        raise _failed(path, error) from error


def _failed(path: Path, error: Exception) -> ObjectStoreFailed:
    """What is wrong with the object store, as far as its answer says it."""
    text = str(error)
    bucket = bucket_and_key(path)[0]
    if _NO_BUCKET in text:
        return ObjectStoreFailed(f"there is no bucket {bucket!r}: make it, or name another")
    if _REFUSED.search(text.partition("\n")[0]):
        return ObjectStoreFailed(
            f"the object store refuses access to {uri(path)}: see to AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION, and to the rights of their owner"
        )
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "AWS")
    return ObjectStoreFailed(
        f"the object store at {endpoint} can't be used for {uri(path)} "
        f"({text.partition(chr(10))[0][:200]}): see to AWS_ENDPOINT_URL, AWS_ALLOW_HTTP (for http) "
        "and the network, and start again; nothing is lost"
    )
