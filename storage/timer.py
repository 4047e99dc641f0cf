"""The time since an event, for example since the last health check of a store."""

import time

#: A monotonic time before all others.
NEVER = float("-inf")


class Timer:
    """Measures monotonic seconds since its last restart."""

    def __init__(self, at: float | None = None) -> None:
        """Start the timer at a monotonic time in seconds. None: now."""
        self._at = time.monotonic() if at is None else at

    def restart(self) -> None:
        """Measure from now on."""
        self._at = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the last restart."""
        return time.monotonic() - self._at
