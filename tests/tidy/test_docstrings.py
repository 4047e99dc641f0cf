"""Methods have a docstring of their own or the docstring of a base class or a protocol."""

import ast
from collections.abc import Iterable, Iterator

from tests.tidy.project import files, offenders

#: A class that has only these bases cannot override a documented method.
_PLAIN_BASES = {"", "Exception", "NamedTuple", "Protocol"}


def _of_protocols(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of the methods that protocols define."""
    return {
        each.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "Protocol" in "".join(map(ast.unparse, node.bases))
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    }


def _undocumented(
    tree: ast.Module, known: set[str]
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the methods that need a docstring, except those with names in ``known``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        bases = {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
        if bases - _PLAIN_BASES:
            continue
        for each in node.body:
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if each.name.startswith("_") or each.name in known:
                continue
            if ast.get_docstring(each) is None:
                yield each


def test_a_method_without_a_docstring_overrides_another() -> None:
    """A public class without a base class has a docstring for each public method."""
    trees = {path: ast.parse(path.read_text()) for path in files() if path.suffix == ".py"}
    known = _of_protocols(trees.values())
    found = [
        f"{path}:{method.lineno} {method.name}"
        for path, tree in trees.items()
        for method in _undocumented(tree, known)
    ]
    assert found == [], f"say what the caller gets:{offenders(found)}"


def test_a_method_of_a_class_without_a_base_is_found() -> None:
    """Classes with a base, special methods and private classes do not count."""
    source = """
class Plain:
    def run(self): ...
    def read(self): ...
    def __len__(self): ...
class Derived(Plain):
    def run(self): ...
class _Private:
    def run(self): ...
"""
    assert [method.lineno for method in _undocumented(ast.parse(source), {"read"})] == [3]
