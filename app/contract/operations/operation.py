"""Define the record of an operation, and the common parts of the records of hot reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from pydantic import BaseModel

from oriel.app.contract.parameters import (
    AS_OF_VERSION,
    CURSOR,
    HISTORY,
    KEY,
    KEY_FROM,
    MIN_VERSION,
    ORDER_BY,
    PATH_PARAMETERS,
    PREFIX,
    STORE,
    WATCHED_KEY,
    PathParameter,
    QueryParameter,
)
from oriel.app.contract.problems import (
    PROMETHEUS_PATH,
    BodyTooLarge,
    InvalidBody,
    InvalidKey,
    InvalidParameter,
    KeyOfAnotherShard,
    KeysOfSeveralShards,
    MethodNotAllowed,
    NotAcceptable,
    RankedReadLimit,
    TableReadsBusy,
    UnknownParameter,
    WrongStoreKind,
)
from oriel.app.contract.queries import NO_QUERY, Query
from oriel.app.contract.responses import (
    EXAMPLES,
    ROWS_EXAMPLE,
    SESSIONS_EXAMPLE,
    VERSIONS_EXAMPLE,
    WINDOWS_EXAMPLE,
    Json,
    KeysAnswer,
    RowsAnswer,
    VersionsResponse,
    WindowsAnswer,
)
from oriel.storage import StoreKind
from oriel.storage import errors as storage

#: Store kinds by their reads.
ROW_STORES = frozenset(kind for kind in StoreKind if not kind.is_windowed)
SESSION_STORES = frozenset(kind for kind in StoreKind if kind.is_session)
VERSIONED_STORES = frozenset({StoreKind.VERSIONED})
TUMBLING_STORES = frozenset({StoreKind.TUMBLING})
EVERY_STORE = frozenset(StoreKind)
WINDOW_STORES = EVERY_STORE - ROW_STORES

#: Problems of a table read.
TABLE_READ_PROBLEMS = (
    storage.VersionGone, storage.CorruptLog, storage.ObjectStoreFailed, storage.TableReadTooLarge,
    storage.TableReadTimeout, TableReadsBusy,
)  # fmt: skip

#: Problems of an operation on a store.
_STORE_PROBLEMS = (InvalidKey, storage.UnknownStore, storage.StoreNotReady, storage.IndexDamaged)


@dataclass(frozen=True)
class Operation:
    """One operation: its request, its response and its problems.

    A hot read is served before FastAPI, by ``oriel.app.reads``. Its path has the store, its name
    and its own path parameters. Its query has the position parameters and ``times``. Its response
    is available in each format of ``MediaType``.

    A POST has a JSON list of keys as its body, except ``sql``. Its response is the response of a
    hot read without validators.

    Attributes:
        name: The ``operationId``, which is the name of Kafka's method if it exists.
        path: The path, with its path parameters in braces. ``{key}`` is the last one and has the
            rest of the path.
        tag: The group of the operation in the OpenAPI document.
        summary: A few words about the operation.
        description: The result, the limits and the errors.
        response_model: The model of the response. Without a model, the response has the type
            ``text_type``, and ignores the query.
        query: The query parameters.
        example: An example response.
        own_problems: The problems that do not follow from path and query.
        other_statuses: The status codes with the same body as 200, and their meaning.
        store_kinds: The store kinds that the operation fits.
        is_hot: True for a hot read.
        method: The HTTP method.
        accepts_form: True if the operation is also a POST with its parameters as a form.
        text_type: The media type of a response without a model.
    """

    name: str
    path: str
    _: KW_ONLY
    tag: str
    summary: str
    description: str
    response_model: type[BaseModel] | None
    query: Query[Any] = NO_QUERY
    example: Json | str | None = None
    own_problems: tuple[type[Exception], ...] = ()
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    store_kinds: frozenset[StoreKind] = frozenset()
    is_hot: bool = False
    method: str = "GET"
    accepts_form: bool = False
    text_type: str = "text/html"

    @property
    def path_parameters(self) -> tuple[PathParameter, ...]:
        """Return the parameters in the path, in its order."""
        return tuple(PATH_PARAMETERS[name] for name in re.findall(r"{(\w+)}", self.path))

    @property
    def is_prometheus(self) -> bool:
        """Return whether the operation has the errors and the parameters of Prometheus' API."""
        return self.path.startswith(PROMETHEUS_PATH)

    @property
    def lists_keys(self) -> bool:
        """Return whether the body is a list of keys."""
        return self.method == "POST" and STORE in self.path_parameters

    @property
    def has_formats(self) -> bool:
        """Return whether the response is available in each format of ``MediaType``."""
        return self.is_hot or self.method == "POST" or self.response_model is KeysAnswer

    @property
    def response_example(self) -> Json | str | None:
        """Return an example response: JSON, text, or None for a web page."""
        is_of_sessions = self.store_kinds == SESSION_STORES
        return SESSIONS_EXAMPLE if is_of_sessions else self.example or EXAMPLES.get(self.name)

    @property
    def problems(self) -> tuple[type[Exception], ...]:
        """Return all problems that the operation can return, except internal errors."""
        query = self.query.parameters
        path = self.path_parameters
        follow: tuple[tuple[bool, tuple[type[Exception], ...]], ...] = (
            # Any value of the query can be invalid. In the path, the times can be.
            (bool(query) or any(p.name.endswith("_ms") for p in path), (InvalidParameter,)),
            # A typing error must not be ignored. Only the dashboard and Prometheus' API accept any
            # query.
            (self.response_model is not None and not self.is_prometheus, (UnknownParameter,)),
            (self.accepts_form, (BodyTooLarge,)),
            (STORE in path, _STORE_PROBLEMS),
            (MIN_VERSION in query, (storage.BehindPositionBound,)),
            (AS_OF_VERSION in query, (storage.VersionNotFound, *TABLE_READ_PROBLEMS)),
            (bool(self.store_kinds) and self.store_kinds != EVERY_STORE, (WrongStoreKind,)),
            (KEY in path or self.lists_keys, (KeyOfAnotherShard,)),
            (_names_keys(path, query) or self.lists_keys, (storage.KeyTypeMismatch,)),
            (ORDER_BY in query, (RankedReadLimit,)),
            (CURSOR in query, (storage.InvalidCursor,)),
            (CURSOR in query or HISTORY in query, (storage.HistoryLost,)),
            (self.has_formats, (NotAcceptable,)),
            (self.method == "POST", (InvalidBody, BodyTooLarge)),
            (self.lists_keys, (KeysOfSeveralShards,)),
        )
        errors = [
            error for holds, errors_of_condition in follow if holds for error in errors_of_condition
        ]
        return (*errors, *self.own_problems, MethodNotAllowed)


