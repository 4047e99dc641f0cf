"""Import a topology file and the modules next to it, and send them to Spark's Python workers.

As with ``python FILE``, modules are searched in the directory of the file first. Spark's workers
are other processes, on a cluster on other machines. Functions reach them in two ways, and each way
works where the other does not:

* *By value*, as code: functions of the topology file, whose module name the workers do not know,
  and functions of modules that name pyspark. A worker that imports such a module would call
  ``F.udf("int")`` or ``F.col("x")``, which need a session that only the driver has.

* *By name*, imported from a zip of the directory: all other functions. A module can contain objects
  that cannot be pickled, and a function can import modules when it is called.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from oriel.pipeline.errors import InvalidTopology, PipelineError
from oriel.pipeline.language import Topology, check_topic
from oriel.pipeline.late_pandas import use_imported_pandas
from oriel.pipeline.spark import send_python_files
from oriel.pipeline.windows import IllegalArgument


def load_topology(path: Path) -> Topology:
    """Import a topology file and return its ``topology``.

    Raises:
        InvalidTopology: the file does not exist, does not define ``topology``, or fails. If it
            fails, the message starts with the file and the line of the user's code.
    """
    if not path.is_file():
        message = f"topology file {path} does not exist"
        raise InvalidTopology(message)
    _add_import_path(path.resolve().parent)
    name = f"topology_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module here.
    sys.modules[name] = module
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        loader.exec_module(module)
    except Exception as error:
        raise InvalidTopology(_message_with_line(error, path)) from error
    use_imported_pandas()
    topology = getattr(module, "topology", None)
    if not isinstance(topology, Topology):
        message = f"{path} must define `topology = builder.build()`"
        raise InvalidTopology(message)
    for source in topology.sources:
        check_topic(source.topic)
    return topology


def _message_with_line(error: Exception, path: Path) -> str:
    """Return an error's message after the innermost line of the user's files in its traceback."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    own = {path.resolve(), *_modules_next_to(path)}
    frames = extract_tb(error.__traceback__)
    lines = [f"{f.filename}:{f.lineno}: " for f in frames if Path(f.filename).resolve() in own]
    # The messages of Oriel's errors are complete without their type.
    is_ours = isinstance(error, PipelineError | IllegalArgument)
    kind = "" if is_ours else f"{type(error).__name__}: "
    words = " ".join(str(error).split())
    return f"{lines[-1] if lines else ''}{kind}{words}"


def needs_spark(path: Path) -> bool:
    """Whether the file or a module next to it can create Spark columns during its import.

    Spark does not create a ``Column`` without a session, so a session must exist before.
    """
    if not path.is_file():
        return False
    return any(b"pyspark" in module.read_bytes() for module in (path, *_modules_next_to(path)))


def send_modules(spark: SparkSession, path: Path) -> None:
    """Send the modules next to a topology file to Spark's Python workers.

    Call it before the file is imported. When a Python function of Spark becomes a column, it
    records which files the workers need.
    """
    modules = list(_modules_next_to(path))
    if not modules:
        return
    directory = path.resolve().parent
    # A module can also import from the topology file.
    files = [path.resolve(), *modules]
    send_python_files(
        spark, "topology", ((file, str(file.relative_to(directory))) for file in files)
    )


def _modules_next_to(path: Path) -> Iterator[Path]:
    """Yield the Python files that ``path`` can import from its own directory, except ``path``.

    These are modules and packages with an ``__init__.py``. A copy of this package's sources in the
    directory is skipped, because workers use the running package.
    """
    for entry in sorted(path.resolve().parent.iterdir()):
        if entry.stem == "oriel":
            continue
        # Not Path.is_file, which raises in directories of other users, for example in /tmp.
        is_package = os.access(entry / "__init__.py", os.R_OK)
        for module in sorted(entry.rglob("*.py")) if is_package else [entry]:
            is_module = module.suffix == ".py" and module != path.resolve()
            if is_module and module.is_file() and os.access(module, os.R_OK):
                yield module


@cache
def _add_import_path(directory: Path) -> None:
    """Add ``directory`` to the import path for the rest of this process."""

    def finder(entry: str) -> FileFinder:
        """Return Python's own finder with this loader, for the directory and its packages."""
        if not Path(entry).is_relative_to(directory):
            raise ImportError(entry)
        inner = Path(entry).relative_to(directory).parts
        if inner and not (directory / inner[0] / "__init__.py").is_file():
            # Not a package: it can be an environment with all its installed packages.
            raise ImportError(entry)
        return FileFinder(
            entry, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_ModuleLoader, SOURCE_SUFFIXES)
        )

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.pop(str(directory), None)
    sys.path.insert(0, str(directory))


class _ModuleLoader(SourceFileLoader):
    """Loads a module next to the topology file.

    A column pickles its Python function when it is created, which is during the import of the
    topology file. So the module is registered for pickling before its first line runs.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code. Its functions are sent by value if it names pyspark."""
        if b"pyspark" in Path(self.path).read_bytes():
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        super().exec_module(module)
