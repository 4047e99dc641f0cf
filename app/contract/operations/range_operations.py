"""Define the records of reads of many keys, and of reads by a key's newest record or an instant.

Kafka overloads the methods of one key for many keys. In Oriel, each read has its own name, which
the stores of ``oriel.testing`` also use.
"""

from oriel.app.contract.operations.operation import (
    EVERY_STORE,
    ROW_STORES,
    SESSION_STORES,
    STORE_PATH,
    TUMBLING_STORES,
    Operation,
    listed_rows_read,
    listed_windows_read,
    rows_read,
    windows_read,
)
from oriel.app.contract.problems import InvalidParameter, WindowNotFound
from oriel.app.contract.queries import (
    ALL_QUERY,
    ALL_ROWS_QUERY,
    COVERING_QUERY,
    EACH_KEY_QUERY,
    KEY_RANGE_QUERY,
    KEY_RANGE_SESSIONS_QUERY,
    LISTED_QUERY,
    LISTED_RANGE_QUERY,
    MERGED_ALL_QUERY,
    MERGED_QUERY,
    ONE_QUERY,
    POSITION_QUERY,
    PREFIX_QUERY,
    RANGE_QUERY,
    ROWS_QUERY,
)
from oriel.app.contract.responses import (
    COUNT_EXAMPLE,
    MERGED_EXAMPLE,
    WINDOWS_EXAMPLE,
    CountAnswer,
    EntriesAnswer,
)

