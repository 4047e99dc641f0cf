"""Files that record operations, fail, or lose unsynced data."""

import errno
from pathlib import Path
from typing import assert_type

from oriel.storage.files import Files, use_files
from oriel.testing import CountingFiles, FailingFiles, ForgettingFiles, HookedFiles


def wrappers(path: Path) -> None:
    """Each wrapper has the contract of files."""
    hooked = HookedFiles(lambda *_: None)
    assert_type(hooked, HookedFiles)
    assert_type(hooked.before("read", path), None)
    assert_type(hooked.inner, Files)
    counting = CountingFiles()
    assert_type(counting, CountingFiles)
    assert_type(counting.before("read", path), None)
    assert_type(counting.operations, list[tuple[str, Path]])
    assert_type(counting.counts["read"], int)
    failing = FailingFiles(7, errno.ENOSPC, when="half", first=3, inner=hooked)
    assert_type(failing, FailingFiles)
    assert_type(failing.failed, int)
    forgetting = ForgettingFiles()
    assert_type(forgetting, ForgettingFiles)
    assert_type(forgetting.lose_power("cut"), list[Path])
    with use_files(failing) as files:
        assert_type(files, Files)
