"""Define the reads of stores with versions of rows (KIP-960, KIP-968).

A version is valid from its own time until the next version or deletion. A time is ms since the
epoch, a datetime with a time zone, or ISO 8601 text. Bounds are inclusive, and None means an open
bound.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from oriel.client.paging import VersionPaging, column_names, one_item, paged, starting
from oriel.client.protocol import Address, Key, PagedRead, Read, Request
from oriel.client.records import Time, Version, time_text, version_of


def get_as_of(
    address: Address, key: Key, at: Time, *, columns: Sequence[str] | None = None
) -> Read[Version | None]:
    """Return the version of a key that was valid at a time.

    Args:
        key: the key, for example ``"tea"``, or a value of the store's key type.
        at: the time.
        columns: names of the columns to read. Default: all.

    Returns:
        The version, None if the key had no row at this time, or if the version is older than the
            history of the store.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> prices.get_as_of("tea", "2013-01-01T10:01Z")["price"]
        3
    """
    read = one_item(address, version_of, "rows", columns, "get", key)
    return replace(read, request=read.request.asking(at_ms=time_text(at)))


def versions(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[VersionPaging],
) -> PagedRead[Version]:
    """List the versions of a key that were valid within bounds, oldest first.

    Args:
        key: the key, for example ``"tea"``, or a value of the store's key type.
        time_from: list versions that were valid at this time or later. Default: no bound.
        time_to: list versions that were valid at this time or earlier. Default: no bound.
        **paging: the number of versions and their columns, as in `VersionPaging`.

    Returns:
        The versions.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [version["price"] for version in prices.versions("tea")]
        [3, 4]
    """
    return _paged(address, starting(address.request("versions", key), time_from, time_to), paging)


def backward_versions(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[VersionPaging],
) -> PagedRead[Version]:
    """List the versions of ``versions``, newest first.

    Args:
        key: the key, for example ``"tea"``, or a value of the store's key type.
        time_from: list versions that were valid at this time or later. Default: no bound.
        time_to: list versions that were valid at this time or earlier. Default: no bound.
        **paging: the number of versions and their columns, as in `VersionPaging`.

    Returns:
        The versions.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [version["price"] for version in prices.backward_versions("tea", limit=1)]
        [4]
    """
    request = starting(address.request("backwardVersions", key), time_from, time_to)
    return _paged(address, request, paging)


def _paged(address: Address, request: Request, paging: VersionPaging) -> PagedRead[Version]:
    request = request.asking(columns=column_names(paging.get("columns")))
    return paged(address, request, "rows", version_of, paging)
