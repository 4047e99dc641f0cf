"""Reads of a store with versions in the test driver (KIP-889, KIP-960, KIP-968)."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import pairwise

from oriel.pipeline.testing.rows import KeyValue, VersionedValue, WindowedValue
from oriel.pipeline.testing.store_reads import checked_time
from oriel.pipeline.testing.stores import DriverKeyValueStore

_LATEST_MS = 2**63 - 1


class DriverVersionedStore(DriverKeyValueStore):
    """Reads a versioned table with its versions. Other reads return the newest versions.

    Get it from ``TopologyTestDriver.versioned_store``. A version is valid from its own time until
    the next version or deletion.

    Example:
        >>> fees = builder.versioned_table("fees", "fee DOUBLE", history_retention_ms=3_600_000)
        >>> _ = fees.materialize("fees", versions=True)
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("fees", [Record("UA", {"fee": 1.5}, 10), Record("UA", None, 20)])
        >>> store = driver.versioned_store("fees")
        >>> store.get_as_of("UA", 15).value
        {'fee': 1.5}
        >>> [(version.valid_from_ms, version.valid_to_ms) for version in store.versions("UA")]
        [(10, 20)]
        >>> store.get("UA") is None
        True
    """

    def get_as_of(self, key: str, at_ms: int) -> VersionedValue | None:
        """Read the version of a key that was valid at a time.

        Args:
            key: The key as a string.
            at_ms: The time in milliseconds.

        Returns:
            The version, or None if the key had no row at this time, or if the version is older than
            the history.

        Raises:
            IllegalArgumentType: the key is not a string, or the time is not an integer.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        return next(iter(self.versions(key, at_ms, at_ms)), None)

    def versions(
        self, key: str, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[VersionedValue]:
        """Read the versions of a key that were valid in a range of time.

        Args:
            key: The key as a string.
            from_ms: The first time in milliseconds, inclusive. Default: no bound.
            to_ms: The last time in milliseconds, inclusive. Default: no bound.

        Returns:
            The versions, oldest first.

        Raises:
            IllegalArgumentType: the key is not a string, or a time is not an integer.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        key = self._checked_key(key)
        least = 0 if from_ms is None else checked_time("from_ms", from_ms)
        greatest = _LATEST_MS if to_ms is None else checked_time("to_ms", to_ms)
        rows: list[WindowedValue | None] = [*self._versions_of(key), None]
        return [
            VersionedValue(
                key, deepcopy(row.value), row.timestamp_ms, row.window_start_ms,
                None if following is None else following.window_start_ms,
            )
            for row, following in pairwise(rows)
            if row is not None and _is_row(row)
            and least <= greatest and row.window_start_ms <= greatest
            and (following is None or following.window_start_ms > least)
        ]  # fmt: skip

    def backward_versions(
        self, key: str, from_ms: int | None = None, to_ms: int | None = None
    ) -> list[VersionedValue]:
        """Read the versions of ``versions`` in the reverse order.

        Args:
            key: The key as a string.
            from_ms: The first time in milliseconds, inclusive. Default: no bound.
            to_ms: The last time in milliseconds, inclusive. Default: no bound.

        Returns:
            The versions, newest first.

        Raises:
            IllegalArgumentType: the key is not a string, or a time is not an integer.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        return self.versions(key, from_ms, to_ms)[::-1]

    def _keys(self, key_from: str | None, key_to: str | None) -> list[str]:
        keys = super()._keys(key_from, key_to)
        return [key for key in keys if _is_row(self._versions_of(key)[-1])]

    def _entries(self, keys: Iterable[str]) -> Iterator[KeyValue]:
        for key in keys:
            for row in self._versions_of(key)[-1:]:
                if _is_row(row):
                    yield KeyValue(row.key, deepcopy(row.value), row.timestamp_ms)

    def _versions_of(self, key: str) -> list[WindowedValue]:
        """Return the versions of a key and its tombstones, oldest first."""
        return sorted(self._rows.of_key(key), key=lambda row: row.window_start_ms)


def _is_row(version: WindowedValue) -> bool:
    """Return True if a version is not a tombstone."""
    return version.window_end_ms > version.window_start_ms