def _names_keys(path: Sequence[PathParameter], query: Sequence[QueryParameter]) -> bool:
    """Return whether a request names keys, which must have the store's key type."""
    return KEY in path or any(each in query for each in (KEY_FROM, PREFIX, WATCHED_KEY))


#: Path of a store. The paths of its reads begin with it.
STORE_PATH = "/v1/stores/{store}"

#: Create the record of a hot read that returns windows. Reads of sessions set ``store_kinds``.
windows_read = partial(
    Operation,
    tag="windows",
    response_model=WindowsAnswer,
    example=WINDOWS_EXAMPLE,
    store_kinds=WINDOW_STORES,
    is_hot=True,
)

#: Create the record of a hot read that returns rows.
rows_read = partial(
    Operation,
    tag="rows",
    response_model=RowsAnswer,
    example=ROWS_EXAMPLE,
    store_kinds=ROW_STORES,
    is_hot=True,
)

#: Create the record of a hot read that returns versions of rows.
versions_read = partial(
    rows_read,
    response_model=VersionsResponse,
    example=VERSIONS_EXAMPLE,
    store_kinds=VERSIONED_STORES,
)

#: Create the record of a read of listed keys.
listed_windows_read = partial(windows_read, is_hot=False, method="POST")
listed_rows_read = partial(rows_read, is_hot=False, method="POST")
