"""A client of the service, in the shape of Kafka Streams' read-only stores.

``Client`` blocks, ``AsyncClient`` is for asyncio; both read windows, sessions, rows and keys of the
stores of one service, page by page as they are needed, try again what may be answered later, and
raise what the service says is wrong. It needs httpx only, and pyarrow, pandas or Polars where a
table is asked for; it knows neither Spark nor the rest of Oriel.
"""

from oriel.client.clients import AsyncClient, Client
from oriel.client.errors import (
    Gone,
    InvalidRequest,
    KeysOfSeveralShards,
    NotAllowed,
    NotFound,
    NotReady,
    OrielError,
    PositionNotReached,
    Problem,
    ServiceFailed,
    ServiceUnreachable,
    UnexpectedAnswer,
    UnknownStore,
)
from oriel.client.protocol import Key
from oriel.client.records import Change, Page, Position, Removed, Row, StoreSummary, Window
from oriel.client.results import AsyncResults, Results
from oriel.client.stores import (
    AsyncReadOnlyKeyValueStore,
    AsyncReadOnlySessionStore,
    AsyncReadOnlyWindowStore,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
)
from oriel.client.transport import Retries

__all__ = [
    "AsyncClient",
    "AsyncReadOnlyKeyValueStore",
    "AsyncReadOnlySessionStore",
    "AsyncReadOnlyWindowStore",
    "AsyncResults",
    "Change",
    "Client",
    "Gone",
    "InvalidRequest",
    "Key",
    "KeysOfSeveralShards",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "OrielError",
    "Page",
    "Position",
    "PositionNotReached",
    "Problem",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Removed",
    "Results",
    "Retries",
    "Row",
    "ServiceFailed",
    "ServiceUnreachable",
    "StoreSummary",
    "UnexpectedAnswer",
    "UnknownStore",
    "Window",
]
