"""A topology file and the modules beside it: imported here, and sent to Spark's Python workers.

As with ``python FILE``, the folder of the file comes first among the places of imports. Spark's
workers are other processes, on a cluster on other machines. There are two ways for a function to
get there, and each serves what the other can't:

* *By value*, as code. So go the functions of the topology's file, whose name no worker knows, and
  of modules that name pyspark: a worker that imports those would call ``F.udf("int")`` or
  ``F.col("x")``, which need a session that only the driver has.
* *By name*, to be imported from a zip of the folder. So go all others: a module may hold what
  can't be pickled, and a function may import when it is called.
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
        InvalidTopology: there is no such file, it does not define ``topology``, or it fails; then
            the message begins with the file and the line of the user's that did.
    """
    if not path.is_file():
        message = f"topology file {path} does not exist"
        raise InvalidTopology(message)
    _import_from(path.resolve().parent)
    name = f"topology_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up there.
    sys.modules[name] = module
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        loader.exec_module(module)
    except Exception as error:
        raise InvalidTopology(_at_users_line(error, path)) from error
    use_imported_pandas()
    topology = getattr(module, "topology", None)
    if not isinstance(topology, Topology):
        message = f"{path} must define `topology = builder.build()`"
        raise InvalidTopology(message)
    for source in topology.sources:
        check_topic(source.topic)
    return topology


def _at_users_line(error: Exception, path: Path) -> str:
    """What an error says, behind the innermost line of the user's own files that led to it."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    own = {path.resolve(), *_modules_beside(path)}
    frames = extract_tb(error.__traceback__)
    lines = [f"{f.filename}:{f.lineno}: " for f in frames if Path(f.filename).resolve() in own]
    # The text of our own errors says all.
    is_ours = isinstance(error, PipelineError | IllegalArgument)
    kind = "" if is_ours else f"{type(error).__name__}: "
    words = " ".join(str(error).split())
    return f"{lines[-1] if lines else ''}{kind}{words}"


def needs_spark(path: Path) -> bool:
    """Whether the file, or a module beside it, may make Spark columns as it is imported.

    Spark makes no ``Column`` without a session, so one has to be there before.
    """
    if not path.is_file():
        return False
    return any(b"pyspark" in module.read_bytes() for module in (path, *_modules_beside(path)))


def send_modules(spark: SparkSession, path: Path) -> None:
    """Give Spark's Python workers the modules beside a topology file.

    Call it before the file is imported: a Python function of Spark's remembers, when it becomes
    a column, which files workers need for it.
    """
    modules = list(_modules_beside(path))
    if not modules:
        return
    folder = path.resolve().parent
    # A module may import from the topology's file in its turn.
    files = [path.resolve(), *modules]
    send_python_files(spark, "topology", ((file, str(file.relative_to(folder))) for file in files))


def _modules_beside(path: Path) -> Iterator[Path]:
    """The Python files that ``path`` can import from its own folder, itself left out.

    These are modules and packages with an ``__init__.py``. A copy of this package's sources there
    is not for the workers, which have the one that runs.
    """
    for entry in sorted(path.resolve().parent.iterdir()):
        if entry.stem == "oriel":
            continue
        # Not Path.is_file, which raises within folders of other users, as there are in /tmp.
        is_package = os.access(entry / "__init__.py", os.R_OK)
        for module in sorted(entry.rglob("*.py")) if is_package else [entry]:
            is_module = module.suffix == ".py" and module != path.resolve()
            if is_module and module.is_file() and os.access(module, os.R_OK):
                yield module


@cache
def _import_from(folder: Path) -> None:
    """Let the modules of ``folder`` be imported, for the rest of this process."""

    def finder(entry: str) -> FileFinder:
        """Python's own finder of modules, for the folder and its packages, with our loader."""
        if not Path(entry).is_relative_to(folder):
            raise ImportError(entry)
        inner = Path(entry).relative_to(folder).parts
        if inner and not (folder / inner[0] / "__init__.py").is_file():
            # Not a package: it may be an environment with all that is installed.
            raise ImportError(entry)
        return FileFinder(
            entry, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_ModuleBeside, SOURCE_SUFFIXES)
        )

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.pop(str(folder), None)
    sys.path.insert(0, str(folder))


class _ModuleBeside(SourceFileLoader):
    """The loader of a module beside the topology's file.

    A column pickles its Python function when it is made, that is while the topology's file is
    imported; so how a module's functions are pickled is settled before its first line runs.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        if b"pyspark" in Path(self.path).read_bytes():
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        super().exec_module(module)
