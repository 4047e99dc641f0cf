"""The disk's errors inside those of Spark are found and told in one line."""

import errno
import os

import pytest
from pyspark.errors import PySparkException

from oriel.pipeline.disk_errors import disk_error_in, in_words

FREE = "Free space on the file system of "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Job aborted\n  File x.py, line 3\nOSError: [Errno 28] No space left on device\n more",
            f"the data directory: the disk is full (No space left on device). {FREE}",
        ),
        (
            "Job aborted\nOSError: [Errno 28] No space left on device: '/data/x/part-1'\n more",
            f"/data/x/part-1: the disk is full (No space left on device). {FREE}/data/x and",
        ),
        (
            "Query failed\njava.io.IOException: No space left on device SQLSTATE: XXKST\n\tat x\n",
            f"the data directory: the disk is full (No space left on device). {FREE}",
        ),
        (
            "java.nio.file.FileSystemException: /data/x: Read-only file system\n\tat x",
            "/data/x: the file system is read-only (Read-only file system). Make /data writable",
        ),
        (
            "Generic error\n   ↳ Unable to open /data/x: Permission denied (os error 13)\n",
            (
                "/data/x: access is denied (Permission denied). "
                f"Let user {os.geteuid()} read and write /data"
            ),
        ),
        (
            "java.io.IOException: Disk quota exceeded\n",
            "the data directory: the quota is used up (Disk quota exceeded). Free space or raise",
        ),
        (
            "OSError: [Errno 5] Input/output error: '/data/x'",
            "/data/x: the device fails (Input/output error). Check the device and the mount",
        ),
    ],
)
def test_the_disk_is_found_in_a_trace(text: str, told: str) -> None:
    """Wherever Spark puts it, and nothing else of the trace."""
    error = disk_error_in(PySparkException(text))
    assert error is not None
    assert str(error).startswith(told)
    assert str(error).endswith(" and start again. Nothing is lost")
    assert "\n" not in str(error)


def test_other_errors_are_not_the_disk() -> None:
    """They keep their own words."""
    assert disk_error_in(PySparkException("java.io.IOException: Connection reset")) is None


def test_an_error_of_a_file_names_it() -> None:
    """The path is in the line, so that one knows which disk."""
    told = str(in_words(OSError(errno.EACCES, "Permission denied", "/data/x")))
    assert told.startswith("/data/x: access is denied (Permission denied). ")


def test_an_error_that_is_not_known_is_shown_as_it_is() -> None:
    """With the general advice."""
    told = str(in_words(OSError(errno.ELOOP, "Too many levels of symbolic links", "/data/x")))
    assert "Too many levels of symbolic links: '/data/x'. Check the free space" in told


def test_the_end_of_java_is_not_the_disks() -> None:
    """What breaks then is a connection, which Python counts among the errors of the system."""
    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), ValueError("other")):
        assert in_words(error) is error


def test_a_drawn_error_is_one_line() -> None:
    """delta-rs tells causes in lines of their own, in colour."""
    drawn = "Generic error\n   \x1b[31m↳\x1b[0m /data/x: No space left on device (os error 28)"
    told = str(in_words(OSError(drawn)))
    assert told.startswith("/data/x: the disk is full (No space left on device). ")
