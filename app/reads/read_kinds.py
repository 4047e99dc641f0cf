"""Which hot reads fit which kind of store."""

from collections.abc import Mapping

from oriel.app.contract import WrongStoreKind
from oriel.storage import KINDS, NONE, SESSION

_WINDOW_READS = (b"fetch", b"backwardFetch", b"latest", b"window")
_SESSION_READS = (b"findSessions", b"backwardFindSessions", b"session")
_KEY_VALUE_READS = (b"get",)

#: The reads of each kind of store, in the order in which messages name them.
READS_OF_KIND: Mapping[str, tuple[bytes, ...]] = {
    **dict.fromkeys(KINDS, _WINDOW_READS),
    SESSION: (*_SESSION_READS, *_WINDOW_READS),
    NONE: _KEY_VALUE_READS,
}


def wrong_kind(store: str, kind: str, read: bytes) -> WrongStoreKind:
    """The error of a read that does not fit a store's kind; it names those that do."""
    what = "no windows" if kind == NONE else f"{kind} windows"
    fitting = b", ".join(READS_OF_KIND[kind]).decode()
    message = f"store {store!r} has {what}; {read.decode()} does not fit it, use {fitting}"
    return WrongStoreKind(message)
