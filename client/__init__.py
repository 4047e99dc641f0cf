"""Query a service from Python, with the read-only stores of Kafka Streams.

``Client`` blocks, ``AsyncClient`` is for asyncio. Both read the windows, sessions, rows and keys of
the stores of one service, page by page as you need them. They send a request again if a retry can
help, and raise an exception for an error of the service. The package needs only httpx, and
pyarrow, pandas or Polars if you read a table. It imports neither Spark nor the rest of Oriel.
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
from oriel.client.records import (
    Change,
    Page,
    Position,
    Removed,
    Row,
    SqlRows,
    StoreSummary,
    Version,
    Window,
)
from oriel.client.results import AsyncResults, Results
from oriel.client.stores import (
    AsyncKeyValueStoreClient,
    AsyncSessionStoreClient,
    AsyncVersionedStoreClient,
    AsyncWindowStoreClient,
    KeyValueStoreClient,
    SessionStoreClient,
    VersionedStoreClient,
    WindowStoreClient,
)
from oriel.client.transport import Retries

__all__ = [
    "AsyncClient",
    "AsyncKeyValueStoreClient",
    "AsyncResults",
    "AsyncSessionStoreClient",
    "AsyncVersionedStoreClient",
    "AsyncWindowStoreClient",
    "Change",
    "Client",
    "Gone",
    "InvalidRequest",
    "Key",
    "KeyValueStoreClient",
    "KeysOfSeveralShards",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "OrielError",
    "Page",
    "Position",
    "PositionNotReached",
    "Problem",
    "Removed",
    "Results",
    "Retries",
    "Row",
    "ServiceFailed",
    "ServiceUnreachable",
    "SessionStoreClient",
    "SqlRows",
    "StoreSummary",
    "UnexpectedAnswer",
    "UnknownStore",
    "Version",
    "VersionedStoreClient",
    "Window",
    "WindowStoreClient",
]
