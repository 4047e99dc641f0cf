"""Define the reads of stores without windows.

The bounds of keys are inclusive, and None means an open bound.
"""

from collections.abc import Sequence
from typing import Unpack

from oriel.client.paging import RowPaging, Selection, items_of_keys, one_item, rows
from oriel.client.protocol import Address, Key, PagedRead, Read
from oriel.client.records import Row, row_of


def get(address: Address, key: Key, *, columns: Sequence[str] | None = None) -> Read[Row | None]:
    """Return the row of a key.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The row, None if the key has no row.

    Example:
        >>> totals.get("EWR")["departures"]
        1201
    """
    return one_item(address, row_of, "rows", columns, "get", key)


def get_of_keys(
    address: Address, keys: Sequence[Key], **selection: Unpack[Selection]
) -> PagedRead[Row]:
    """Return the row of each listed key.

    Args:
        keys: the keys, in the order of the result.
        **selection: which items and fields, as in `Selection`.

    Returns:
        The rows. A key without a row is left out.

    Example:
        >>> [row["departures"] for row in totals.get_of_keys(["LGA", "EWR"])]
        [640, 1201]
    """
    return items_of_keys(address, "getOfKeys", keys, "rows", row_of, selection)


def approximate_num_entries(address: Address) -> Read[int]:
    """Return the number of rows.

    The name is Kafka's. In Oriel, the number is exact.

    Returns:
        The number of rows.

    Example:
        >>> totals.approximate_num_entries()
        3
    """
    request = address.request("approximateNumEntries")
    return Read(request, lambda response: int(response.json["count"]), address.wait_s)


def range_of_keys(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """List the rows of a key range.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        **paging: the number of rows and which, as in `RowPaging`.

    Returns:
        The rows, by key.

    Example:
        >>> [row.key for row in totals.range("F", "L")]
        ['JFK']
    """
    request = address.request("range").asking(key_from=key_from, key_to=key_to)
    return rows(address, request, paging)


def reverse_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """List the rows of ``range`` in reverse order.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        **paging: the number of rows and which, as in `RowPaging`.

    Returns:
        The rows, in exactly the reverse order.

    Example:
        >>> [row.key for row in totals.reverse_range("E")]
        ['LGA', 'JFK', 'EWR']
    """
    request = address.request("reverseRange").asking(key_from=key_from, key_to=key_to)
    return rows(address, request, paging)


def prefix_scan(address: Address, prefix: str, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """List the rows of keys with a prefix.

    Args:
        prefix: the beginning of the keys.
        **paging: the number of rows and which, as in `RowPaging`.

    Returns:
        The rows, by key.

    Example:
        >>> [row.key for row in totals.prefix_scan("E")]
        ['EWR']
    """
    return rows(address, address.request("prefixScan").asking(prefix=prefix), paging)


def all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """List all rows.

    Args:
        **paging: the number of rows and which, as in `RowPaging`.

    Returns:
        The rows, by key.

    Example:
        >>> [row["departures"] for row in totals.all()]
        [1201, 988, 640]
    """
    return rows(address, address.request("all"), paging)


def reverse_all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """List all rows in reverse order.

    Args:
        **paging: the number of rows and which, as in `RowPaging`.

    Returns:
        The rows, in exactly the reverse order of ``all``.

    Example:
        >>> [row.key for row in totals.reverse_all(limit=2)]
        ['LGA', 'JFK']
    """
    return rows(address, address.request("reverseAll"), paging)
