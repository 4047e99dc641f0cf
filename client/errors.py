"""What a call can raise: one class per kind of problem document that the service answers.

OrielError
|-- ServiceUnreachable      no answer came: refused, timed out, broken off
|-- UnexpectedAnswer        an answer that is not Oriel's (a proxy's page, say)
`-- Problem                 the service says what is wrong; ``code`` never changes its meaning
    |-- UnknownStore        no store of that name; the detail lists those there are
    |-- NotFound            no such window, session, row or path
    |-- InvalidRequest      a parameter, key or cursor that can't be, or a read that the
    |                       store's kind doesn't have
    |   |-- KeysOfSeveralShards  keys of a list are in several shards: ``owners`` says where
    |   `-- Gone            a version or cursor that was cleaned up, or of a history that a
    |                       restore ended: read again from the start
    |-- NotAllowed          a token is missing, or doesn't cover this
    |-- PositionNotReached  the store has not come to the demanded position in time
    |-- NotReady            the service or the store can't answer now; a retry may help
    `-- ServiceFailed       the service failed inside
"""

import json
from collections.abc import Mapping

#: Problem code -> class, where the status alone doesn't say it.
_UNKNOWN_STORE, _BEHIND = "unknown-store", "behind-position-bound"
_SEVERAL_SHARDS = "keys-of-several-shards"


class OrielError(Exception):
    """Base of all errors of this package."""


class ServiceUnreachable(OrielError):
    """No answer came; the message says from where, and why."""


class UnexpectedAnswer(OrielError):
    """The answer is not one of Oriel's; the message shows its status and beginning."""


class Problem(OrielError):
    """A problem document (RFC 9457) of the service.

    ``code`` is for programs and never changes its meaning, ``title`` and ``detail`` are for
    people. ``retry_after_s`` is what the service asks to wait before a retry, None if it doesn't.
    """

    code: str
    title: str
    detail: str
    status: int
    instance: str
    retry_after_s: float | None

    def __init__(self, document: Mapping[str, object], retry_after_s: float | None = None) -> None:
        """Take the fields out of the document; the message is its detail."""
        self.code = str(document["code"])
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail", ""))
        self.status = int(str(document["status"]))
        self.instance = str(document.get("instance", ""))
        self.retry_after_s = retry_after_s
        super().__init__(self.detail or self.title)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status in {429, 502, 503, 504}


class UnknownStore(Problem):
    """There is no store of that name."""


class NotFound(Problem):
    """There is no such window, session, row or path."""


class InvalidRequest(Problem):
    """The request can't be answered as it is; the detail says what is wrong."""


class KeysOfSeveralShards(InvalidRequest):
    """No service has all keys of a list, because the keys are divided into shards.

    ``owners`` has the shard of each key, in the order of the list. Read the keys of each shard by
    a request of their own.
    """

    owners: tuple[int, ...]

    def __init__(self, document: Mapping[str, object], retry_after_s: float | None = None) -> None:
        """Take the fields out of the document."""
        super().__init__(document, retry_after_s)
        owners = document.get("owners")
        self.owners = tuple(map(int, owners)) if isinstance(owners, list) else ()


class Gone(InvalidRequest):
    """A version or cursor was cleaned up, or a restore ended its history: read again."""


class NotAllowed(Problem):
    """A token is missing, or doesn't cover this."""


class PositionNotReached(Problem):
    """The store has not come to the demanded position in time."""


class NotReady(Problem):
    """The service or the store can't answer now."""


class ServiceFailed(Problem):
    """The service failed inside; its log says why."""


def problem_of(status: int, content: bytes, retry_after_s: float | None) -> OrielError:
    """The error that an answer other than 200 and 304 is."""
    try:
        document = json.loads(content)
        code = document["code"]
    except (ValueError, KeyError, TypeError):
        if status in {429, 502, 503, 504}:
            # A proxy speaks for a service that is away for a moment.
            detail = f"status {status} without a reason"
            return NotReady({"code": "none", "status": status, "detail": detail}, retry_after_s)
        shown = content[:200].decode("utf-8", "replace")
        return UnexpectedAnswer(f"status {status} is not a response of Oriel: {shown!r}")
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
