"""Imports use public APIs, the engine is pure, and models share nothing with the engine.

The packages of ``app``, ``client``, ``storage`` and ``pipeline`` (for example
``oriel.pipeline.plan``) have their public API in ``__init__.py``. The packages of the window engine
do the same. Code outside of a package imports only from its public API. Layers and cycles are
checked by import-linter (``pyproject.toml``, ``test_checks.py``).
"""

import ast
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.tidy.project import PRODUCT, ROOT, Module, modules_of, offenders

_STANDARD = set(sys.stdlib_module_names)

#: Imports of a reference model other than the standard library and other models -> the reason.
IMPORTS_OF_MODELS = {
    ("tests/models/record_windows.py", "oriel.storage"): "the window that the test passes in",
    ("tests/models/record_windows.py", "oriel.testing.store_models"): "the public type of a row",
    ("tests/models/run_inputs.py", "tests.pipeline.run.inputs_topology"): "the lengths and the "
    "user's functions of the topology whose stores it computes",
    ("tests/models/run_inputs.py", "tests.pipeline.run.topic_logs"): "the type of its records",
}


class Import(NamedTuple):
    """An import: importing module, imported module (both without ``oriel.``), and place."""

    importer: str
    imported: str
    place: str


def test_packages_are_imported_by_their_public_api() -> None:
    """Code outside of a package imports from its ``__init__.py``, not from the modules inside."""
    found = []
    for one in _imports(*PRODUCT, "demo", "tools", "benchmarks"):
        public_api = _public_api(one.importer, one.imported)
        if public_api != one.imported:
            found.append(f"{one.place} imports {one.imported}, its public API is {public_api}")
    assert not found, f"import from the public API:{offenders(found)}"


def test_a_public_api_lists_its_names() -> None:
    """Each ``__all__`` of a package names exactly the names that the package imports."""
    found = []
    for module in modules_of(*PRODUCT, "demo"):
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
    assert not found, f"name in __all__ what the package imports:{offenders(found)}"


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


def test_no_call_of_the_language_lowers_a_node() -> None:
    """Only texts of a topology use its lowered form. import-linter checks all other imports."""
    texts = {"__repr__", "describe", "explain", "to_mermaid"}
    uses = [
        (module.name, function.name)
        for module in modules_of("pipeline/language")
        for function in module.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "lowered_texts"
    ]
    assert texts == {name for _, name in uses}
    imports = {
        module.name
        for module in modules_of("pipeline/language")
        for name, _ in module.imported()
        if name.startswith(("oriel.pipeline.explained", "oriel.pipeline.lowered"))
    }
    assert imports == {"pipeline/language/lowered_texts.py"}


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


def _listed(module: Module) -> list[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _dotted(module: Module) -> str:
    """Return the module's name below the root: ``pipeline.plan.batch``, or the package's name."""
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(*directories: str) -> Iterator[Import]:
    """Yield every import of the project, with names resolved to modules."""
    ours = modules_of(*PRODUCT, "demo")
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


def _public_api(importer: str, imported: str) -> str:
    """Return the module from which ``importer`` must import the names of ``imported``."""
    if (ROOT / imported.replace(".", "/") / "__init__.py").exists():
        imported += ".__init__"
    outside = [p for p in _packages(imported) if p not in _packages(importer)]
    if not outside:
        return imported.removesuffix(".__init__")
    # Another top-level package is imported by the public API of its packages. Other modules of it
    # use its own public API.
    return outside[1] if outside[0] in PRODUCT and len(outside) > 1 else outside[0]
