"""The test driver, the conformance suites of stores and failing files, for the tests of users.

The driver runs a topology in this process (docs/reference/testing.md). If you write a read-only
store, inherit the suite of its kind, as the tests of the index and the table do::

    class TestMyStore(WindowStoreConformance):
        @pytest.fixture
        def make_store(self) -> MakeStore:
            return lambda puts, retention_ms: MyStore(puts, retention_ms)

The models are plain lists. Compare the results of a store with them. ``FailingFiles`` and the other
wrappers of file operations inject failures. Names are imported on first use, so the driver needs no
pytest, and the other names need no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oriel.pipeline.testing import (
        Counters,
        DriverKeyValueStore,
        DriverSessionStore,
        DriverVersionedStore,
        DriverWindowStore,
        FunctionRaised,
        KeyValue,
        OutputReader,
        Record,
        StreamReader,
        TopologyTestDriver,
        VersionedValue,
        WindowedValue,
        spark_session,
    )
    from oriel.testing.failing_files import (
        CountingFiles,
        FailingFiles,
        ForgettingFiles,
        HookedFiles,
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
    "CountingFiles",
    "DriverKeyValueStore",
    "DriverSessionStore",
    "DriverVersionedStore",
    "DriverWindowStore",
    "FailingFiles",
    "ForgettingFiles",
    "FunctionRaised",
    "HookedFiles",
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
    "Record",
    "SessionStoreConformance",
    "StreamReader",
    "TopologyTestDriver",
    "TypedKeyConformance",
    "VersionedValue",
    "WindowStoreConformance",
    "WindowedValue",
    "spark_session",
]

#: Name -> its module, except for the names of the driver.
_SUITES = {
    "CountingFiles": "failing_files",
    "FailingFiles": "failing_files",
    "ForgettingFiles": "failing_files",
    "HookedFiles": "failing_files",
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
    """Return the public names and the names that every module has."""
    return [*globals(), *__all__]
