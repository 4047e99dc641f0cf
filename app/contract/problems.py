"""Turn the errors of a request into problem documents (RFC 9457).

    ApiError                    errors of a request that do not come from storage
    |-- InvalidParameter        a parameter cannot be read or is out of its range
    |-- UnknownParameter        the operation does not have this parameter
    |-- InvalidKey              the path is not percent-encoded UTF-8, or its key is too long
    |-- InvalidBody             the body is not a JSON list of keys, or not a SQL query
    |-- BodyTooLarge            the body has more bytes than the limit
    |-- WrongStoreKind          the operation does not fit the store's kind of windows
    |-- WindowNotFound          the window or session does not exist
    |-- RankedReadLimit         a read with an order exceeds a limit
    |-- QueryNotComputable      a query of Prometheus' API exceeds a limit, or has no result
    |-- InvalidSql, SqlLimit    a SQL query is rejected, or exceeds a limit
    |-- SqlDisabled, SqlBusy, SqlFailed   the service runs no SQL queries, or no more now
    |-- TableReadsBusy          the process already has as many table reads as its limit
    |-- RowNotFound             the key has no row in a store without windows
    |-- VersionNotValid         the key had no row at a time
    |-- TopologyNotFound        no pipeline has written its topology
    |-- KeyOfAnotherShard       another service has the key
    |-- KeysOfSeveralShards     no service has all keys of the list
    |-- NotAcceptable           the request accepts no response format or content coding
    |-- UnknownRoute            no operation has this path
    |-- MethodNotAllowed        the operation of this path has another method
    |-- Overloaded              the worker has reached one of its limits
    |-- RequestTooSlow          no response began within the time limit
    |-- ShuttingDown            the worker is shutting down
    |-- RequestTimeout          header or body did not arrive in time
    |-- HeaderTooLarge          the header fields are longer than the limit
    |-- UrlTooLong              path and query are longer than the limit
    |-- UnknownHost             the service does not serve the host of the Host field
    |-- Unauthorized            the request has no valid token
    `-- Forbidden               the token does not grant access

Each kind of problem has a ``code`` that never changes its meaning, so programs use it.
``title`` is the same for all problems of a kind. ``detail`` describes this request.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import orjson
from starlette.exceptions import HTTPException

from oriel.storage import errors as storage

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"

#: Seconds after which a client should try again after a problem that can end by itself.
RETRY_AFTER_SECONDS = 1

_TYPE_PREFIX = "urn:oriel:problem:"

#: The path of Prometheus' API. Its errors have Prometheus' format.
PROMETHEUS_PATH = "/prometheus/api/v1"
#: Prometheus' type of an error, by its status.
_ERROR_TYPES = {
    400: "bad_data", 401: "unauthorized", 403: "forbidden", 404: "not_found", 422: "execution",
    500: "internal", 503: "unavailable",
}  # fmt: skip


class ApiError(Exception):
    """Base of the errors above. The message becomes the ``detail``."""


class InvalidParameter(ApiError):
    """The message names the parameter and its range."""


class UnknownParameter(ApiError):
    """The message names the parameters that the operation has."""


class InvalidKey(ApiError):
    """The message names the byte that breaks the encoding."""


class InvalidBody(ApiError):
    """The message describes a valid body."""


class BodyTooLarge(ApiError):
    """The message names the limit of a body."""


class WrongStoreKind(ApiError):
    """The message names the reads that fit the store."""


class WindowNotFound(ApiError):
    """The key does not have the window. It has expired, or does not exist yet."""


class RowNotFound(ApiError):
    """The key has no record yet, or its row was removed."""


class VersionNotValid(ApiError):
    """No version was valid at the time, or it is older than the history."""


class RankedReadLimit(ApiError):
    """The message names the limit. The client can request fewer keys or times."""


class QueryNotComputable(ApiError):
    """The message names the limit that the query exceeds, or the series without a result."""


class InvalidSql(ApiError):
    """The message is from DuckDB, or names what a query can contain."""


class SqlLimit(ApiError):
    """The message names the limit. The client can select less."""


class SqlBusy(ApiError):
    """The message names the limit. The client can send the query again."""


class SqlDisabled(ApiError):
    """The message names the option that enables SQL."""


class SqlFailed(ApiError):
    """The message has the exit code of the process."""


class KeyOfAnotherShard(ApiError):
    """The message names the shard that has the key. ``owner`` is its number."""

    def __init__(self, message: str, owner: int = 0) -> None:
        super().__init__(message)
        self.owner = owner


class KeysOfSeveralShards(ApiError):
    """The message describes how to divide the list. ``owners`` has the shard of each key."""

    def __init__(self, message: str, owners: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.owners = owners


class TableReadsBusy(ApiError):
    """The message names the limit of table reads of a process."""


class TopologyNotFound(ApiError):
    """The message describes how the pipeline writes its topology."""


class NotAcceptable(ApiError):
    """The message names the formats, or the content codings, of the response."""


class UnknownRoute(ApiError):
    """The message names the path of the operation if it is known."""


class MethodNotAllowed(ApiError):
    """An operation is either GET (and HEAD) or POST."""


class Overloaded(ApiError):
    """The message names the limit. The client can send the request again."""


class RequestTooSlow(ApiError):
    """The message names the limit. The client can request less data."""


class ShuttingDown(ApiError):
    """Another worker, or the next process, responds if the client sends the request again."""


class RequestTimeout(ApiError):
    """The message names the limit."""


class HeaderTooLarge(ApiError):
    """The message names the limit."""


class UrlTooLong(ApiError):
    """The message names the limit."""


class UnknownHost(ApiError):
    """The message names the option that allows a host."""


class Unauthorized(ApiError):
    """The message describes how to send a token. It never names the part that is wrong."""


class Forbidden(ApiError):
    """The message names what the token grants access to, and nothing that the stores contain."""


class ProblemKind(NamedTuple):
    """One kind of problem: HTTP status, stable code, title, and whether a retry can succeed."""

    status: int
    code: str
    title: str
    retry: bool = False


INTERNAL_ERROR = ProblemKind(500, "internal-error", "The service failed")
MALFORMED_REQUEST = ProblemKind(400, "malformed-request", "The request is not valid HTTP")

#: The problem of each exception. A subclass without an entry has the kind of its base.
PROBLEM_KINDS: dict[type[Exception], ProblemKind] = {
    InvalidParameter: ProblemKind(400, "invalid-parameter", "A parameter is not valid"),
    UnknownParameter: ProblemKind(400, "unknown-parameter", "The parameter is not known"),
    InvalidKey: ProblemKind(400, "invalid-key", "The key is not valid"),
    InvalidBody: ProblemKind(400, "invalid-body", "The body is not valid"),
    BodyTooLarge: ProblemKind(413, "body-too-large", "The body exceeds the limit"),
    WrongStoreKind: ProblemKind(400, "wrong-store-kind", "The operation does not fit the store"),
    WindowNotFound: ProblemKind(404, "window-not-found", "The window does not exist"),
    RowNotFound: ProblemKind(404, "row-not-found", "The row does not exist"),
    VersionNotValid: ProblemKind(404, "version-not-valid", "The key had no row at this time"),
    TopologyNotFound: ProblemKind(
        404, "topology-not-found", "No pipeline has written its topology"
    ),
    KeyOfAnotherShard: ProblemKind(421, "key-of-another-shard", "Another shard has the key"),
    KeysOfSeveralShards: ProblemKind(
        400, "keys-of-several-shards", "The keys belong to several shards"
    ),
    TableReadsBusy: ProblemKind(
        503, "table-reads-busy", "The limit of table reads is reached", retry=True
    ),
    RankedReadLimit: ProblemKind(
        400, "ranked-read-limit", "The read with an order exceeds a limit"
    ),
    QueryNotComputable: ProblemKind(422, "query-not-computable", "The query cannot be computed"),
    InvalidSql: ProblemKind(400, "invalid-sql", "The SQL query is not valid"),
    SqlLimit: ProblemKind(400, "sql-limit", "The SQL query exceeds a limit"),
    SqlBusy: ProblemKind(429, "sql-busy", "The limit of SQL queries is reached", retry=True),
    SqlDisabled: ProblemKind(404, "sql-disabled", "The service does not run SQL queries"),
    SqlFailed: ProblemKind(503, "sql-failed", "The SQL query failed", retry=True),
    UnknownRoute: ProblemKind(404, "unknown-route", "The path does not exist"),
    MethodNotAllowed: ProblemKind(405, "method-not-allowed", "The method is not allowed"),
    Overloaded: ProblemKind(503, "overloaded", "The service is overloaded", retry=True),
    RequestTooSlow: ProblemKind(
        503, "request-too-slow", "The response exceeds the time limit", retry=True
    ),
    ShuttingDown: ProblemKind(503, "shutting-down", "The service is shutting down", retry=True),
    RequestTimeout: ProblemKind(408, "request-timeout", "The request did not arrive in time"),
    HeaderTooLarge: ProblemKind(431, "header-too-large", "The header fields exceed the limit"),
    UrlTooLong: ProblemKind(414, "url-too-long", "The URL exceeds the limit"),
    UnknownHost: ProblemKind(421, "unknown-host", "The host is not allowed"),
    Unauthorized: ProblemKind(401, "unauthorized", "The request needs a valid token"),
    Forbidden: ProblemKind(403, "forbidden", "The token does not grant access"),
    NotAcceptable: ProblemKind(406, "not-acceptable", "The format or coding is not available"),
    storage.InvalidCursor: ProblemKind(400, "invalid-cursor", "The cursor is not valid"),
    storage.KeyTypeMismatch: ProblemKind(
        400, "unfit-key", "The key does not have the store's key type"
    ),
    storage.UnknownStore: ProblemKind(404, "unknown-store", "The store does not exist"),
    storage.VersionNotFound: ProblemKind(
        404, "version-not-found", "The table version does not exist"
    ),
    storage.VersionGone: ProblemKind(410, "version-gone", "The table version was deleted"),
    storage.HistoryLost: ProblemKind(410, "history-lost", "The version belongs to a lost history"),
    storage.CorruptLog: ProblemKind(503, "table-damaged", "The table cannot be read", retry=True),
    storage.TableReadTooLarge: ProblemKind(
        400, "table-read-too-large", "The table read exceeds the row limit"
    ),
    storage.TableReadTimeout: ProblemKind(
        503, "table-read-timeout", "The table read exceeds the time limit", retry=True
    ),
    storage.ObjectStoreFailed: ProblemKind(
        503, "object-store-failed", "The object store cannot be read", retry=True
    ),
    storage.BehindPositionBound: ProblemKind(
        503, "behind-position-bound", "The store has not reached the requested position", retry=True
    ),
    storage.IndexDamaged: ProblemKind(
        503, "index-damaged", "The index is being rebuilt from the table", retry=True
    ),
    storage.StoreNotReady: ProblemKind(
        503, "store-not-ready", "The store is not ready", retry=True
    ),
}

#: Every kind of problem that a response can have.
ALL_KINDS = (*PROBLEM_KINDS.values(), INTERNAL_ERROR, MALFORMED_REQUEST)

#: The problem of each status of the framework. Any other status is an internal error.
_KIND_OF_STATUS = {404: PROBLEM_KINDS[UnknownRoute], 405: PROBLEM_KINDS[MethodNotAllowed]}


#: Problems of every request, before an operation gets it.
GUARD_PROBLEMS: tuple[type[ApiError], ...] = (
    Overloaded, RequestTooSlow, ShuttingDown, RequestTimeout, HeaderTooLarge, UrlTooLong,
    BodyTooLarge, UnknownHost, Unauthorized, Forbidden, NotAcceptable,
)  # fmt: skip


class ProblemResponse(NamedTuple):
    """A finished error response."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def problem_response(error: Exception, instance: str) -> ProblemResponse:
    """Turn an exception into a response. An unknown exception is logged and becomes a 500.

    ``instance`` is the path of the request.
    """
    kind = kind_of(error)
    if kind is INTERNAL_ERROR:
        # The response does not contain the message, because it can contain paths or data.
        logger.error("unexpected error: path=%s", instance, exc_info=error)
        detail = "The service failed. See its log for the reason."
    elif isinstance(error, HTTPException):
        detail = "The path is not an operation. See /openapi.json for the operations."
    else:
        detail = str(error)
    allow = (getattr(error, "headers", None) or {}).get("Allow", "")
    more = {"owners": error.owners} if isinstance(error, KeysOfSeveralShards) else {}
    allowed = b"POST" if allow == "POST" else b"GET, HEAD"
    if {"GET", "POST"} <= {*allow.split(", ")}:
        allowed = b"GET, HEAD, POST"
    response = _response(kind, detail, instance, more, allow=allowed)
    if isinstance(error, KeyOfAnotherShard):
        # A router sends the request to this shard (docs/how-to/routing.md).
        response.headers.append((b"oriel-owner", b"%d" % error.owner))
    return response


