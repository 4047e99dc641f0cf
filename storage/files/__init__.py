"""The one interface for file operations that must be atomic or durable.

All code that writes state, tables or the index uses ``Files``:

    LocalFiles          uses a file system that this process sees
    ObjectFiles         uses buckets
    FilesByPath         chooses by the path: a path that begins with s3: is an object

``oriel.testing`` has wrappers for tests, also for tests of your project. They count operations
(``CountingFiles``), fail some (``FailingFiles``), or lose unsynced data as a power loss does
(``ForgettingFiles``). Activate an implementation for a ``with`` block with ``use_files``.

The storage must have three properties. If several processes create a file at the same time, one
succeeds. A reader of a replaced file sees the old or the new content, never a part. After a power
loss, a file exists with its content if the file and then its directory were synced.
"""

from oriel.storage.files.by_path import FilesByPath
from oriel.storage.files.cache import RUN as CACHE_RUN
from oriel.storage.files.cache import SETTINGS as CACHE_SETTINGS
from oriel.storage.files.contract import FileIdentity, Files, Fill, ListedFile, WrittenFile
from oriel.storage.files.current import (
    create_file,
    current_files,
    replace_file,
    sync_directories,
    sync_directory,
    sync_file,
    use_files,
)
from oriel.storage.files.digests import digest, file_digest, with_digest, without_digest
from oriel.storage.files.local import LocalFiles
from oriel.storage.files.object_requests import waiting_for
from oriel.storage.files.objects import ObjectFiles
from oriel.storage.files.paths import absolute, is_object, parse_data_directory, uri
from oriel.storage.files.problems import add_filename_to_errors, disk_problem

__all__ = [
    "CACHE_RUN",
    "CACHE_SETTINGS",
    "FileIdentity",
    "Files",
    "FilesByPath",
    "Fill",
    "ListedFile",
    "LocalFiles",
    "ObjectFiles",
    "WrittenFile",
    "absolute",
    "add_filename_to_errors",
    "create_file",
    "current_files",
    "digest",
    "disk_problem",
    "file_digest",
    "is_object",
    "parse_data_directory",
    "replace_file",
    "sync_directories",
    "sync_directory",
    "sync_file",
    "uri",
    "use_files",
    "waiting_for",
    "with_digest",
    "without_digest",
]
