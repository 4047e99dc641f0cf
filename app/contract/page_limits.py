"""Define the limits of one request and its page, which the OpenAPI document lists."""

from typing import NamedTuple

from oriel.storage import KEY_BYTES_MAX

#: Most windows, rows or keys of one page, and the number without `limit`.
PAGE_ROWS_MAX = 10_000
PAGE_ROWS_DEFAULT = 100
#: A page ends with the item that brings it to this many bytes.
PAGE_BYTES_MAX = 4 << 20
#: A page ends after it has read this many windows, rows or keys.
SCAN_RECORDS_MAX = 100_000
#: Most keys of a body.
LISTED_KEYS_MAX = 1_000


class Limit(NamedTuple):
    """A limit as the OpenAPI document lists it."""

    value: int
    unit: str
    description: str


LIMITS = {
    "page_rows_max": Limit(PAGE_ROWS_MAX, "items", "Greatest `limit` of a page."),
    "page_rows_default": Limit(
        PAGE_ROWS_DEFAULT, "items", "`limit` if the request does not set it."
    ),
    "page_bytes_max": Limit(
        PAGE_BYTES_MAX,
        "bytes",
        "A page ends with the item that brings it to this many bytes of JSON. Its cursor "
        "continues after this item.",
    ),
    "scan_records_max": Limit(
        SCAN_RECORDS_MAX,
        "records",
        "A page ends after the service has read this many windows, rows or keys, even if it "
        "found no item. Its cursor continues there.",
    ),
    "listed_keys_max": Limit(LISTED_KEYS_MAX, "keys", "Most keys in the body of one POST."),
    "key_bytes_max": Limit(
        KEY_BYTES_MAX,
        "bytes",
        "Most UTF-8 bytes of a key. A record with a longer key is a dead letter.",
    ),
}
