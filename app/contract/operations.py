"""Every operation of the service, one record each.

Routes, parameters, problems, the OpenAPI document, its pages and tables in docs/, and the
dashboard's requests follow from these records. A new read is one record here and one function in
``oriel.app.reads.snapshot_reads``. Reads of many keys have theirs in
``oriel.app.contract.range_operations``.
"""

from collections.abc import Mapping

from oriel.app.contract.media_types import EVENT_STREAM
from oriel.app.contract.models import (
    ChangesAnswer,
    DeadLetterCountsAnswer,
    DeadLettersAnswer,
    Health,
    KeysAnswer,
    Readiness,
    StoreDetail,
    StoresAnswer,
)
from oriel.app.contract.operation import (
    SESSION_STORES,
    STORE_PATH,
    TABLE_READ_PROBLEMS,
    Operation,
    rows_read,
    windows_read,
)
from oriel.app.contract.parameters import TABLE_READS
from oriel.app.contract.problems import RowNotFound, UnknownParameter, WindowNotFound
from oriel.app.contract.queries import (
    CHANGES_QUERY,
    KEYS_QUERY,
    LETTER_COUNTS_QUERY,
    LETTERS_QUERY,
    ONE_QUERY,
    RANGE_QUERY,
    SESSIONS_QUERY,
    WATCH_QUERY,
)
from oriel.app.contract.range_operations import RANGE_RECORDS
from oriel.app.contract.status_models import Freshness, StatusAnswer
from oriel.storage import StoreKind
from oriel.storage import errors as storage

_STORES_PATH = "/v1/stores"

