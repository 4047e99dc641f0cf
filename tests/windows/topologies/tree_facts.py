"""What a tree reads and has, and whether its results follow from each topic's own log alone."""

from collections.abc import Mapping
from typing import Any

#: Operations whose results depend on how topics are interleaved.
_INTERLEAVED = {"join_table", "join_global", "to_stream"}


def topics_of(node: Any) -> set[str]:
    """The topics that a part of a tree reads."""
    if isinstance(node, Mapping):
        found = {node["topic"]} if "topic" in node else set()
        return found.union(*(topics_of(part) for part in node.values()))
    return set().union(*map(topics_of, node)) if isinstance(node, list) else set()


def operations_of(node: Any) -> list[str]:
    """The names of a tree's operations, from the store down."""
    if isinstance(node, Mapping):
        own = [node["op"]] if "op" in node else []
        return own + [name for part in node.values() for name in operations_of(part)]
    return [name for part in node for name in operations_of(part)] if isinstance(node, list) else []


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


def _has_cogroup(node: Any) -> bool:
    if isinstance(node, Mapping):
        return len(node.get("inputs", ())) > 1 or any(map(_has_cogroup, node.values()))
    return isinstance(node, list) and any(map(_has_cogroup, node))


def _names_rows_one_by_one(node: Any) -> bool:
    """Whether the rows of a join by a foreign key follow each record, not the logs alone."""
    if isinstance(node, Mapping):
        if node.get("op") == "join_by_foreign_key":
            of_left, of_right = operations_of(node["left"]), operations_of(node["right"])
            named = {"join_tables", "join_by_foreign_key"}
            if "aggregated" in of_left or _has_outer(node["left"]) or named & set(of_right):
                return True
        return any(map(_names_rows_one_by_one, node.values()))
    return isinstance(node, list) and any(map(_names_rows_one_by_one, node))


def _has_outer(node: Any) -> bool:
    if isinstance(node, Mapping):
        return node.get("how") == "outer" or any(map(_has_outer, node.values()))
    return isinstance(node, list) and any(map(_has_outer, node))


def _steps_behind_joined_tables(node: Any) -> bool:
    if isinstance(node, Mapping):
        is_step = node.get("op") in {"filter", "filter_not", "map_values"}
        joins = {"join_tables", "join_by_foreign_key"}
        behind = is_step and not joins.isdisjoint(operations_of(node.get("input", [])))
        return behind or any(map(_steps_behind_joined_tables, node.values()))
    return isinstance(node, list) and any(map(_steps_behind_joined_tables, node))


def follows_pairs(tree: Mapping[str, Any]) -> bool:
    """Whether rows depend on the order of pairs, which is another of several records of a batch.

    So each record has to be a batch, which takes long.
    """
    return "join_streams" in operations_of(tree) and not is_interleaving_free(tree)
