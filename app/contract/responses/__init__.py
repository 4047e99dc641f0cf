"""The models of responses, with examples for the reference of the API."""

from oriel.app.contract.responses.examples import (
    COUNT_EXAMPLE,
    EXAMPLES,
    ROWS_EXAMPLE,
    SESSIONS_EXAMPLE,
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
    StoreDetail,
    StoresAnswer,
    WindowsAnswer,
)
from oriel.app.contract.responses.status_models import Freshness, StatusAnswer

__all__ = [
    "COUNT_EXAMPLE",
    "EXAMPLES",
    "ROWS_EXAMPLE",
    "SESSIONS_EXAMPLE",
    "WINDOWS_EXAMPLE",
    "ChangesAnswer",
    "CountAnswer",
    "DeadLetterCountsAnswer",
    "DeadLettersAnswer",
    "EntriesAnswer",
    "Freshness",
    "Health",
    "Json",
    "KeysAnswer",
    "Problem",
    "Readiness",
    "RowsAnswer",
    "StatusAnswer",
    "StoreDetail",
    "StoresAnswer",
    "WindowsAnswer",
]
