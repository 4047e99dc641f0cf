"""Every operation of the service, one record each.

Routes, parameters, problems, the OpenAPI document, the tables in README.md and
docs/architecture.md, and the dashboard's requests follow from these records. A new read is one
record here and one function in ``oriel.app.reads.snapshot_reads``.
"""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from pydantic import BaseModel

from oriel.app.contract.models import (
    ChangesAnswer,
    DeadLetterCountsAnswer,
    DeadLettersAnswer,
    Health,
    Json,
    KeysAnswer,
    Readiness,
    RowsAnswer,
    StoreDetail,
    StoresAnswer,
    WindowsAnswer,
)
from oriel.app.contract.parameters import (
    AS_OF_VERSION,
    CHANGES_QUERY,
    CURSOR,
    KEYS_QUERY,
    LETTER_COUNTS_QUERY,
    LETTERS_QUERY,
    MIN_VERSION,
    NO_QUERY,
    PATH_PARAMETERS,
    POSITION_QUERY,
    RANGE_QUERY,
    SESSIONS_QUERY,
    STORE,
    TABLE_READS,
    PathParameter,
    Query,
)
from oriel.app.contract.problems import (
    InvalidKey,
    InvalidParameter,
    MethodNotAllowed,
    RowNotFound,
    TableReadsBusy,
    UnknownParameter,
    WindowNotFound,
    WrongStoreKind,
)
from oriel.storage import StoreKind
from oriel.storage import errors as storage

#: Kinds of stores by what can be read of them.
ROW_STORES = frozenset(kind for kind in StoreKind if not kind.is_windowed)
SESSION_STORES = frozenset(kind for kind in StoreKind if kind.is_session)
WINDOW_STORES = frozenset(StoreKind) - ROW_STORES

