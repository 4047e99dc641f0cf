"""The reads of the service are typed by the contracts of the stores."""

import ast

from tests.tidy.project import modules_of, offenders

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
