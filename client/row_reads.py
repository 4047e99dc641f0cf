"""Reads of stores without windows. Bounds of keys are inclusive, and None is no bound."""

from collections.abc import Sequence
from typing import Unpack

from oriel.client.paging import RowPaging, items_of_keys, one_item, rows
from oriel.client.protocol import Address, Key, PagedRead, Read
from oriel.client.records import Row, row_of


def get(address: Address, key: Key, *, columns: Sequence[str] | None = None) -> Read[Row | None]:
    """The row of a key, or None."""
    return one_item(address, row_of, "rows", columns, "get", key)


def get_of_keys(
    address: Address, keys: Sequence[Key], *, columns: Sequence[str] | None = None
) -> PagedRead[Row]:
    """``get`` of each of these keys, in their order; a key without a row has none."""
    return items_of_keys(address, "getOfKeys", keys, "rows", row_of, columns)


def approximate_num_entries(address: Address) -> Read[int]:
    """The number of rows; Kafka's name, here it is exact."""
    request = address.request("approximateNumEntries")
    return Read(request, lambda answer: int(answer.json["count"]), address.wait_s)


def range_of_keys(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """Rows of a range of keys, by key."""
    request = address.request("range").asking(key_from=key_from, key_to=key_to)
    return rows(address, request, paging)


def reverse_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """Rows of ``range`` in exactly the reverse order."""
    request = address.request("reverseRange").asking(key_from=key_from, key_to=key_to)
    return rows(address, request, paging)


def prefix_scan(address: Address, prefix: str, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """Rows of the keys that begin with ``prefix``, by key."""
    return rows(address, address.request("prefixScan").asking(prefix=prefix), paging)


def all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """All rows, by key."""
    return rows(address, address.request("all"), paging)


def reverse_all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """All rows in exactly the reverse order of ``all``."""
    return rows(address, address.request("reverseAll"), paging)
