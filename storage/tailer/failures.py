"""Failures of one store that repeat: told once each, tried again after pauses that grow."""

#: Seconds until a step that failed is tried again: at first, and at most.
_RETRY_SECONDS = 1.0
_RETRY_SECONDS_MAX = 30.0


class Failures:
    """What failed since the store was last followed without a problem."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self._told: set[str] = set()
        self._last: str | None = None
        self._pause_seconds = 0.0

    def is_news(self, text: str) -> bool:
        """Whether this is yet to be told; asking tells it."""
        is_news = text not in self._told
        self._told.add(text)
        return is_news

    def pause_seconds(self, problem: str) -> float:
        """How long to wait after this problem: twice as long each time that it comes again."""
        repeats = problem == self._last
        doubled = min(2 * self._pause_seconds, _RETRY_SECONDS_MAX)
        self._pause_seconds = doubled if repeats else _RETRY_SECONDS
        self._last = problem
        return self._pause_seconds

    def over(self) -> None:
        """The store is followed again: whatever fails next is a new story."""
        self._told.clear()
        self._last = None