RANGE_RECORDS = (
    windows_read(
        "current",
        f"{STORE_PATH}/current/{{key}}",
        summary="Read the current window",
        description="Return the window of a key that contains its newest record. For sliding "
        "windows, it is the window that ends at this record. For hopping windows, it is the "
        "first window that contains this record. For sessions, it is the session with the "
        "greatest end. The status code is 404 if the key has no window.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "covering",
        f"{STORE_PATH}/covering/{{instant_ms}}/{{key}}",
        summary="List windows that contain an instant",
        description="List the windows of a key that a record with this time belongs to, in "
        "ascending order of start.",
        query=COVERING_QUERY,
    ),
    windows_read(
        "merged",
        f"{STORE_PATH}/merged/{{key}}",
        summary="List merged windows of a key",
        description="Merge the tumbling windows of a key to ranges of `step_ms`, and list the "
        "ranges whose start is from `from_ms` to `to_ms`, both inclusive, in ascending order of "
        "start. A range has the fields of a window: its start and end, its aggregates, and its "
        "greatest record time. It is final if no record can change it. A range without windows is "
        "left out, and so is a range whose first windows have expired. Aggregates other than "
        "`count`, `sum`, `min` and `max` need a store with `mergeable=True`. If the store has an "
        "aggregate that cannot be merged, send `columns` with the others.",
        query=MERGED_QUERY,
        example=MERGED_EXAMPLE,
        store_kinds=TUMBLING_STORES,
    ),
    windows_read(
        "fetchRange",
        f"{STORE_PATH}/fetchRange",
        summary="List windows by key range",
        description="List the windows of keys from `key_from` to `key_to` whose start is from "
        "`from_ms` to `to_ms`, by key, then start, then end. All bounds are inclusive and "
        "optional. It is Kafka's fetch with two keys, with open ends (KIP-763).",
        query=KEY_RANGE_QUERY,
    ),
    windows_read(
        "backwardFetchRange",
        f"{STORE_PATH}/backwardFetchRange",
        summary="List windows by key range backward",
        description="List the windows of `fetchRange` in reverse order.",
        query=KEY_RANGE_QUERY,
    ),
    windows_read(
        "fetchAll",
        f"{STORE_PATH}/fetchAll",
        summary="List windows by time range",
        description="List the windows of all keys whose start is from `from_ms` to `to_ms`, both "
        "inclusive, by key, then start, then end.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "backwardFetchAll",
        f"{STORE_PATH}/backwardFetchAll",
        summary="List windows by time range backward",
        description="List the windows of `fetchAll` in reverse order.",
        query=RANGE_QUERY,
    ),
    Operation(
        "all",
        f"{STORE_PATH}/all",
        tag="windows",
        summary="List all windows or rows",
        description="List all visible windows or rows by key, then start, then end.",
        response_model=EntriesAnswer,
        example=WINDOWS_EXAMPLE,
        query=ALL_QUERY,
        own_problems=(InvalidParameter,),
        store_kinds=EVERY_STORE,
        is_hot=True,
    ),
    windows_read(
        "backwardAll",
        f"{STORE_PATH}/backwardAll",
        summary="List all windows backward",
        description="List the windows of `all` in reverse order.",
        query=ALL_QUERY,
    ),
    windows_read(
        "latestAll",
        f"{STORE_PATH}/latestAll",
        summary="List the latest window per key",
        description="List the `latest` window of every key in a key range, by key. The cost "
        "depends on the number of keys, not on their number of windows.",
        query=EACH_KEY_QUERY,
    ),
    windows_read(
        "currentAll",
        f"{STORE_PATH}/currentAll",
        summary="List the current window per key",
        description="List the `current` window of every key in a key range, by key.",
        query=EACH_KEY_QUERY,
    ),
    windows_read(
        "mergedAll",
        f"{STORE_PATH}/mergedAll",
        summary="List merged windows by key range",
        description="List the ranges that `merged` returns for every key in a key range, by key, "
        "then start.",
        query=MERGED_ALL_QUERY,
        example=MERGED_EXAMPLE,
        store_kinds=TUMBLING_STORES,
    ),
    windows_read(
        "findSessionsRange",
        f"{STORE_PATH}/findSessionsRange",
        summary="List sessions by key range",
        description="List the sessions of keys from `key_from` to `key_to` that end at or after "
        "`earliest_end_ms` and start at or before `latest_start_ms`, by key, then start, then "
        "end.",
        query=KEY_RANGE_SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "backwardFindSessionsRange",
        f"{STORE_PATH}/backwardFindSessionsRange",
        summary="List sessions by key range backward",
        description="List the sessions of `findSessionsRange` in reverse order.",
        query=KEY_RANGE_SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "fetchSession",
        f"{STORE_PATH}/fetchSession/{{window_start_ms}}/{{window_end_ms}}/{{key}}",
        summary="Read one session (alias)",
        description="Return the same session as `session`, under the name of Kafka's method.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
        store_kinds=SESSION_STORES,
    ),
    rows_read(
        "range",
        f"{STORE_PATH}/range",
        summary="List rows by key range",
        description="List the rows of keys from `key_from` to `key_to`, both inclusive and "
        "optional, by key.",
        query=ROWS_QUERY,
    ),
    rows_read(
        "reverseRange",
        f"{STORE_PATH}/reverseRange",
        summary="List rows by key range backward",
        description="List the rows of `range` in reverse order.",
        query=ROWS_QUERY,
    ),
    rows_read(
        "prefixScan",
        f"{STORE_PATH}/prefixScan",
        summary="List rows by key prefix",
        description="List the rows of keys that begin with `prefix`, by key.",
        query=PREFIX_QUERY,
    ),
    rows_read(
        "reverseAll",
        f"{STORE_PATH}/reverseAll",
        summary="List all rows backward",
        description="List the rows of `all` in reverse order.",
        query=ALL_ROWS_QUERY,
    ),
    Operation(
        "approximateNumEntries",
        f"{STORE_PATH}/approximateNumEntries",
        tag="rows",
        summary="Count rows of a store",
        description="Return the number of rows. The name is Kafka's, but the number is exact.",
        response_model=CountAnswer,
        example=COUNT_EXAMPLE,
        query=POSITION_QUERY,
        store_kinds=ROW_STORES,
    ),
    listed_windows_read(
        "latestOfKeys",
        f"{STORE_PATH}/latestOfKeys",
        summary="Read latest windows of listed keys",
        description="Return the `latest` window of each key in the body, in the order of the "
        "body. A key without windows is left out.",
        query=LISTED_QUERY,
    ),
    listed_windows_read(
        "currentOfKeys",
        f"{STORE_PATH}/currentOfKeys",
        summary="Read current windows of listed keys",
        description="Return the `current` window of each key in the body, in the order of the "
        "body. A key without windows is left out.",
        query=LISTED_QUERY,
    ),
    listed_windows_read(
        "fetchOfKeys",
        f"{STORE_PATH}/fetchOfKeys",
        summary="List windows of listed keys",
        description="List the windows that `fetch` returns for each key in the body, in the "
        "order of the body.",
        query=LISTED_RANGE_QUERY,
    ),
    listed_windows_read(
        "backwardFetchOfKeys",
        f"{STORE_PATH}/backwardFetchOfKeys",
        summary="List windows of listed keys backward",
        description="List the windows that `backwardFetch` returns for each key in the body, in "
        "the order of the body.",
        query=LISTED_RANGE_QUERY,
    ),
    listed_windows_read(
        "mergedOfKeys",
        f"{STORE_PATH}/mergedOfKeys",
        summary="List merged windows of listed keys",
        description="List the ranges that `merged` returns for each key in the body, in the order "
        "of the body.",
        query=MERGED_QUERY,
        example=MERGED_EXAMPLE,
        store_kinds=TUMBLING_STORES,
    ),
    listed_rows_read(
        "getOfKeys",
        f"{STORE_PATH}/getOfKeys",
        summary="Read rows of listed keys",
        description="Return the row of each key in the body, in the order of the body. A key "
        "without a row is left out.",
        query=LISTED_QUERY,
    ),
)
