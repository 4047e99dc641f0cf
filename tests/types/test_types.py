"""The types of the public API, as a user's type checkers see them.

The programs are a user's project: they see Oriel as an installed package.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import get_annotations, isclass
from pathlib import Path
from typing import Any

import pytest

from oriel.storage.files import Files
from oriel.testing import HookedFiles

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")

PUBLIC = ("oriel", "oriel.aggregates", "oriel.client", "oriel.tables", "oriel.testing")

#: Members without an underscore that are not for users: the pipeline and the client call them
#: across packages, and no page describes them.
INTERNAL = {
    "Aggregate": (
        "column_type is_subtractable of of_changes options output_type parts rule rules "
        "with_lineage"
    ),
    "BranchedKStream": "branches rest",
    "CogroupedKStream": "aggregators columns registry strategy streams windows",
    "Consumed": "is_json",
    "EmitStrategy": "emits name",
    "GlobalKTable": "origin registry",
    "JoinWindows": "allowed_lateness_ms reach_ms wait_ms",
    "KGroupedStream": "origins registry",
    "KGroupedTable": "origin registry",
    "KStream": "origins registry",
    "KTable": "as_table handed_over is_windowed looked_up",
    "SourceTable": "node registry store_name updates",
    "TimeWindowedKStream": "origins registry strategy windows",
    "Topology": "sinks sources units",
    "VersionedTable": "history_ms newest origin registry",
    "Windows": "close_delay_ms is_late kind last_end_ms least_retention_ms length_ms rule",
}


@pytest.mark.slow
def test_pyright_accepts_the_programs() -> None:
    """It infers the types that the programs assert, and rejects each wrong call.

    `tests/tidy/test_checks.py` also runs mypy over the programs, because they are in `tests`.
    """
    done = subprocess.run(
        # Without its path pyright looks for another Python.
        [sys.executable, "-P", "-m", "pyright", "--pythonpath", sys.executable],
        cwd=PROGRAMS,
        # Pyright would look for a newer version of itself.
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"pyright:\n{done.stdout}{done.stderr}"


def test_the_programs_assert_the_type_of_each_public_name() -> None:
    """A name or a member without an `assert_type` in the programs is an error."""
    public = list(_public())
    asserted = set[tuple[object, str]]()
    for path in PROGRAMS.glob("*.py"):
        visitor = _Asserted()
        visitor.visit(ast.parse(path.read_text(), str(path)))
        asserted |= visitor.found
    internal = {(name, member) for name, each in INTERNAL.items() for member in each.split()}
    members = {(one.__name__, member) for each, member in public for one in each if member}
    missing = {
        f"{getattr(each[0], '__name__', each[0])}.{member}"
        for each, member in public
        if not any((one, member) in asserted for one in each)
        and not any((getattr(one, "__name__", ""), member) in internal for one in each)
    }
    assert not missing, f"assert their types in {PROGRAMS}: {sorted(missing)}"
    unknown = internal - members
    assert not unknown, f"remove these members, which do not exist: {sorted(unknown)}"


def _public() -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield each public object, and each member of a class with the class and its bases."""
    for module in map(import_module, PUBLIC):
        for name in module.__all__:
            value = getattr(module, name)
            yield (value,), ""
            if not isclass(value) or name.endswith("Conformance"):
                continue
            ours = tuple(base for base in value.__mro__ if base.__module__.startswith("oriel"))
            for member in {name for of in ours for name in {**vars(of), **get_annotations(of)}}:
                # The contract of the files has the types of its methods.
                of_contract = issubclass(value, HookedFiles) and hasattr(Files, member)
                if not member.startswith("_") and not of_contract:
                    yield ours, member


class _Asserted(ast.NodeVisitor):
    """What a program asserts types of: pairs of an object and a member, which can be empty.

    A function's parameters and earlier assertions say which class a variable is of.
    """

    def __init__(self) -> None:
        self.found: set[tuple[object, str]] = set()
        self._known: dict[str, object] = {}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Learn what the names of this package are."""
        if node.module is not None and node.module.startswith("oriel"):
            for alias in node.names:
                imported = getattr(import_module(node.module), alias.name)
                self._known[alias.asname or alias.name] = imported

    def visit_arg(self, node: ast.arg) -> None:
        """Learn the class of a parameter."""
        if node.annotation is not None:
            self._learn(node.arg, node.annotation)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Count what a class uses: a type checker compares the class with its base."""
        self._find(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Count what a call of `assert_type` names."""
        if ast.unparse(node.func) != "assert_type":
            self.generic_visit(node)
            return
        value, asserted_type = node.args
        if isinstance(value, ast.Name):
            self._learn(value.id, asserted_type)
        self._find(node)

    def _learn(self, name: str, annotation: ast.expr) -> None:
        self._known[name] = self._known.get(ast.unparse(annotation).partition("[")[0])

    def _find(self, node: ast.AST) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                self.found.add((self._known.get(each.id), ""))
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                self.found.add((self._known.get(each.value.id), each.attr))