def malformed_request(detail: str) -> ProblemResponse:
    """Return the response to bytes that are not an HTTP request, which have no path."""
    return _response(MALFORMED_REQUEST, detail, "")


def kind_of(error: Exception) -> ProblemKind:
    """Return the kind of problem of an exception, by its nearest base in ``PROBLEM_KINDS``."""
    if isinstance(error, HTTPException):
        return _KIND_OF_STATUS.get(error.status_code, INTERNAL_ERROR)
    kinds = (PROBLEM_KINDS[base] for base in type(error).__mro__ if base in PROBLEM_KINDS)
    return next(kinds, INTERNAL_ERROR)


def problem_document(kind: ProblemKind, detail: str, instance: str) -> dict[str, object]:
    """Return the fields of RFC 9457, and ``code``."""
    return {
        "type": _TYPE_PREFIX + kind.code,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": instance,
        "code": kind.code,
    }


def prometheus_error(kind: ProblemKind, detail: str) -> dict[str, str]:
    """Return an error in the format of Prometheus' API. Grafana shows the text of ``error``."""
    is_timeout = kind is PROBLEM_KINDS[RequestTooSlow]
    error_type = "timeout" if is_timeout else _ERROR_TYPES.get(kind.status, "bad_data")
    return {"status": "error", "errorType": error_type, "error": detail}


def _response(
    kind: ProblemKind,
    detail: str,
    instance: str,
    more: Mapping[str, object] = MappingProxyType({}),
    *,
    allow: bytes = b"GET, HEAD",
) -> ProblemResponse:
    # JSON cannot contain a lone surrogate, and clients choose the path.
    printable = [text.encode("utf-8", "replace").decode() for text in (detail, instance)]
    is_prometheus = instance.startswith(PROMETHEUS_PATH)
    document = problem_document(kind, *printable)
    body = orjson.dumps(
        prometheus_error(kind, printable[0]) if is_prometheus else {**document, **more}
    )
    headers = [
        (b"content-type", b"application/json" if is_prometheus else CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if kind.retry:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
    if kind.status == 405:
        headers.append((b"allow", allow))
    if kind.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="oriel"'))
    return ProblemResponse(kind.status, headers, body)