_RECORDS = (
    Operation(
        "listStores",
        _STORES_PATH,
        tag="stores",
        summary="List the stores",
        description="All stores of the data folder, with what they are and how far they reach.",
        answer=StoresAnswer,
    ),
    Operation(
        "describeStore",
        STORE_PATH,
        tag="stores",
        summary="Describe a store",
        description="Definition, position, stream time, counters and retention of one store.",
        answer=StoreDetail,
    ),
    Operation(
        "listKeys",
        f"{STORE_PATH}/keys",
        tag="stores",
        summary="List the keys of a store",
        description="Keys that have a visible window (or a row), in their order: texts by UTF-8 "
        "bytes, others by value.",
        answer=KeysAnswer,
        query=KEYS_QUERY,
    ),
    windows_read(
        "fetch",
        f"{STORE_PATH}/fetch/{{key}}",
        summary="Windows of a key, oldest first",
        description="Windows whose start lies from `from_ms` to `to_ms`, both inclusive, by start "
        "ascending. An unknown key has no windows.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "backwardFetch",
        f"{STORE_PATH}/backwardFetch/{{key}}",
        summary="Windows of a key, newest first",
        description="The windows of `fetch` by start descending (KIP-617). The first page without "
        "bounds is the newest windows.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "latest",
        f"{STORE_PATH}/latest/{{key}}",
        summary="The window of a key with the greatest start",
        description="The window with the greatest start (of several sessions the one that ends "
        "last); 404 when the key has none. Of sliding windows that is the one right of the newest "
        "record but one, without what came before: see `current`.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "window",
        f"{STORE_PATH}/window/{{window_start_ms}}/{{key}}",
        summary="One window of a key",
        description="The window that starts exactly then (of several sessions the one that ends "
        "first); 404 when there is none or it has expired.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "findSessions",
        f"{STORE_PATH}/findSessions/{{key}}",
        summary="Sessions of a key, oldest first",
        description="Sessions that end at or after `earliest_end_ms` and start at or before "
        "`latest_start_ms`, by start ascending. With both bounds the same instant: the sessions "
        "that hold it. An unknown key has no sessions.",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "backwardFindSessions",
        f"{STORE_PATH}/backwardFindSessions/{{key}}",
        summary="Sessions of a key, newest first",
        description="The sessions of `findSessions` by start descending (KIP-617).",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "session",
        f"{STORE_PATH}/session/{{window_start_ms}}/{{window_end_ms}}/{{key}}",
        summary="One session of a key",
        description="The session with exactly this start and end; 404 when there is none or it "
        "has expired.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
        store_kinds=SESSION_STORES,
    ),
    rows_read(
        "get",
        f"{STORE_PATH}/get/{{key}}",
        summary="The row of a key in a store without windows",
        description="The aggregates over all records of the key; 404 when the key has none.",
        query=ONE_QUERY,
        own_problems=(RowNotFound,),
    ),
    Operation(
        "health",
        "/healthz",
        tag="health",
        summary="Does the process live",
        description="Says ok while the process can answer at all.",
        answer=Health,
    ),
    Operation(
        "readiness",
        "/readyz",
        tag="health",
        summary="Can the service do its work",
        description="Return whether the tailer is alive and follows every store. If not, the "
        "status code is 503 with the same body. A pipeline that does not run does not change it.",
        answer=Readiness,
        other_statuses={503: "Not ready; the body says what is not"},
    ),
    Operation(
        "freshness",
        "/freshz",
        tag="health",
        summary="Check that new data arrives",
        description="Return whether every pipeline runs and reads its log, and whether the service "
        "follows the tables. If not, the status code is 503 with the same body, which says since "
        "when and why. Use it for alerts. For load balancers use `/readyz`, because a service can "
        "serve its data while a pipeline is down.",
        answer=Freshness,
        other_statuses={503: "No new data arrives. The body says since when and why"},
        own_problems=(storage.ObjectStoreFailed,),
    ),
    Operation(
        "status",
        "/v1/status",
        tag="health",
        summary="Show the status of pipelines",
        description="Return state, lag and throughput of each pipeline, and what each store waits "
        "for. With a token for some stores, only these stores and the pipelines that write them.",
        answer=StatusAnswer,
        own_problems=(storage.ObjectStoreFailed,),
    ),
    Operation(
        "metrics",
        "/metrics",
        tag="health",
        summary="Metrics for Prometheus",
        description="How pipelines, stores, partitions and indexes of the data folder fare, in "
        "Prometheus' text format.",
        answer=None,
        text_type="text/plain",
    ),
    Operation(
        "changes",
        f"{STORE_PATH}/changes",
        tag="windows",
        summary="Windows that changed since a version",
        description="Each once, with its newest row or that it was removed, by the version of its "
        "last change, key, start and end. Windows that have expired are left out; compaction "
        "changes none. Where the log does not say any more what changed, the problem "
        f"`version-gone` says to read the store anew. {TABLE_READS}",
        answer=ChangesAnswer,
        query=CHANGES_QUERY,
        own_problems=(storage.BehindPositionBound, *TABLE_READ_PROBLEMS),
    ),
    Operation(
        "listDeadLetters",
        "/v1/deadLetters",
        tag="deadLetters",
        summary="Records that could not be used",
        description="Dead letters of all stores, with their place, reason, key, time, headers and "
        f"bytes. {TABLE_READS}",
        answer=DeadLettersAnswer,
        query=LETTERS_QUERY,
        own_problems=TABLE_READ_PROBLEMS,
    ),
    Operation(
        "countDeadLetters",
        "/v1/deadLetters/count",
        tag="deadLetters",
        summary="How many records could not be used, by reason",
        description="The letters that `listDeadLetters` would list, counted; the most frequent "
        f"reason first. {TABLE_READS}",
        answer=DeadLetterCountsAnswer,
        query=LETTER_COUNTS_QUERY,
        own_problems=TABLE_READ_PROBLEMS,
    ),
    Operation(
        "dashboard",
        "/",
        tag="dashboard",
        summary="The dashboard, a web page",
        description="Stores, keys, windows and dead letters as they change.",
        answer=None,
    ),
    Operation(
        "watch",
        f"{STORE_PATH}/watch",
        tag="windows",
        summary="Changes of a store, as they happen",
        description="Server-Sent Events. `position` comes first and says where the stream begins; "
        "each `change` has the windows (or rows) that one version of the table changed and those "
        "that it `removed`; `reset` says to read anew. An event's `id` is where to go on: nothing "
        "is lost or repeated. At least every 15 s comes an `id` alone, a sign of life. When the "
        "token ends, is taken back or reaches less, `denied` is the last event: a problem "
        "document.",
        answer=None,
        query=WATCH_QUERY,
        own_problems=(UnknownParameter,),
        text_type=EVENT_STREAM,
    ),
    *RANGE_RECORDS,
    Operation(
        "docs",
        "/docs",
        tag="dashboard",
        summary="The interface, a web page",
        description="Swagger UI over this document, with nothing from elsewhere.",
        answer=None,
    ),
)

#: Every operation by its name, in the order in which tables list them.
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _RECORDS}


def reads_of_kind(kind: StoreKind) -> list[str]:
    """The hot reads that fit a store's kind; those that fit the fewest kinds come first."""
    fitting = [operation for operation in _RECORDS if kind in operation.store_kinds]
    return [operation.name for operation in sorted(fitting, key=lambda op: len(op.store_kinds))]


def kinds_by_reads() -> Mapping[tuple[str, ...], list[StoreKind]]:
    """The kinds of stores that have the same hot reads, for people."""
    kinds: dict[tuple[str, ...], list[StoreKind]] = {}
    for kind in StoreKind:
        kinds.setdefault(tuple(reads_of_kind(kind)), []).append(kind)
    return kinds
