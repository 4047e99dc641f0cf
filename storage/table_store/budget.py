"""The limits of one read of a table: bytes in memory, and time.

A table has no index, so the cost of a read depends on the layout of the rows. The limits protect
the other requests of the service.
"""

import time

from oriel.storage.errors import TableReadTimeout, TableReadTooLarge

#: Bytes of Arrow data that one read can hold at a time.
READ_BYTES_MAX = 128 << 20


class ReadBudget:
    """The budget of one read. Without ``seconds``, its time is not limited."""

    def __init__(self, seconds: float | None = None, *, bytes_max: int = READ_BYTES_MAX) -> None:
        self.seconds = seconds
        self.bytes_max = bytes_max
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def check_time(self) -> None:
        """Check the time limit. Call this for each piece of a read.

        Raises:
            TableReadTimeout: The time is over.
        """
        if self._deadline is not None and time.monotonic() > self._deadline:
            message = (
                f"the table was not read within {self.seconds:g} s. Narrow the bounds, or request "
                "the newest version, which the index serves"
            )
            raise TableReadTimeout(message)

    def check_size(self, held_bytes: int) -> None:
        """Check the size limit.

        Raises:
            TableReadTooLarge: One read must not hold this many bytes.
        """
        if held_bytes > self.bytes_max:
            message = (
                f"the read needs more than {self.bytes_max >> 20} MiB of rows. Narrow its bounds "
                "or its limit"
            )
            raise TableReadTooLarge(message)
