"""What a tree reads and has, and whether its results follow from each topic's own log alone."""

from collections.abc import Iterator, Mapping
from typing import Any

#: What reads a topic, or an aggregation that has an entry of its own: no operations.
SOURCES = frozenset({"stream", "table", "versioned_table", "aggregated"})
#: Operations whose results depend on how topics are interleaved.
_INTERLEAVED = {"join_table", "join_global", "to_stream"}


def nodes_of(tree: Any) -> Iterator[Mapping[str, Any]]:
    """All nodes of a part of a tree, from the store down, and what these are described by."""
    if isinstance(tree, Mapping):
        yield tree
    for part in tree.values() if isinstance(tree, Mapping) else tree:
        if isinstance(part, Mapping | list):
            yield from nodes_of(part)


def topics_of(tree: Any) -> set[str]:
    """The topics that a part of a tree reads."""
    return {node["topic"] for node in nodes_of(tree) if "topic" in node}


def operations_of(tree: Any) -> list[str]:
    """The names of a tree's operations, from the store down."""
    return [node["op"] for node in nodes_of(tree) if "op" in node]


def waiting_joins(tree: Any) -> list[Mapping[str, Any]]:
    """The joins with versioned tables whose records wait for a grace."""
    return [n for n in nodes_of(tree) if n.get("op") == "join_table" and "grace" in n]


def is_interleaving_free(tree: Mapping[str, Any]) -> bool:
    """Whether no result of a tree depends on how its topics are interleaved."""
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
    if _steps_behind_joined_tables(tree):
        # Times of rows that are told one by one follow what arrived when.
        return False
    return _INTERLEAVED.isdisjoint(operations)


def _has_cogroup(tree: Any) -> bool:
    return any(len(node.get("inputs", ())) > 1 for node in nodes_of(tree))


def _names_rows_one_by_one(tree: Any) -> bool:
    """Whether the rows of a join by a foreign key follow each record, not the logs alone."""
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


def _steps_behind_joined_tables(tree: Any) -> bool:
    joins = {"join_tables", "join_by_foreign_key"}
    return any(
        joins & set(operations_of(node.get("input", [])))
        for node in nodes_of(tree)
        if node.get("op") in {"filter", "filter_not", "map_values"}
    )


def follows_pairs(tree: Mapping[str, Any]) -> bool:
    """Whether rows depend on the order of pairs, which is another of several records of a batch.

    So each record has to be a batch, which takes long.
    """
    return "join_streams" in operations_of(tree) and not is_interleaving_free(tree)
