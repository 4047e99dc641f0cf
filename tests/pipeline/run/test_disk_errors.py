"""Disk errors inside Spark's errors are found and reported in one line."""

import errno
import os

import pytest
from pyspark.errors import PySparkException

from oriel.pipeline.disk_errors import find_disk_error, user_error

FREE = "Free space on the file system of "


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_the_disk_is_found_in_a_trace(text: str, message: str) -> None:
    """The disk error is found at any place in a trace, without the rest of the trace."""
    error = find_disk_error(PySparkException(text))
    assert error is not None
    assert str(error).startswith(message)
    assert str(error).endswith(" and start again. Nothing is lost")
    assert "\n" not in str(error)


def test_other_errors_are_not_the_disk() -> None:
    """Other errors keep their own text."""
    assert find_disk_error(PySparkException("java.io.IOException: Connection reset")) is None


def test_an_error_of_a_file_names_it() -> None:
    """The line has the path, so you can see which disk it is."""
    message = str(user_error(OSError(errno.EACCES, "Permission denied", "/data/x")))
    assert message.startswith("/data/x: access is denied (Permission denied). ")


def test_an_error_that_is_not_known_is_shown_as_it_is() -> None:
    """The message has the original text and general advice."""
    message = str(user_error(OSError(errno.ELOOP, "Too many levels of symbolic links", "/data/x")))
    assert "Too many levels of symbolic links: '/data/x'. Check the free space" in message


def test_the_end_of_java_is_not_the_disks() -> None:
    """If Java ends, a connection breaks, which Python also reports as an OSError."""
    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), ValueError("other")):
        assert user_error(error) is error


def test_a_drawn_error_is_one_line() -> None:
    """delta-rs prints each cause on its own line, in color."""
    drawn = "Generic error\n   \x1b[31m↳\x1b[0m /data/x: No space left on device (os error 28)"
    message = str(user_error(OSError(drawn)))
    assert message.startswith("/data/x: the disk is full (No space left on device). ")
