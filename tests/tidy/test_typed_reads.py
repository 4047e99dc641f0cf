"""The reads of the service are typed by the contracts of the stores."""

import ast

from tests.tidy.project import PRODUCT, modules_of, offenders

_BANNED = {"Any", "cast"}


def test_the_reads_have_no_untyped_values() -> None:
    """No module of ``app/reads`` uses ``Any`` or ``cast``, so mypy proves each read."""
    found = [
        f"{module.name}:{node.lineno} {name}"
        for module in modules_of("app/reads")
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute)
        if (name := node.id if isinstance(node, ast.Name) else node.attr) in _BANNED
    ]
    assert not found, f"use a contract of oriel.storage.contracts:{offenders(found)}"


def test_only_a_contract_has_its_name() -> None:
    """No other class has the name of a contract, for example ``ReadOnlyWindowStore``."""
    classes = [
        (module.name, node.name)
        for module in modules_of(*PRODUCT, "src/oriel")
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
    ]
    contracts = {name for module, name in classes if module == "storage/contracts.py"}
    assert {"ReadOnlyStore", "ReadOnlyWindowStore"} <= contracts
    found = [
        f"{module} {name}"
        for module, name in classes
        if name in contracts and module != "storage/contracts.py"
    ]
    assert not found, f"use another name:{offenders(found)}"
