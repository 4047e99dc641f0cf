"""The records of reads that follow from a key's newest record, and of those of many keys.

Kafka's methods of many keys have the names of one key with other arguments; here each has a name
of its own, which is that of ``oriel.testing``'s stores.
"""

from oriel.app.contract.models import CountAnswer, EntriesAnswer
from oriel.app.contract.operation import (
    EVERY_STORE,
    ROW_STORES,
    SESSION_STORES,
    STORE_PATH,
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
    ONE_QUERY,
    POSITION_QUERY,
    PREFIX_QUERY,
    RANGE_QUERY,
    ROWS_QUERY,
)

RANGE_RECORDS = (
    windows_read(
        "current",
        f"{STORE_PATH}/current/{{key}}",
        summary="The window of a key that ends at its newest record",
        description="What a dashboard shows as the newest. Sliding: the window that ends at the "
        "key's newest record. Tumbling: the window that holds it. Hopping: of those that hold it "
        "the one that started first. Sessions: the one that ends last. 404 when the key has none.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "covering",
        f"{STORE_PATH}/covering/{{instant_ms}}/{{key}}",
        summary="The windows of a key that hold an instant",
        description="Windows that a record of this time would be in, by start ascending.",
        query=COVERING_QUERY,
    ),
    windows_read(
        "fetchRange",
        f"{STORE_PATH}/fetchRange",
        summary="Windows of a range of keys",
        description="Windows of keys from `key_from` to `key_to` whose start lies from `from_ms` "
        "to `to_ms`, all inclusive and optional, by key, then start, then end (Kafka's fetch with "
        "two keys, open ends: KIP-763).",
        query=KEY_RANGE_QUERY,
    ),
    windows_read(
        "backwardFetchRange",
        f"{STORE_PATH}/backwardFetchRange",
        summary="Windows of a range of keys, backwards",
        description="The windows of `fetchRange` in exactly the reverse order.",
        query=KEY_RANGE_QUERY,
    ),
    windows_read(
        "fetchAll",
        f"{STORE_PATH}/fetchAll",
        summary="Windows of all keys in a range of time",
        description="Windows of any key whose start lies from `from_ms` to `to_ms`, both "
        "inclusive, by key, then start, then end.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "backwardFetchAll",
        f"{STORE_PATH}/backwardFetchAll",
        summary="Windows of all keys in a range of time, backwards",
        description="The windows of `fetchAll` in exactly the reverse order.",
        query=RANGE_QUERY,
    ),
    Operation(
        "all",
        f"{STORE_PATH}/all",
        tag="windows",
        summary="All windows or rows",
        description="Everything visible, by key, then start, then end.",
        answer=EntriesAnswer,
        query=ALL_QUERY,
        own_problems=(InvalidParameter,),
        store_kinds=EVERY_STORE,
        is_hot=True,
    ),
    windows_read(
        "backwardAll",
        f"{STORE_PATH}/backwardAll",
        summary="All windows, backwards",
        description="The windows of `all` in exactly the reverse order.",
        query=ALL_QUERY,
    ),
    windows_read(
        "latestAll",
        f"{STORE_PATH}/latestAll",
        summary="The window of each key with the greatest start",
        description="`latest` of every key in a range of keys, by key. Costs as much as there are "
        "keys, however many windows they have.",
        query=EACH_KEY_QUERY,
    ),
    windows_read(
        "currentAll",
        f"{STORE_PATH}/currentAll",
        summary="The window of each key that ends at its newest record",
        description="`current` of every key in a range of keys, by key.",
        query=EACH_KEY_QUERY,
    ),
    windows_read(
        "findSessionsRange",
        f"{STORE_PATH}/findSessionsRange",
        summary="Sessions of a range of keys",
        description="Sessions of keys from `key_from` to `key_to` that end at or after "
        "`earliest_end_ms` and start at or before `latest_start_ms`, by key, then start, then end.",
        query=KEY_RANGE_SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "backwardFindSessionsRange",
        f"{STORE_PATH}/backwardFindSessionsRange",
        summary="Sessions of a range of keys, backwards",
        description="The sessions of `findSessionsRange` in exactly the reverse order.",
        query=KEY_RANGE_SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "fetchSession",
        f"{STORE_PATH}/fetchSession/{{window_start_ms}}/{{window_end_ms}}/{{key}}",
        summary="One session of a key, by Kafka's name",
        description="The same as `session`.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
        store_kinds=SESSION_STORES,
    ),
    rows_read(
        "range",
        f"{STORE_PATH}/range",
        summary="Rows of a range of keys",
        description="Rows of keys from `key_from` to `key_to`, both inclusive and optional, by "
        "key.",
        query=ROWS_QUERY,
    ),
    rows_read(
        "reverseRange",
        f"{STORE_PATH}/reverseRange",
        summary="Rows of a range of keys, backwards",
        description="The rows of `range` in exactly the reverse order.",
        query=ROWS_QUERY,
    ),
    rows_read(
        "prefixScan",
        f"{STORE_PATH}/prefixScan",
        summary="Rows of keys that begin alike",
        description="Rows of keys that begin with `prefix`, by key.",
        query=PREFIX_QUERY,
    ),
    rows_read(
        "reverseAll",
        f"{STORE_PATH}/reverseAll",
        summary="All rows, backwards",
        description="The rows of `all` in exactly the reverse order.",
        query=ALL_ROWS_QUERY,
    ),
    Operation(
        "approximateNumEntries",
        f"{STORE_PATH}/approximateNumEntries",
        tag="rows",
        summary="The number of rows",
        description="Kafka's name; here it is exact.",
        answer=CountAnswer,
        query=POSITION_QUERY,
        store_kinds=ROW_STORES,
    ),
    listed_windows_read(
        "latestOfKeys",
        f"{STORE_PATH}/latestOfKeys",
        summary="The window with the greatest start of each listed key",
        description="`latest` of the keys in the body, in its order; a key without windows has "
        "none.",
        query=LISTED_QUERY,
    ),
    listed_windows_read(
        "currentOfKeys",
        f"{STORE_PATH}/currentOfKeys",
        summary="The window of each listed key that ends at its newest record",
        description="`current` of the keys in the body, in its order; a key without windows has "
        "none.",
        query=LISTED_QUERY,
    ),
    listed_windows_read(
        "fetchOfKeys",
        f"{STORE_PATH}/fetchOfKeys",
        summary="Windows of listed keys, of each oldest first",
        description="`fetch` of the keys in the body, one key after the other in its order.",
        query=LISTED_RANGE_QUERY,
    ),
    listed_windows_read(
        "backwardFetchOfKeys",
        f"{STORE_PATH}/backwardFetchOfKeys",
        summary="Windows of listed keys, of each newest first",
        description="`backwardFetch` of the keys in the body, one key after the other in its "
        "order.",
        query=LISTED_RANGE_QUERY,
    ),
    listed_rows_read(
        "getOfKeys",
        f"{STORE_PATH}/getOfKeys",
        summary="The rows of listed keys",
        description="`get` of the keys in the body, in its order; a key without a row has none.",
        query=LISTED_QUERY,
    ),
)
