"""pandas is imported only if users import it: it is a third of the imports of ``oriel run``.

pyarrow and pyspark import pandas, if it is installed, so that they know its classes. Oriel does not
use them, but functions of users can.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            message = "pandas is not imported yet"
            raise ModuleNotFoundError(message, name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let modules that are imported in this block find no pandas, unless it is imported already."""
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
        # pyspark imports this module of tests for the flag whether numpy is installed.
        import_module("pyspark.testing.utils")
        yield
    finally:
        sys.meta_path.remove(finder)


def use_imported_pandas() -> None:
    """Let pyarrow know the classes of pandas if this process has imported it."""
    if "pandas" in sys.modules:
        pa.table({}).to_pandas()
