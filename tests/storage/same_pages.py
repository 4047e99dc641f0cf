"""Compare the pages of two stores."""

from typing import Any

from oriel.storage import ScanRange, SessionRange, WindowRange
from oriel.storage.contracts import UNBOUNDED


def assert_same_pages(
    store: Any, model: Any, read: str, read_range: WindowRange | SessionRange | ScanRange
) -> None:
    """Check that each page has the next windows of the model, up to one of its bounds.

    The model does not limit how many records a page reads. A page that ends at this limit can have
    fewer windows, or none.
    """
    expected: list[bytes] = []
    after = None
    while True:
        page, after, _ = getattr(model, read)(read_range._replace(after=after))
        expected += page
        if after is None:
            break
    found: list[bytes] = []
    after = None
    while True:
        page, after, _ = getattr(store, read)(read_range._replace(after=after))
        found += page
        before_last = sum(map(len, page[:-1]))
        assert len(page) <= read_range.limit
        assert before_last < read_range.bytes_max
        if after is None:
            break
        is_full = len(page) == read_range.limit or sum(map(len, page)) >= read_range.bytes_max
        assert is_full or read_range.records_max < UNBOUNDED
    assert found == expected, read
