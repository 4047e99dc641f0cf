"""Define every operation of the service, with one record each.

Routes, parameters, problems, the OpenAPI document, the tables in docs/reference and
docs/contributing/architecture.md, and the dashboard's requests follow from these records. A new
read needs one record here and one function in ``oriel.app.reads.snapshot_reads``. The records of
reads of many keys are in ``oriel.app.contract.operations.range_operations``.
"""

from collections.abc import Mapping

from oriel.app.contract.media_types import EVENT_STREAM
from oriel.app.contract.operations.operation import (
    SESSION_STORES,
    STORE_PATH,
    TABLE_READ_PROBLEMS,
    Operation,
    rows_read,
    versions_read,
    windows_read,
)
from oriel.app.contract.operations.prometheus_operations import PROMETHEUS_RECORDS
from oriel.app.contract.operations.range_operations import RANGE_RECORDS
from oriel.app.contract.parameters import TABLE_READS
from oriel.app.contract.problems import (
    InvalidSql,
    RowNotFound,
    SqlBusy,
    SqlDisabled,
    SqlFailed,
    SqlLimit,
    TopologyNotFound,
    UnknownParameter,
    VersionNotValid,
    WindowNotFound,
)
from oriel.app.contract.queries import (
    CHANGES_QUERY,
    DEAD_LETTER_COUNTS_QUERY,
    DEAD_LETTERS_QUERY,
    GET_QUERY,
    KEYS_QUERY,
    ONE_QUERY,
    RANGE_QUERY,
    SESSIONS_QUERY,
    VERSIONS_QUERY,
    WATCH_QUERY,
)
from oriel.app.contract.responses import (
    ChangesAnswer,
    DeadLetterCountsAnswer,
    DeadLettersAnswer,
    Freshness,
    Health,
    KeysAnswer,
    Readiness,
    SqlRows,
    StatusAnswer,
    StoreDetail,
    StoresAnswer,
    Topologies,
)
from oriel.storage import StoreKind
from oriel.storage import errors as storage

_STORES_PATH = "/v1/stores"
SQL_PATH = "/v1/sql"

