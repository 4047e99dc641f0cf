"""That two stores give the same pages."""

from typing import Any

from oriel.storage import ScanRange, SessionRange, WindowRange
from oriel.storage.contracts import UNBOUNDED


def assert_same_pages(
    store: Any, model: Any, read: str, read_range: WindowRange | SessionRange | ScanRange
) -> None:
    """Each page has what the model says that comes next, up to one of its bounds.

    The model knows nothing of looks: a page that they end may have fewer windows, even none.
    """
    expected: list[bytes] = []
    after = None
    while True:
        page, after = getattr(model, read)(read_range._replace(after=after))
        expected += page
        if after is None:
            break
    found: list[bytes] = []
    after = None
    while True:
        page, after = getattr(store, read)(read_range._replace(after=after))
        found += page
        before_last = sum(map(len, page[:-1]))
        assert len(page) <= read_range.limit
        assert before_last < read_range.bytes_max
        if after is None:
            break
        is_full = len(page) == read_range.limit or sum(map(len, page)) >= read_range.bytes_max
        assert is_full or read_range.records_max < UNBOUNDED
    assert found == expected, read
