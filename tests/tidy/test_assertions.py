"""A failed assertion shows the item that fails."""

import ast
from collections.abc import Iterator

from tests.tidy.project import modules, offenders

_BOTH = {"all", "any"}


def test_assertions_show_the_failing_item() -> None:
    """No assertion depends on all() or any(), which reduce the items to a single boolean."""
    found = [
        f"{module.name}:{node.lineno}: assert {ast.unparse(node.test)}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Assert) and any(map(_is_reduced, _conditions(node.test)))
    ]
    assert found == [], (
        "a failure of these does not show the item. Write `assert [x for x in xs if not ok(x)] == "
        "[]`, and `assert xs` where xs must not be empty, instead of all(). Write `assert "
        "[x for x in xs if ok(x)], xs` instead of any(). Compare lists, sets or dicts, or use "
        f"np.testing.assert_array_equal, where the wanted values are known:{offenders(found)}"
    )


def _conditions(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a condition that decide its truth."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _conditions(operand)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _conditions(value)
        case ast.NamedExpr(value=value):
            yield from _conditions(value)
        case ast.Compare(left=left, comparators=[ast.Constant(value=bool())]):
            yield from _conditions(left)
        case _:
            yield test


def _is_reduced(condition: ast.expr) -> bool:
    """Return whether this is all(...) or any(...), also as a function or method of numpy."""
    match condition:
        case ast.Call(func=ast.Name(id=name)):
            return name in _BOTH
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name)):
            return name in _BOTH
        case ast.Call(func=ast.Attribute(attr=name), args=[]):
            return name in _BOTH
    return False
