"""What a record of an operation says, and what all records of hot reads have in common."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from pydantic import BaseModel

from oriel.app.contract.models import Json, KeysAnswer, RowsAnswer, WindowsAnswer
from oriel.app.contract.parameters import (
    AS_OF_VERSION,
    CURSOR,
    HISTORY,
    KEY,
    KEY_FROM,
    MIN_VERSION,
    PATH_PARAMETERS,
    PREFIX,
    STORE,
    WATCHED_KEY,
    PathParameter,
    QueryParameter,
)
from oriel.app.contract.problems import (
    BodyTooLarge,
    InvalidBody,
    InvalidKey,
    InvalidParameter,
    KeyOfAnotherShard,
    KeysOfSeveralShards,
    MethodNotAllowed,
    NotAcceptable,
    TableReadsBusy,
    UnknownParameter,
    WrongStoreKind,
)
from oriel.app.contract.queries import NO_QUERY, Query
from oriel.storage import StoreKind
from oriel.storage import errors as storage

#: Kinds of stores by what can be read of them.
ROW_STORES = frozenset(kind for kind in StoreKind if not kind.is_windowed)
SESSION_STORES = frozenset(kind for kind in StoreKind if kind.is_session)
EVERY_STORE = frozenset(StoreKind)
WINDOW_STORES = EVERY_STORE - ROW_STORES

#: How a read of a table itself can fail.
TABLE_READ_PROBLEMS = (
    storage.VersionGone, storage.CorruptLog, storage.ObjectStoreFailed, storage.TableReadTooLarge,
    storage.TableReadTimeout, TableReadsBusy,
)  # fmt: skip

#: How an operation on a store can fail.
_STORE_PROBLEMS = (InvalidKey, storage.UnknownStore, storage.StoreNotReady, storage.IndexDamaged)


@dataclass(frozen=True)
class Operation:
    """One operation: what it is asked, what it answers and how it can fail.

    ``name`` is Kafka's where it has one, and the ``operationId``. ``path`` has its path parameters
    in braces; ``{key}`` is last and takes all the rest. ``answer`` is None for what is no JSON but
    text of ``text_type``, and does not look at its query.

    A hot read is answered before FastAPI, by ``oriel.app.reads``. Its path is that of the store,
    its name and its own path parameters, its query has the position parameters and ``times``, its
    answer comes in each form of ``MediaType``, and it fits stores of ``store_kinds`` only.

    A POST has a JSON list of keys as its body, and answers as a hot read but for validators.

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
    method: str = "GET"
    text_type: str = "text/html"

    @property
    def path_parameters(self) -> tuple[PathParameter, ...]:
        """The parameters in the path, in its order."""
        return tuple(PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", self.path))

    @property
    def has_forms(self) -> bool:
        """Whether the answer comes in each form of ``MediaType``, as ``Accept`` asks for it."""
        return self.is_hot or self.method == "POST" or self.answer is KeysAnswer

    @property
    def problems(self) -> tuple[type[Exception], ...]:
        """All errors that the operation can answer, but for those inside the service."""
        query = self.query.parameters
        path = self.path_parameters
        follow: tuple[tuple[bool, tuple[type[Exception], ...]], ...] = (
            # Any value of the query can be wrong, and of the path's parameters the times.
            (bool(query) or any(p.name.endswith("_ms") for p in path), (InvalidParameter,)),
            # A typing error must not be taken for no parameter; only the page takes any address.
            (self.answer is not None, (UnknownParameter,)),
            (STORE in path, _STORE_PROBLEMS),
            (MIN_VERSION in query, (storage.BehindPositionBound,)),
            (AS_OF_VERSION in query, (storage.VersionNotFound, *TABLE_READ_PROBLEMS)),
            (bool(self.store_kinds) and self.store_kinds != EVERY_STORE, (WrongStoreKind,)),
            (KEY in path or self.method == "POST", (KeyOfAnotherShard,)),
            (_names_keys(path, query) or self.method == "POST", (storage.UnfitKey,)),
            (CURSOR in query, (storage.InvalidCursor,)),
            (CURSOR in query or HISTORY in query, (storage.HistoryLost,)),
            (self.has_forms, (NotAcceptable,)),
            (self.method == "POST", (InvalidBody, BodyTooLarge, KeysOfSeveralShards)),
        )
        errors = [error for holds, of_condition in follow if holds for error in of_condition]
        return (*errors, *self.own_problems, MethodNotAllowed)


def _names_keys(path: Sequence[PathParameter], query: Sequence[QueryParameter]) -> bool:
    """Whether a request says keys, which must be of the store's type."""
    return KEY in path or any(each in query for each in (KEY_FROM, PREFIX, WATCHED_KEY))


WINDOWS_EXAMPLE: Json = {
    "store": "departures",
    "position": {
        "version": 17,
        "offsets": {"flights": {"0": 12345}},
        "history": "1a2b3c4d-99aabbcc",
    },
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
ROWS_EXAMPLE: Json = {
    "store": "totals",
    "position": {
        "version": 17,
        "offsets": {"flights": {"0": 12345}},
        "history": "1a2b3c4d-99aabbcc",
    },
    "rows": [{"key": "EWR", "departures": 1201, "timestamp_ms": 1357036140000}],
    "next_cursor": None,
}

#: Path of a store; those of its reads begin so.
STORE_PATH = "/v1/stores/{store}"

#: Makes the record of a hot read that answers windows; of sessions alone with other kinds.
windows_read = partial(
    Operation,
    tag="windows",
    answer=WindowsAnswer,
    example=WINDOWS_EXAMPLE,
    store_kinds=WINDOW_STORES,
    is_hot=True,
)

#: Makes the record of a hot read that answers rows.
rows_read = partial(
    Operation,
    tag="rows",
    answer=RowsAnswer,
    example=ROWS_EXAMPLE,
    store_kinds=ROW_STORES,
    is_hot=True,
)

#: Makes the record of a read of listed keys.
listed_windows_read = partial(windows_read, is_hot=False, method="POST")
listed_rows_read = partial(rows_read, is_hot=False, method="POST")
