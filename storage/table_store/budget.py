"""What one read of a table may cost: bytes that it holds, and time.

A table has no index, so what a read costs depends on how the rows lie. It must stay bounded
whatever is asked: the service answers others beside it.
"""

import time

from oriel.storage.errors import TableReadTimeout, TableReadTooLarge

#: Bytes of rows in Arrow's form that one read may hold at a time.
READ_BYTES_MAX = 128 << 20


class ReadBudget:
    """The budget of one read; ``seconds`` None: it may take any time."""

    def __init__(self, seconds: float | None = None, *, bytes_max: int = READ_BYTES_MAX) -> None:
        self.seconds = seconds
        self.bytes_max = bytes_max
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def check_time(self) -> None:
        """Go on only while there is time; called after each piece that was read.

        Raises:
            TableReadTimeout: the time is over.
        """
        if self._deadline is not None and time.monotonic() > self._deadline:
            message = (
                f"the table was not read within {self.seconds:g} s. Narrow the bounds, or request "
                "the newest version, which the index serves"
            )
            raise TableReadTimeout(message)

    def check_size(self, held_bytes: int) -> None:
        """Hold so much only if one read may.

        Raises:
            TableReadTooLarge: it may not.
        """
        if held_bytes > self.bytes_max:
            message = (
                f"the read needs more than {self.bytes_max >> 20} MiB of rows. Narrow its bounds "
                "or its limit"
            )
            raise TableReadTooLarge(message)
