"""Define the errors of the client, with one class per kind of problem document of the service.

OrielError
|-- ServiceUnreachable      No response arrived.
|-- UnexpectedAnswer        The response is not from Oriel.
`-- Problem                 The service returned an error.
    |-- UnknownStore        The store does not exist.
    |-- NotFound            The window, session, row or path does not exist.
    |-- InvalidRequest      The request is invalid.
    |   |-- KeysOfSeveralShards  The keys of a list belong to several shards.
    |   `-- Gone            The version or cursor no longer exists.
    |-- NotAllowed          The token is missing, or does not grant access.
    |-- PositionNotReached  The store did not reach the requested position in time.
    |-- NotReady            The service or the store is not ready.
    `-- ServiceFailed       The service failed.
"""

import json
from collections.abc import Mapping

#: Problem codes whose class does not follow from the status.
_UNKNOWN_STORE, _BEHIND = "unknown-store", "behind-position-bound"
_SEVERAL_SHARDS = "keys-of-several-shards"


class OrielError(Exception):
    """Base of all errors of this package.

    Example:
        >>> try:
        ...     client.store("arrivals")
        ... except OrielError as error:
        ...     print(error)
        store 'arrivals' does not exist. The stores are: bursts, departures, prices, totals.
    """


class ServiceUnreachable(OrielError):
    """No response arrived. The message has the address and the reason."""


class UnexpectedAnswer(OrielError):
    """The response is not from Oriel. The message has its status and its beginning."""


class Problem(OrielError):
    """A problem document (RFC 9457) of the service.

    Attributes:
        code: the code for programs, which never changes its meaning.
        title: the kind of problem, for people.
        detail: what is wrong with this request, for people.
        status: the HTTP status code.
        instance: the path of the request.
        retry_after_s: seconds after which to send the request again, None if a retry does not help.

    Example:
        >>> try:
        ...     client.store("arrivals")
        ... except Problem as problem:
        ...     print(problem.status, problem.code)
        404 unknown-store
    """

    code: str
    title: str
    detail: str
    status: int
    instance: str
    retry_after_s: float | None

    def __init__(self, document: Mapping[str, object], retry_after_s: float | None = None) -> None:
        """Read the fields of the document. The message is its detail."""
        self.code = str(document["code"])
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail", ""))
        self.status = int(str(document["status"]))
        self.instance = str(document.get("instance", ""))
        self.retry_after_s = retry_after_s
        super().__init__(self.detail or self.title)

    @property
    def may_pass(self) -> bool:
        """Return whether the same request can succeed later."""
        return self.status in {429, 502, 503, 504}


class UnknownStore(Problem):
    """The store does not exist. The detail lists the stores of the service."""


class NotFound(Problem):
    """The window, session, row or path does not exist."""


class InvalidRequest(Problem):
    """The request is invalid. The detail describes the reason."""


class KeysOfSeveralShards(InvalidRequest):
    """The keys of a list belong to several shards. Send one request per shard.

    Attributes:
        owners: the shard of each key, in the order of the list.
    """

    owners: tuple[int, ...]

    def __init__(self, document: Mapping[str, object], retry_after_s: float | None = None) -> None:
        super().__init__(document, retry_after_s)
        owners = document.get("owners")
        self.owners = tuple(map(int, owners)) if isinstance(owners, list) else ()


class Gone(InvalidRequest):
    """A version or cursor was cleaned up, or a restore ended its history. Read the store again."""


class NotAllowed(Problem):
    """The token is missing, or does not grant access."""


class PositionNotReached(Problem):
    """The store did not reach the requested position in time."""


class NotReady(Problem):
    """The service or the store is not ready. The client has already sent the request again."""


class ServiceFailed(Problem):
    """The service failed. Its log has the reason."""


def problem_of(status: int, content: bytes, retry_after_s: float | None) -> OrielError:
    """Return the error of a response with another status code than 200 and 304."""
    try:
        document = json.loads(content)
        code = document["code"]
    except (ValueError, KeyError, TypeError):
        if status in {429, 502, 503, 504}:
            # A proxy responds for a service that is unavailable for a moment.
            detail = f"the response with status {status} has no reason"
            return NotReady({"code": "none", "status": status, "detail": detail}, retry_after_s)
        shown = content[:200].decode("utf-8", "replace")
        return UnexpectedAnswer(f"the response with status {status} is not from Oriel: {shown!r}")
    return _class_of(str(code), status)(document, retry_after_s)


def _class_of(code: str, status: int) -> type[Problem]:
    if code == _UNKNOWN_STORE:
        return UnknownStore
    if code == _BEHIND:
        return PositionNotReached
    if code == _SEVERAL_SHARDS:
        return KeysOfSeveralShards
    by_status = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 410: Gone, 429: NotReady}
    if status in by_status:
        return by_status[status]
    if status < 500:
        return InvalidRequest
    return NotReady if status in {502, 503, 504} else ServiceFailed
