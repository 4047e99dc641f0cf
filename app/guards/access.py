"""Check the token of each request, and what it grants access to.

    no valid token                          401
    no access to the store                  404, as for a store that does not exist
    no access to the key                    403, with the keys that the token grants access to

By default, a path needs a token for all stores, and a token for some keys reads only by these
keys. So a new operation is rejected until this module lists it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from time import monotonic
from typing import Any, Protocol

from oriel.app.contract import (
    OPERATIONS,
    PROMETHEUS_PATH,
    SQL_PATH,
    ApiError,
    Forbidden,
    Operation,
    Unauthorized,
    decode_path,
)
from oriel.app.guards.gate import Scope
from oriel.storage import UnknownStore, log_line, one_line, say

#: The key of a request's access in its scope.
ACCESS = "oriel.access"

#: Pages and documents without data, and the health of the process.
_OPEN_PATHS = frozenset({b"/", b"/healthz", b"/openapi.json", b"/docs"})
_OPEN_PREFIXES = (b"/docs/", b"/page/")
#: The paths of probes and monitoring. With ``open_probes``, they also need no token.
_PROBE_PATHS = frozenset({b"/readyz", b"/freshz", b"/metrics"})
#: Lists that omit the stores that a token does not grant access to.
_LIST_PATHS = frozenset({b"/v1/stores", b"/v1/status", b"/v1/topology"})
#: Reads that select only what the token grants access to (``oriel.app.prometheus``).
_PROMETHEUS_PREFIX = f"{PROMETHEUS_PATH}/".encode()
_SQL_PATH = SQL_PATH.encode()
_SCHEME = b"bearer "
#: Seconds for which a token that was valid is assumed to be valid.
_RECENT_SECONDS = 1.0

_NO_STORE = "The token does not grant access to a store with this name. Use another name or token."
_ALL_KEYS = (
    "The token grants access to some keys, but this request is about all keys. Use a "
    "token for all keys."
)

_NO_KEYS = (
    "The token grants access to some keys, but a SQL query reads all keys of its stores. Use a "
    "token for all keys."
)


@dataclass(frozen=True)
class Access:
    """The stores and keys that a token grants access to.

    Attributes:
        name: The name of the token for log lines.
        stores: Names of stores, in which ``*`` matches any text.
        key_prefixes: The token grants access only to keys with these prefixes. None means any
            key. An empty tuple is for monitoring.
    """

    name: str
    stores: tuple[str, ...] = ("*",)
    key_prefixes: tuple[str, ...] | None = None

    @cached_property
    def grants_everything(self) -> bool:
        """Return whether it grants access to every store and key."""
        return self.key_prefixes is None and self.grants_all_stores()

    def grants_store(self, store: str) -> bool:
        """Return whether it grants access to a store with this name."""
        return any(fnmatchcase(store, pattern) for pattern in self.stores)

    def grants_all_stores(self) -> bool:
        """Return whether it grants access to every store."""
        return "*" in self.stores

    def grants_key(self, key: str) -> bool:
        """Return whether it grants access to a key, or to all keys with a prefix."""
        return self.key_prefixes is None or key.startswith(self.key_prefixes)


class TokenVerifier(Protocol):
    """Verifies tokens from one source."""

    def follow(self) -> None:
        """Read the tokens or keys again if it is time. A worker calls this every second."""

    def access_of(self, token: bytes) -> Access | None:
        """Return what a token grants access to, None if it is unknown or was removed.

        Raises:
            Forbidden: The token is valid, but its claims about stores or keys are malformed.
        """


class AccessGuard:
    """Checks each request of a service that has tokens."""

    def __init__(self, verifiers: Sequence[TokenVerifier], *, open_probes: bool = False) -> None:
        """Create a guard that accepts the tokens of all ``verifiers``."""
        self._verifiers = tuple(verifiers)
        self._open_paths = _OPEN_PATHS | _PROBE_PATHS if open_probes else _OPEN_PATHS
        #: The access of recently sent tokens, by the whole value of the header field.
        self._recent: dict[bytes, Access] = {}
        self._recent_until = 0.0

    def check(self, scope: Scope, authorization: bytes | None) -> None:
        """Accept a request and put its ``Access`` into the scope. Log each rejection.

        Raises:
            Unauthorized: The request has no valid token.
            UnknownStore: The token does not grant access to the store.
            Forbidden: The token does not grant access to the key or the path.
        """
        path = scope["raw_path"]
        if path in self._open_paths or path.startswith(_OPEN_PREFIXES):
            return
        access: Access | None = None
        try:
            access = self._access_of(authorization)
            if not access.grants_everything:
                _check_path(access, path, scope["query_string"])
        except (ApiError, UnknownStore) as error:
            _log_denied(scope, access, error)
            raise
        scope[ACCESS] = access

    def follow(self) -> None:
        """Read tokens and keys again if it is time."""
        for verifier in self._verifiers:
            verifier.follow()

    def check_again(self, scope: Scope) -> None:
        """Check a request in progress again with the current tokens. See ``check``."""
        self.check(scope, dict(scope["headers"]).get(b"authorization"))

    def _access_of(self, authorization: bytes | None) -> Access:
        now = monotonic()
        if now >= self._recent_until:
            self._recent.clear()
            self._recent_until = now + _RECENT_SECONDS
        value = authorization or b""
        access = self._recent.get(value)
        if access is not None:
            return access
        token = value[len(_SCHEME) :].strip()
        if value[: len(_SCHEME)].lower() != _SCHEME or not token:
            message = (
                "Authorization: the request has no token. Send it as 'Authorization: Bearer TOKEN'."
            )
            raise Unauthorized(message)
        for verifier in self._verifiers:
            access = verifier.access_of(token)
            if access is not None:
                self._recent[value] = access
                return access
        message = (
            "Authorization: the token is unknown, has expired or was removed. Send a valid token."
        )
        raise Unauthorized(message)


def _check_path(access: Access, path: bytes, query: bytes) -> None:
    if path in _LIST_PATHS or path.startswith(_PROMETHEUS_PREFIX):
        return
    if path == _SQL_PATH:
        _check_sql(access)
        return
    parts = path.split(b"/", 5)
    if parts[1:3] != [b"v1", b"stores"]:
        if not access.grants_all_stores():
            message = (
                "The token grants access to some stores, but this request is about all "
                "stores. Use a token for all stores."
            )
            raise Forbidden(message)
        if parts[1] == b"v1" and access.key_prefixes is not None:
            raise Forbidden(_ALL_KEYS)
        if path == b"/metrics" and access.key_prefixes:
            raise Forbidden(_ALL_KEYS)
        return
    if not access.grants_store(decode_path(parts[3])):
        raise UnknownStore(_NO_STORE)
    if access.key_prefixes is None or len(parts) == 4:
        return
    operation = _BY_PATH.get(parts[4].decode("latin-1"))
    # The route of a POST has the keys, and calls check_keys.
    if operation is None or operation.method != "POST":
        check_keys(access, _requested_keys(operation, parts, query))


def _check_sql(access: Access) -> None:
    """Reject a token for some keys. A query only sees the stores of its token."""
    if access.key_prefixes is not None:
        raise Forbidden(_NO_KEYS)


def check_keys(access: Access, keys: Iterable[str] | None) -> None:
    """Check that a token grants access to keys, or to all keys with these prefixes.

    Args:
        access: The access of the token.
        keys: The keys or prefixes that a request names, None if it is about all keys.

    Raises:
        Forbidden: The token does not grant access to one of the keys.
    """
    if access.key_prefixes is None:
        return
    if keys is None or not all(map(access.grants_key, keys)):
        known = ", ".join(map(repr, access.key_prefixes)) or "nothing"
        message = (
            f"The token grants access only to keys that begin with {known}. Send these "
            "keys, or use one of these prefixes."
        )
        raise Forbidden(message)


def _requested_keys(
    operation: Operation | None, parts: Sequence[bytes], query: bytes
) -> Sequence[str] | None:
    """Return the keys or prefixes that a request names, None if it is about all keys."""
    if operation is None:
        return None
    if operation.path.endswith("{key}"):
        # As in the reads, the last path parameter is the whole rest.
        _store, *own = operation.path_parameters
        rest = parts[5] if len(parts) == 6 else b""
        return [decode_path(rest.split(b"/", len(own) - 1)[-1])]
    values = operation.query.read(query)
    if operation.name == "watch":
        return values["key"] or None
    return [values["prefix"]] if values.get("prefix") else None


#: Operations of a store by the part of their path that names them.
_BY_PATH: Mapping[str, Operation] = {
    operation.path.split("/")[4]: operation
    for operation in OPERATIONS.values()
    if operation.path.startswith("/v1/stores/{store}/")
}


def sees_totals(scope: Mapping[str, Any]) -> bool:
    """Return whether a request is allowed to read numbers about all keys of a store.

    A token for some keys is not. A token without keys is for monitoring, so it is.
    """
    access: Access | None = scope.get(ACCESS)
    return access is None or not access.key_prefixes


def hide_other_stores(scope: Scope, error: Exception) -> Exception:
    """Replace the error of an unknown store by the error of a forbidden one, if tokens are used."""
    if isinstance(error, UnknownStore) and ACCESS in scope:
        return UnknownStore(_NO_STORE)
    return error


def _log_denied(scope: Scope, access: Access | None, error: Exception) -> None:
    """Write the audit line of a rejection, without the token."""
    client = scope.get("client")
    address = client[0] if client else "unknown"
    # The client chooses the path, and with some identity providers also its name.
    path = one_line(scope["raw_path"].decode("latin-1"))
    name = None if access is None else one_line(access.name)
    fields = {"client": address, "method": scope["method"], "path": path, "token": name}
    event = log_line("request denied", **fields | {"token": name or "none"})
    line = f"{event}. {one_line(str(error))}"
    say("denied", line, level="warning", **fields, reason=type(error).__name__)
