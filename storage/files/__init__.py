"""File effects that decide something or must survive a power loss: one narrow interface.

Whoever writes state, tables or the index says here what is to be read, created, replaced, deleted
or forced to disk (``Files``). ``LocalFiles`` does it on a file system that this process sees,
``ObjectFiles`` in buckets, and ``FilesByPlace`` goes by the path: one that begins with ``s3:`` is
an object's (``places``). Three other forms wrap one of them and are there for tests, yours too:
``CountingFiles`` counts, ``FailingFiles`` fails now and then, ``ForgettingFiles`` drops what was
not synced, as a power loss does. ``use_files`` puts one in place for a while.

Assumptions about what lies behind: a file is created by one of those who try at once, a replaced
file is seen old or new but never in part, and what was synced (file, then its folder) is there
after a power loss.
"""

from oriel.storage.files.by_place import FilesByPlace
from oriel.storage.files.cache import RUN as CACHE_RUN
from oriel.storage.files.cache import SETTINGS as CACHE_SETTINGS
from oriel.storage.files.contract import Files, ListedFile, Stamp, WrittenFile
from oriel.storage.files.current import (
    create_file,
    current_files,
    replace_file,
    sync_file,
    sync_folder,
    sync_folders,
    use_files,
)
from oriel.storage.files.digests import digest, file_digest, with_digest, without_digest
from oriel.storage.files.faults import (
    CountingFiles,
    FailingFiles,
    ForgettingFiles,
    HookedFiles,
)
from oriel.storage.files.local import LocalFiles
from oriel.storage.files.object_requests import waiting_for
from oriel.storage.files.objects import ObjectFiles
from oriel.storage.files.places import absolute, data_folder, is_object, uri
from oriel.storage.files.problems import disk_problem, names_file

__all__ = [
    "CACHE_RUN",
    "CACHE_SETTINGS",
    "CountingFiles",
    "FailingFiles",
    "Files",
    "FilesByPlace",
    "ForgettingFiles",
    "HookedFiles",
    "ListedFile",
    "LocalFiles",
    "ObjectFiles",
    "Stamp",
    "WrittenFile",
    "absolute",
    "create_file",
    "current_files",
    "data_folder",
    "digest",
    "disk_problem",
    "file_digest",
    "is_object",
    "names_file",
    "replace_file",
    "sync_file",
    "sync_folder",
    "sync_folders",
    "uri",
    "use_files",
    "waiting_for",
    "with_digest",
    "without_digest",
]
