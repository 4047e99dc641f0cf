"""The Pydantic models of the responses, and example responses.

Each operation names its model and its example. The cold routes validate responses with the models,
and the OpenAPI document has them as schemas.
"""

from oriel.app.contract.responses.examples import (
    COUNT_EXAMPLE,
    EXAMPLES,
    MERGED_EXAMPLE,
    ROWS_EXAMPLE,
    SESSIONS_EXAMPLE,
    VERSIONS_EXAMPLE,
    WINDOWS_EXAMPLE,
)
from oriel.app.contract.responses.models import (
    ChangesAnswer,
    CountAnswer,
    DeadLetterCountsAnswer,
    DeadLettersAnswer,
    EntriesAnswer,
    Health,
    Json,
    KeysAnswer,
    Problem,
    Readiness,
    RowsAnswer,
    SqlRows,
    StoreDetail,
    StoresAnswer,
    VersionsResponse,
    WindowsAnswer,
)
from oriel.app.contract.responses.prometheus_models import (
    BuildResponse,
    MetadataResponse,
    NamesResponse,
    PrometheusError,
    QueryResponse,
    SeriesResponse,
)
from oriel.app.contract.responses.status_models import Freshness, StatusAnswer, Topologies

__all__ = [
    "COUNT_EXAMPLE",
    "EXAMPLES",
    "MERGED_EXAMPLE",
    "ROWS_EXAMPLE",
    "SESSIONS_EXAMPLE",
    "VERSIONS_EXAMPLE",
    "WINDOWS_EXAMPLE",
    "BuildResponse",
    "ChangesAnswer",
    "CountAnswer",
    "DeadLetterCountsAnswer",
    "DeadLettersAnswer",
    "EntriesAnswer",
    "Freshness",
    "Health",
    "Json",
    "KeysAnswer",
    "MetadataResponse",
    "NamesResponse",
    "Problem",
    "PrometheusError",
    "QueryResponse",
    "Readiness",
    "RowsAnswer",
    "SeriesResponse",
    "SqlRows",
    "StatusAnswer",
    "StoreDetail",
    "StoresAnswer",
    "Topologies",
    "VersionsResponse",
    "WindowsAnswer",
]
