"""What a window store answers: Kafka Streams' ``ReadOnlyWindowStore`` in Python.

Every implementation (the index, the model in the tests) passes one conformance suite,
``tests/storage/window_store_conformance.py``. The words here are those of the API document.

Bounds are on the window *start* and inclusive at both ends::

    windows of a key, by start:     10    20    30    40    50
    fetch(20, 40)                          20 -> 30 -> 40            oldest first
    backward_fetch(20, 40)                 40 -> 30 -> 20            newest first
    latest()                                                  50
    fetch_window(30)                             30

A window expired by retention is in no answer, whether or not its bytes are still there:
visible are those with ``window_start_ms >= earliest_start_ms`` (semantics 7).
"""

from typing import NamedTuple, Protocol

#: Window starts are signed 64 bit; this is later than every window.
LATEST_MS = 2**63 - 1


class WindowId(NamedTuple):
    """Start and end of a window, the place where a page ended."""

    start_ms: int
    end_ms: int


class WindowRange(NamedTuple):
    """Which windows of one key to read.

    ``from_ms`` and ``to_ms`` are window starts, both inclusive: ``from_ms`` below 0 is read
    as 0, ``to_ms < from_ms`` is empty, as in Kafka Streams. ``limit`` is the most windows of
    the page. ``after`` (exclusive) is the last window of the page before, in reading order.
    """

    key: str
    from_ms: int = 0
    to_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None


class WindowPage(NamedTuple):
    """Windows as finished JSON, in reading order.

    ``next_after`` is where the next page goes on, None when there is none.
    """

    windows: list[bytes]
    next_after: WindowId | None


class KeyPage(NamedTuple):
    """Keys that have a visible window, in order of their UTF-8 bytes.

    ``next_after`` is the last key when there may be more, else None.
    """

    keys: list[str]
    next_after: str | None


class ReadOnlyWindowStore(Protocol):
    """One consistent view of a window store: all answers are from the same table version."""

    @property
    def earliest_start_ms(self) -> int:
        """The least window start that retention leaves visible."""

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """Read the window of ``key`` that starts exactly then.

        Returns:
            The window as JSON, or None when there is none (negative and unknown starts too).
        """

    def fetch(self, wanted: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, oldest first.

        Returns:
            The page; empty for an unknown key.
        """

    def backward_fetch(self, wanted: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, newest first (KIP-617).

        Returns:
            The page; empty for an unknown key.
        """

    def latest(self, key: str) -> bytes | None:
        """Read the window of ``key`` with the greatest start, None when the key has none."""

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """List keys that begin with ``prefix``, in order of their UTF-8 bytes.

        ``after`` (exclusive) is the last key of the page before. Keys of more than 459 bytes
        are ordered by their first 459 bytes only.
        """