#: How a read of a table itself can fail.
TABLE_READ_PROBLEMS = (
    storage.VersionGone, storage.CorruptLog, storage.TableReadTooLarge, storage.TableReadTimeout,
    TableReadsBusy,
)  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """One operation: what it is asked, what it answers and how it can fail.

    ``name`` is Kafka's where it has one, and the ``operationId``. ``path`` has its path parameters
    in braces; ``{key}`` is last and takes all the rest. ``answer`` is None for what is no JSON but
    text of ``text_type``, and does not look at its query.

    A hot read is answered before FastAPI, by ``oriel.app.reads``. Its path is that of the store,
    its name and its own path parameters, its query has the position parameters, and it fits
    stores of ``store_kinds`` only.

    ``own_problems`` are those that don't follow from path and query. ``other_statuses`` (and what
    they mean) come with the same body as 200.
    """

    name: str
    path: str
    _: KW_ONLY
    tag: str
    summary: str
    description: str
    answer: type[BaseModel] | None
    query: Query = NO_QUERY
    example: Json | None = None
    own_problems: tuple[type[Exception], ...] = ()
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    store_kinds: frozenset[StoreKind] = frozenset()
    is_hot: bool = False
    text_type: str = "text/html"

    @property
    def path_parameters(self) -> tuple[PathParameter, ...]:
        """The parameters in the path, in its order."""
        return tuple(PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", self.path))

    @property
    def problems(self) -> tuple[type[Exception], ...]:
        """All errors that the operation can answer, but for those inside the service."""
        query = self.query.parameters
        path = self.path_parameters
        errors: list[type[Exception]] = []
        # Any value of the query can be wrong, and of the path's parameters the times.
        if query or any(parameter.name.endswith("_ms") for parameter in path):
            errors.append(InvalidParameter)
        # A typing error must not be taken for no parameter; only the page takes any address.
        if self.answer is not None:
            errors.append(UnknownParameter)
        if STORE in path:
            errors += [
                InvalidKey,
                storage.UnknownStore,
                storage.StoreNotReady,
                storage.IndexDamaged,
            ]
        if MIN_VERSION in query:
            errors.append(storage.BehindPositionBound)
        if AS_OF_VERSION in query:
            errors += [storage.VersionNotFound, *TABLE_READ_PROBLEMS]
        # No hot read fits every kind of store.
        if self.is_hot:
            errors.append(WrongStoreKind)
        if CURSOR in query:
            errors.append(storage.InvalidCursor)
        return (*errors, *self.own_problems, MethodNotAllowed)


_WINDOWS_EXAMPLE: Json = {
    "store": "departures",
    "position": {"version": 17, "offsets": {"flights": {"0": 12345}}},
    "windows": [
        {
            "key": "EWR",
            "window_start_ms": 1357034400000,
            "window_end_ms": 1357036200000,
            "departures": 12,
            "mean_delay": 4.25,
            "timestamp_ms": 1357036140000,
            "final": True,
        }
    ],
    "next_cursor": None,
}
_ROWS_EXAMPLE: Json = {
    "store": "totals",
    "position": {"version": 17, "offsets": {"flights": {"0": 12345}}},
    "rows": [{"key": "EWR", "departures": 1201, "timestamp_ms": 1357036140000}],
    "next_cursor": None,
}

_STORES_PATH = "/v1/stores"
_STORE_PATH = "/v1/stores/{store}"

#: Makes the record of a hot read that answers windows; of sessions alone with other kinds.
_windows_read = partial(
    Operation,
    tag="windows",
    answer=WindowsAnswer,
    example=_WINDOWS_EXAMPLE,
    store_kinds=WINDOW_STORES,
    is_hot=True,
)

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
        _STORE_PATH,
        tag="stores",
        summary="Describe a store",
        description="Definition, position, stream time, counters and retention of one store.",
        answer=StoreDetail,
    ),
    Operation(
        "listKeys",
        f"{_STORE_PATH}/keys",
        tag="stores",
        summary="List the keys of a store",
        description="Keys that have a visible window (or a row), ordered by their UTF-8 bytes.",
        answer=KeysAnswer,
        query=KEYS_QUERY,
    ),
    _windows_read(
        "fetch",
        f"{_STORE_PATH}/fetch/{{key}}",
        summary="Windows of a key, oldest first",
        description="Windows whose start lies from `from_ms` to `to_ms`, both inclusive, by start "
        "ascending. An unknown key has no windows.",
        query=RANGE_QUERY,
    ),
    _windows_read(
        "backwardFetch",
        f"{_STORE_PATH}/backwardFetch/{{key}}",
        summary="Windows of a key, newest first",
        description="The windows of `fetch` by start descending (KIP-617). The first page without "
        "bounds is the newest windows.",
        query=RANGE_QUERY,
    ),
    _windows_read(
        "latest",
        f"{_STORE_PATH}/latest/{{key}}",
        summary="The newest window of a key",
        description="The window with the greatest start (of several sessions the one that ends "
        "last); 404 when the key has none.",
        query=POSITION_QUERY,
        own_problems=(WindowNotFound,),
    ),
    _windows_read(
        "window",
        f"{_STORE_PATH}/window/{{window_start_ms}}/{{key}}",
        summary="One window of a key",
        description="The window that starts exactly then (of several sessions the one that ends "
        "first); 404 when there is none or it has expired.",
        query=POSITION_QUERY,
        own_problems=(WindowNotFound,),
    ),
    _windows_read(
        "findSessions",
        f"{_STORE_PATH}/findSessions/{{key}}",
        summary="Sessions of a key, oldest first",
        description="Sessions that end at or after `earliest_end_ms` and start at or before "
        "`latest_start_ms`, by start ascending. With both bounds the same instant: the sessions "
        "that hold it. An unknown key has no sessions.",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    _windows_read(
        "backwardFindSessions",
        f"{_STORE_PATH}/backwardFindSessions/{{key}}",
        summary="Sessions of a key, newest first",
        description="The sessions of `findSessions` by start descending (KIP-617).",
        query=SESSIONS_QUERY,
        store_kinds=SESSION_STORES,
    ),
    _windows_read(
        "session",
        f"{_STORE_PATH}/session/{{window_start_ms}}/{{window_end_ms}}/{{key}}",
        summary="One session of a key",
        description="The session with exactly this start and end; 404 when there is none or it "
        "has expired.",
        query=POSITION_QUERY,
        own_problems=(WindowNotFound,),
        store_kinds=SESSION_STORES,
    ),
    Operation(
        "get",
        f"{_STORE_PATH}/get/{{key}}",
        tag="windows",
        summary="The row of a key in a store without windows",
        description="The aggregates over all records of the key; 404 when the key has none.",
        answer=RowsAnswer,
        example=_ROWS_EXAMPLE,
        query=POSITION_QUERY,
        own_problems=(RowNotFound,),
        store_kinds=ROW_STORES,
        is_hot=True,
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
        description="Say whether the tailer lives and follows every store; 503 with the same body "
        "if not.",
        answer=Readiness,
        other_statuses={503: "Not ready; the body says what is not"},
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
        f"{_STORE_PATH}/changes",
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
        description="One page that shows the windows of a store as they change.",
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
