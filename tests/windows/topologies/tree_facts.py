"""Properties of a tree: topics, operations, and whether the interleaving of topics matters."""

from collections.abc import Iterator, Mapping
from typing import Any

#: Nodes that read a topic or an aggregation. They are not operations.
SOURCES = frozenset({"stream", "table", "versioned_table", "aggregated"})
#: Operations whose results depend on how topics are interleaved.
_INTERLEAVED = {"join_table", "join_global", "to_stream"}


def nodes_of(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of a part of a tree, from the store down, including arguments."""
    if isinstance(tree, Mapping):
        yield tree
    for part in tree.values() if isinstance(tree, Mapping) else tree:
        if isinstance(part, Mapping | list):
            yield from nodes_of(part)


def topics_of(tree: Any) -> set[str]:
    """Return the topics that a part of a tree reads."""
    return {node["topic"] for node in nodes_of(tree) if "topic" in node}


def operations_of(tree: Any) -> list[str]:
    """Return the names of the operations of a tree, from the store down."""
    return [node["op"] for node in nodes_of(tree) if "op" in node]


def waiting_joins(tree: Any) -> list[Mapping[str, Any]]:
    """Return the joins with versioned tables that have a grace."""
    return [n for n in nodes_of(tree) if n.get("op") == "join_table" and "grace" in n]


def is_interleaving_free(tree: Mapping[str, Any]) -> bool:
    """Return True if no result of a tree depends on the interleaving of its topics."""
    operations = operations_of(tree)
    joins = {"join_tables", "join_by_foreign_key", "aggregated"}
    if "group_table" in operations and not joins.isdisjoint(operations):
        return False
    if _names_rows_one_by_one(tree):
        return False
    if {"aggregated", "join_streams"} <= set(operations):
        return False
    of_several = {"merge", "join_streams"} & set(operations) or _has_cogroup(tree)
    if "rows_of" in operations and of_several:
        return False
    if _steps_after_joined_tables(tree):
        # The times of updates depend on the order of arrival.
        return False
    return _INTERLEAVED.isdisjoint(operations)


def _has_cogroup(tree: Any) -> bool:
    return any(len(node.get("inputs", ())) > 1 for node in nodes_of(tree))


def _names_rows_one_by_one(tree: Any) -> bool:
    """Return True if the rows of a foreign-key join depend on the order of arrival."""
    named = {"join_tables", "join_by_foreign_key"}
    return any(
        "aggregated" in operations_of(node["left"])
        or _has_outer(node["left"])
        or named & set(operations_of(node["right"]))
        for node in nodes_of(tree)
        if node.get("op") == "join_by_foreign_key"
    )


def _has_outer(tree: Any) -> bool:
    return any(node.get("how") == "outer" for node in nodes_of(tree))


def _steps_after_joined_tables(tree: Any) -> bool:
    joins = {"join_tables", "join_by_foreign_key"}
    return any(
        joins & set(operations_of(node.get("input", [])))
        for node in nodes_of(tree)
        if node.get("op") in {"filter", "filter_not", "map_values"}
    )


def follows_pairs(tree: Mapping[str, Any]) -> bool:
    """Return True if rows depend on the order of join results, which differs within a batch.

    Then each record must be a batch, which is slow.
    """
    return "join_streams" in operations_of(tree) and not is_interleaving_free(tree)