_RECORDS = (
    Operation(
        "listStores",
        _STORES_PATH,
        tag="stores",
        summary="List stores",
        description="List every store of the data directory with its definition, position and "
        "state.",
        response_model=StoresAnswer,
    ),
    Operation(
        "describeStore",
        STORE_PATH,
        tag="stores",
        summary="Describe a store",
        description="Return the definition, position, stream time, counters and retention of one "
        "store.",
        response_model=StoreDetail,
    ),
    Operation(
        "listKeys",
        f"{STORE_PATH}/keys",
        tag="stores",
        summary="List keys of a store",
        description="List the keys that have a visible window or row, in key order. Strings are "
        "ordered by their UTF-8 bytes, other keys by value.",
        response_model=KeysAnswer,
        query=KEYS_QUERY,
    ),
    windows_read(
        "fetch",
        f"{STORE_PATH}/fetch/{{key}}",
        summary="List windows of a key",
        description="List the windows whose start is from `from_ms` to `to_ms`, both inclusive, "
        "in ascending order of start. The list is empty for an unknown key.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "backwardFetch",
        f"{STORE_PATH}/backwardFetch/{{key}}",
        summary="List windows of a key backward",
        description="List the windows of `fetch` in descending order of start (KIP-617). Without "
        "bounds, the first page contains the newest windows.",
        query=RANGE_QUERY,
    ),
    windows_read(
        "latest",
        f"{STORE_PATH}/latest/{{key}}",
        summary="Read the latest window",
        description="Return the window of a key with the greatest start. If several sessions "
        "have this start, it is the session with the greatest end. For sliding windows, it is "
        "the window that starts 1 ms after the second-newest record. It contains only the "
        "newest record. Use `current` for the window that ends at the newest record. The status "
        "code is 404 if the key has no window.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "window",
        f"{STORE_PATH}/window/{{window_start_ms}}/{{key}}",
        summary="Read one window of a key",
        description="Return the window with exactly this start. If several sessions have this "
        "start, it is the session with the least end. The status code is 404 if the window does "
        "not exist or has expired.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
    ),
    windows_read(
        "findSessions",
        f"{STORE_PATH}/findSessions/{{key}}",
        summary="List sessions of a key",
        description="List the sessions that end at or after `earliest_end_ms` and start at or "
        "before `latest_start_ms`, in ascending order of start. To find the sessions that "
        "contain an instant, set both bounds to this instant. The list is empty for an unknown "
        "key.",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "backwardFindSessions",
        f"{STORE_PATH}/backwardFindSessions/{{key}}",
        summary="List sessions of a key backward",
        description="List the sessions of `findSessions` in descending order of start (KIP-617).",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    windows_read(
        "session",
        f"{STORE_PATH}/session/{{window_start_ms}}/{{window_end_ms}}/{{key}}",
        summary="Read one session of a key",
        description="Return the session with exactly this start and end. The status code is 404 "
        "if the session does not exist or has expired.",
        query=ONE_QUERY,
        own_problems=(WindowNotFound,),
        store_kinds=SESSION_STORES,
    ),
    rows_read(
        "get",
        f"{STORE_PATH}/get/{{key}}",
        summary="Read the row of a key",
        description="Return the aggregates over all records of the key, from a store without "
        "windows. With `at_ms`, return the version that was valid at this time, from a store with "
        "versions (KIP-960). The status code is 404 if the key has no row, or had none then.",
        query=GET_QUERY,
        own_problems=(RowNotFound, VersionNotValid),
    ),
    versions_read(
        "versions",
        f"{STORE_PATH}/versions/{{key}}",
        summary="List versions of a key",
        description="List the versions of a key that were valid between `from_ms` and `to_ms`, "
        "both inclusive, in ascending order of time (KIP-968). A version is valid from its time "
        "until the next version or deletion. The list is empty for an unknown key.",
        query=VERSIONS_QUERY,
    ),
    versions_read(
        "backwardVersions",
        f"{STORE_PATH}/backwardVersions/{{key}}",
        summary="List versions of a key backward",
        description="List the versions of `versions` in descending order of time. Without bounds, "
        "the first page contains the newest versions.",
        query=VERSIONS_QUERY,
    ),
    Operation(
        "health",
        "/healthz",
        tag="health",
        summary="Check that the process runs",
        description="Return `ok` while the process can respond.",
        response_model=Health,
    ),
    Operation(
        "readiness",
        "/readyz",
        tag="health",
        summary="Check that the service is ready",
        description="Return whether the tailer is alive and follows every store. If not, the "
        "status code is 503 with the same body. A pipeline that does not run does not change it.",
        response_model=Readiness,
        other_statuses={503: "Not ready. The body names what is not ready"},
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
        response_model=Freshness,
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
        response_model=StatusAnswer,
        own_problems=(storage.ObjectStoreFailed,),
    ),
    Operation(
        "topology",
        "/v1/topology",
        tag="stores",
        summary="Show the topologies of pipelines",
        description="Return topics, joins, stores and output topics of each pipeline, the calls "
        "between them, and a Mermaid flowchart. A pipeline writes its topology when it starts. "
        "With a token for some stores, only these stores, with their inputs and output topics.",
        response_model=Topologies,
        own_problems=(TopologyNotFound, storage.ObjectStoreFailed),
    ),
    Operation(
        "metrics",
        "/metrics",
        tag="health",
        summary="Export metrics for Prometheus",
        description="Return metrics of the pipelines, stores, partitions and indexes of the data "
        "directory, in the text format of Prometheus.",
        response_model=None,
        text_type="text/plain",
    ),
    Operation(
        "changes",
        f"{STORE_PATH}/changes",
        tag="windows",
        summary="List changes since a version",
        description="List each window or row that changed after a version once, ordered by the "
        "version of its last change, key, start and end. An item has the newest row, or `null` "
        "if the row was removed. Expired windows are left out, and compaction changes no "
        "window. If the log no longer contains the changes, the problem is `version-gone`. Then "
        f"read the store again. {TABLE_READS}",
        response_model=ChangesAnswer,
        query=CHANGES_QUERY,
        own_problems=(storage.BehindPositionBound, *TABLE_READ_PROBLEMS),
    ),
    Operation(
        "sql",
        SQL_PATH,
        tag="sql",
        summary="Run a SQL query",
        description="Run one SELECT statement of DuckDB over the stores. Each store is a table "
        "with its current rows, and `STORE_final` has only final rows. The rows are from the "
        "newest version of each table. The service needs the option `--sql`. A token for some "
        "stores can only query these stores, and a token for some keys cannot use this operation.",
        response_model=SqlRows,
        own_problems=(
            InvalidSql,
            SqlLimit,
            SqlBusy,
            SqlDisabled,
            SqlFailed,
            storage.UnknownStore,
            storage.CorruptLog,
        ),
        method="POST",
    ),
    Operation(
        "listDeadLetters",
        "/v1/deadLetters",
        tag="deadLetters",
        summary="List dead letters",
        description="List the records that the stores could not use, with their source offset, "
        f"reason, key, time, headers and bytes. {TABLE_READS}",
        response_model=DeadLettersAnswer,
        query=DEAD_LETTERS_QUERY,
        own_problems=TABLE_READ_PROBLEMS,
    ),
    Operation(
        "countDeadLetters",
        "/v1/deadLetters/count",
        tag="deadLetters",
        summary="Count dead letters by reason",
        description="Count the dead letters that `listDeadLetters` returns for the same "
        f"parameters, with the most frequent reason first. {TABLE_READS}",
        response_model=DeadLetterCountsAnswer,
        query=DEAD_LETTER_COUNTS_QUERY,
        own_problems=TABLE_READ_PROBLEMS,
    ),
    Operation(
        "dashboard",
        "/",
        tag="dashboard",
        summary="Open the dashboard",
        description="Return a web page that shows stores, keys, windows and dead letters, and "
        "updates them.",
        response_model=None,
    ),
    Operation(
        "watch",
        f"{STORE_PATH}/watch",
        tag="windows",
        summary="Stream changes of a store",
        description="Return the changes of a store as Server-Sent Events. The first event, "
        "`position`, contains the version at which the stream begins. Each `change` contains "
        "the windows or rows that one table version changed, and in `removed` the keys and times "
        "of removed ones. After a `reset`, read the store again. To continue without a loss or a "
        "repetition, send the `id` of the last event. An event with only an `id` arrives at "
        "least every 15 s as a heartbeat. If the token expires, is removed or grants less "
        "access, the last event is `denied`, a problem document.",
        response_model=None,
        query=WATCH_QUERY,
        own_problems=(UnknownParameter,),
        text_type=EVENT_STREAM,
    ),
    *RANGE_RECORDS,
    *PROMETHEUS_RECORDS,
    Operation(
        "docs",
        "/docs",
        tag="dashboard",
        summary="Open the API reference",
        description="Return Swagger UI for this document. It loads nothing from another server.",
        response_model=None,
    ),
)

#: Every operation by its name, in the order in which tables list them.
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _RECORDS}


def reads_of_kind(kind: StoreKind) -> list[str]:
    """Return the hot reads of a store kind. Reads that fit the fewest kinds are first."""
    fitting = [operation for operation in _RECORDS if kind in operation.store_kinds]
    return [operation.name for operation in sorted(fitting, key=lambda op: len(op.store_kinds))]


def kinds_by_reads() -> Mapping[tuple[str, ...], list[StoreKind]]:
    """Return the store kinds by their hot reads."""
    kinds: dict[tuple[str, ...], list[StoreKind]] = {}
    for kind in StoreKind:
        kinds.setdefault(tuple(reads_of_kind(kind)), []).append(kind)
    return kinds
