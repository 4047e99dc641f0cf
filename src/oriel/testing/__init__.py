"""For users' unit tests: the test driver, and the conformance suites of stores.

The driver runs a topology in this process (docs/reference/testing.md). If you write a
read-only store, inherit the suite of its kind, as the index and the table do::

    class TestMine(WindowStoreConformance):
        @pytest.fixture
        def make_store(self) -> MakeStore:
            return lambda puts, retention_ms: MyStore(puts, retention_ms)

The models answer from plain lists, so that a store can be compared with them. Names are imported
when they are first used: the driver needs no pytest, the suites no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oriel.pipeline.testing import (
        Counters,
        FunctionRaised,
        KeyValue,
        OutputReader,
        ReadOnlyKeyValueStore,
        ReadOnlySessionStore,
        ReadOnlyWindowStore,
        Record,
        StreamReader,
        TopologyTestDriver,
        WindowedValue,
        spark_session,
    )
    from oriel.testing.key_value_store_conformance import (
        KeyValueStoreConformance,
        MakeKeyValueStore,
    )
    from oriel.testing.session_store_conformance import MakeSessionStore, SessionStoreConformance
    from oriel.testing.store_models import (
        ModelKeyValueStore,
        ModelSessionStore,
        ModelWindowStore,
        Put,
    )
    from oriel.testing.typed_key_conformance import MakeTypedStore, TypedKeyConformance
    from oriel.testing.window_store_conformance import MakeStore, WindowStoreConformance

__all__ = [
    "Counters",
    "FunctionRaised",
    "KeyValue",
    "KeyValueStoreConformance",
    "MakeKeyValueStore",
    "MakeSessionStore",
    "MakeStore",
    "MakeTypedStore",
    "ModelKeyValueStore",
    "ModelSessionStore",
    "ModelWindowStore",
    "OutputReader",
    "Put",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Record",
    "SessionStoreConformance",
    "StreamReader",
    "TopologyTestDriver",
    "TypedKeyConformance",
    "WindowStoreConformance",
    "WindowedValue",
    "spark_session",
]

#: Where the names are that are not the driver's.
_SUITES = {
    "KeyValueStoreConformance": "key_value_store_conformance",
    "MakeKeyValueStore": "key_value_store_conformance",
    "MakeSessionStore": "session_store_conformance",
    "MakeStore": "window_store_conformance",
    "MakeTypedStore": "typed_key_conformance",
    "ModelKeyValueStore": "store_models",
    "ModelSessionStore": "store_models",
    "ModelWindowStore": "store_models",
    "Put": "store_models",
    "SessionStoreConformance": "session_store_conformance",
    "TypedKeyConformance": "typed_key_conformance",
    "WindowStoreConformance": "window_store_conformance",
}


def __getattr__(name: str) -> Any:
    """Import a name from its module (PEP 562)."""
    if name not in __all__:
        message = f"module 'oriel.testing' has no attribute {name!r}"
        raise AttributeError(message)
    module = f"oriel.testing.{_SUITES[name]}" if name in _SUITES else "oriel.pipeline.testing"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """The names above, and those that every module has."""
    return [*globals(), *__all__]
