"""The disk's errors inside those of Spark are found and told in one line."""

import errno

import pytest
from pyspark.errors import PySparkException

from oriel.pipeline.run.disk_errors import disk_error_in, in_words


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Job aborted\n  File x.py, line 3\nOSError: [Errno 28] No space left on device\n more",
            "[Errno 28] No space left on device",
        ),
        (
            "Query failed\njava.io.IOException: No space left on device SQLSTATE: XXKST\n\tat x\n",
            "java.io.IOException: No space left on device",
        ),
        (
            "java.nio.file.FileSystemException: /data/x: Read-only file system\n\tat x",
            "java.nio.file.FileSystemException: /data/x: Read-only file system",
        ),
    ],
)
def test_the_disk_is_found_in_a_trace(text: str, told: str) -> None:
    """Wherever Spark puts it, and nothing else of the trace."""
    error = disk_error_in(PySparkException(text))
    assert error is not None
    assert f"written: {told}. Nothing is lost" in str(error)
    assert "\n" not in str(error)


def test_other_errors_are_not_the_disk() -> None:
    """They keep their own words."""
    assert disk_error_in(PySparkException("java.io.IOException: Connection reset")) is None


def test_an_error_of_a_file_names_it() -> None:
    """The path is in the line, so that one knows which disk."""
    told = str(in_words(OSError(errno.EACCES, "Permission denied", "/data/x")))
    assert "Permission denied: '/data/x'" in told


def test_the_end_of_java_is_not_the_disks() -> None:
    """What breaks then is a connection, which Python counts among the errors of the system."""
    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), ValueError("other")):
        assert in_words(error) is error


def test_a_drawn_error_is_one_line() -> None:
    """delta-rs tells causes in lines of their own, in colour."""
    drawn = "Generic error\n   \x1b[31m↳\x1b[0m No space left on device (os error 28)"
    told = str(in_words(OSError(drawn)))
    assert "written: Generic error No space left on device (os error 28). Nothing" in told
