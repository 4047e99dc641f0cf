"""Modules per directory, reminders and docstrings. Ruff limits the complexity of functions."""

import ast
from collections import Counter

from tests.tidy.project import (
    PRODUCT,
    ROOT,
    Function,
    Module,
    modules,
    modules_of,
    offenders,
    texts,
)

#: A directory with more modules is an alphabetical list without an architecture.
MODULES_SIDE_BY_SIDE = 14

#: The maximum number of private functions of the pipeline with one caller. A reader follows a call
#: for each function. A helper needs a reason: it is a concept, has a test, or shortens its caller.
HELPERS_WITH_ONE_CALLER = 300
#: A class with more attributes has values that are valid in some of its states only.
ATTRIBUTES_MAX = 10
#: Modules with state machines.
STATE_MACHINES = (
    "storage/tailer/", "app/guards/connections.py", "app/guards/protocol.py",
    "app/guards/reading.py",
)  # fmt: skip

#: In parts, so that this file does not contain them.
REMINDERS = tuple(
    "".join(parts) for parts in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK"))
)


def test_rooms_are_small() -> None:
    """No directory of the product has more than fourteen modules, without its entry modules."""
    per_package = Counter(
        m.path.parent.relative_to(ROOT).as_posix()
        for m in modules_of(*PRODUCT, "demo", "benchmarks", "tools")
        # The module for imports, and the module for `python -m`.
        if m.path.name not in {"__init__.py", "__main__.py"}
    )
    found = [f"{package}: {count} modules" for package, count in per_package.items()
             if count > MODULES_SIDE_BY_SIDE]  # fmt: skip
    assert not found, f"divide these by subject:{offenders(found)}"


def test_most_helpers_have_several_callers() -> None:
    """At most 300 private functions of the pipeline have one caller."""
    nodes = [node for module in modules_of("pipeline") for node in module.nodes]
    defined = Counter(
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
    )
    used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    used += Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))
    found = sorted(name for name, count in defined.items() if count == used[name] == 1)
    assert len(found) <= HELPERS_WITH_ONE_CALLER, f"inline some helpers:{offenders(found)}"


def test_state_machines_have_few_attributes() -> None:
    """A class of the tailer or of the connections has at most ten attributes."""
    checked = [m for m in modules() if m.name.startswith(STATE_MACHINES)]
    classes = [(m, c) for m in checked for c in m.nodes if isinstance(c, ast.ClassDef)]
    assert {"StoreTailer", "GuardedProtocol"} <= {c.name for _, c in classes}
    found = [
        f"{m.name}: {c.name} has {len(names)} attributes"
        for m, c in classes
        if len(names := _attributes(c)) > ATTRIBUTES_MAX
    ]
    assert not found, f"move values of a state to an object for the state:{offenders(found)}"


def _attributes(of_class: ast.ClassDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(of_class)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_no_reminders() -> None:
    """Open tasks are in issues, not in the code."""
    found = [
        f"{name}: {word}" for name, text in texts() for word in REMINDERS if f"{word} " in text
        or f"{word}:" in text
    ]  # fmt: skip
    assert not found, f"do it, or file an issue and remove the reminder:{offenders(found)}"


def test_every_module_says_what_it_is() -> None:
    """Each module begins with a docstring about its purpose."""
    found = [m.name for m in modules() if not ast.get_docstring(m.tree)]
    assert not found, f"begin with a docstring that says what the module is for:{offenders(found)}"


def _tests(module: Module) -> list[Function]:
    return [f for f in module.functions() if f.name.startswith("test_")]


def test_every_test_says_what_it_shows() -> None:
    """Each test has a docstring with its behavior."""
    found = [
        f"{m.name}:{f.lineno} {f.name}"
        for m in modules()
        if m.is_test
        for f in _tests(m)
        if not ast.get_docstring(f)
    ]
    assert not found, f"say in one sentence what the test shows:{offenders(found)}"
