"""Import pandas only if users import it, because it is a third of the imports of ``oriel run``.

If pandas is installed, pyarrow and pyspark import it to recognize its classes. Oriel does not use
pandas, but functions of users can.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Rejects imports of pandas."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            message = "pandas is not imported yet"
            raise ModuleNotFoundError(message, name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas from modules that are imported in this block, unless it is imported already."""
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
        # pyspark imports this module for a flag that says whether numpy is installed.
        import_module("pyspark.testing.utils")
        yield
    finally:
        sys.meta_path.remove(finder)


def use_imported_pandas() -> None:
    """Let pyarrow load the classes of pandas, if this process has imported pandas."""
    if "pandas" in sys.modules:
        pa.table({}).to_pandas()
