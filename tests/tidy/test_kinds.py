"""No code tests for the kind of an operator, join, step, aggregation or source.

Behavior that depends on the kind is an attribute or a method of the class, or an entry in a
registry. So a new kind is one class and one entry.
"""

import ast

from tests.tidy.project import Module, modules, offenders

#: The packages that plan and run topologies. Their registries map classes, and never test them.
_PACKAGES = (
    "pipeline/arrow_steps", "pipeline/commit", "pipeline/explained.py", "pipeline/language",
    "pipeline/lowered", "pipeline/plan", "pipeline/rows", "pipeline/run", "pipeline/tasks",
    "pipeline/testing",
)  # fmt: skip
#: The modules that define kinds.
_DEFINITIONS = (
    "pipeline/language/topology/aggregations.py", "pipeline/language/topology/nodes.py",
    "pipeline/language/topology/steps.py", "pipeline/lowered/inputs.py",
    "pipeline/lowered/steps.py", "pipeline/lowered/stores.py", "pipeline/row_program.py",
)  # fmt: skip
_MORE_KINDS = {"StoreSource", "NoWindows", "TimeWindows", "SlidingWindows", "SessionWindows"}
#: A method that compares its own kind with another step, like ``__eq__``.
_ALLOWED = {("pipeline/language/topology/steps.py", "Filter")}


def test_kinds_are_not_tested() -> None:
    """No ``isinstance`` names a class of a topology or a program."""
    kinds = _MORE_KINDS | {
        node.name
        for module in modules()
        if module.name in _DEFINITIONS
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
    }
    assert {"Filter", "Project", "StreamJoin", "Columns"} <= kinds
    found = [
        f"{module.name}:{line} {kind}"
        for module in modules()
        if module.name.startswith(_PACKAGES)
        for line, kind in _tested(module)
        if kind in kinds and (module.name, kind) not in _ALLOWED
    ]
    assert not found, f"add an attribute or a method to the class:{offenders(found)}"


def _tested(module: Module) -> list[tuple[int, str]]:
    """Return the line and the class of each ``isinstance``."""
    return [
        (call.lineno, name.id)
        for call in module.nodes
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "isinstance"
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name)
    ]
