"""Conditions and orders for tests, each with a plain Python function that says the same.

A function returns True, False, or None for an unknown value. It shares no code with the service.
"""

import ctypes
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Item = Mapping[str, Any]
Predicate = Callable[[Item], bool | None]

_TEXTS = ("a", "b", "ab", "é", "100%", "it's", "")
_NUMBERS = (-1, 0, 1, 2, 7, 10**15)
_DOUBLES = (-1.5, 0.0, 0.5, 2.0, 1e300)


def random_rows(choice: random.Random, count: int, windows: int) -> list[dict[str, Any]]:
    """Return rows of random keys, starts and values. Many values are null or equal."""
    rows = {}
    for _ in range(count):
        key, start = choice.choice(("a", "ab", "b", "é", "c/d", "")), 10 * choice.randrange(windows)
        rows[key, start] = {
            "key": key,
            "start": start,
            "n": choice.choice((*_NUMBERS, None)),
            "mean": choice.choice((*_DOUBLES, None)),
            "last": choice.choice((*_TEXTS, None)),
            "final": choice.random() < 0.5,
        }
    return list(rows.values())


def random_condition(choice: random.Random, depth: int = 2) -> tuple[str, Predicate]:
    """Return a condition and its function."""
    kind = choice.choice(("and", "or", "not")) if depth and choice.random() < 0.5 else "leaf"
    if kind == "leaf":
        return choice.choice((_comparison, _of_null, _in, _between, _like, _arithmetic))(choice)
    text, first = random_condition(choice, depth - 1)
    if kind == "not":
        return f"NOT ({text})", lambda row: _not(first(row))
    other_text, other = random_condition(choice, depth - 1)
    combine = _and if kind == "and" else _or
    joined = f"({text}) {kind.upper()} ({other_text})"
    return joined, lambda row: combine(first(row), other(row))


def random_order(choice: random.Random, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Return one to three columns, and whether each is in descending order."""
    return [(name, choice.random() < 0.5) for name in choice.sample(names, choice.randint(1, 3))]


def ordered(
    items: Sequence[Item], order: Sequence[tuple[str, bool]], key_type: str = "text"
) -> list[Item]:
    """Return items in an order, null as the least value, and equal ones by key, start and end."""
    of_key = key_order(key_type)

    def identity(item: Item) -> tuple[Any, ...]:
        return of_key(item["key"]), item.get("window_start_ms", 0), item.get("window_end_ms", 0)

    result = sorted(items, key=identity)
    for name, is_descending in reversed(order):
        if name == "key" and key_type == "long":
            result.sort(key=lambda item: int(item["key"]), reverse=is_descending)
            continue
        valued = [item for item in result if item[name] is not None]
        nulls = [item for item in result if item[name] is None]
        # A stable sort from the greatest to the least value, without changing equal ones.
        values = sorted({_sortable(item[name]) for item in valued}, reverse=is_descending)
        groups = {value: [i for i in valued if _sortable(i[name]) == value] for value in values}
        sorted_items = [item for group in groups.values() for item in group]
        result = [*sorted_items, *nulls] if is_descending else [*nulls, *sorted_items]
    return result


def key_order(key_type: str) -> Callable[[str], Any]:
    """Return a function of a key whose values have the order of the keys."""
    if key_type == "long":
        return int
    if key_type == "text":
        return str.encode
    return lambda key: [_sortable(part) for part in json.loads(key)]


def _sortable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _comparison(choice: random.Random) -> tuple[str, Predicate]:
    name, values = choice.choice((("n", _NUMBERS), ("mean", _DOUBLES), ("last", _TEXTS)))
    value, (sign, compare) = choice.choice(values), choice.choice(list(_COMPARISONS.items()))
    return f"{name} {sign} {_literal(value)}", lambda row: _known(compare, row[name], value)


def _of_null(choice: random.Random) -> tuple[str, Predicate]:
    name = choice.choice(("n", "mean", "last"))
    if choice.random() < 0.5:
        return f"{name} IS NULL", lambda row: row[name] is None
    return f"{name} IS NOT NULL", lambda row: row[name] is not None


def _in(choice: random.Random) -> tuple[str, Predicate]:
    values = choice.sample(_TEXTS, 2)
    text = ", ".join(map(_literal, values))
    if choice.random() < 0.5:
        return f"last IN ({text})", lambda row: _known(lambda v, _: v in values, row["last"], 0)
    return f"last NOT IN ({text})", lambda row: _known(lambda v, _: v not in values, row["last"], 0)


def _between(choice: random.Random) -> tuple[str, Predicate]:
    low, high = choice.choice(_NUMBERS), choice.choice(_NUMBERS)
    return f"n BETWEEN {low} AND {high}", lambda row: _known(
        lambda value, _: low <= value <= high, row["n"], 0
    )


def _like(choice: random.Random) -> tuple[str, Predicate]:
    part, name = choice.choice(("a", "b", "é")), choice.choice(("last", "key"))
    pattern, holds = choice.choice((
        (f"{part}%", lambda value: value.startswith(part)),
        (f"%{part}", lambda value: value.endswith(part)),
        (f"%{part}%", lambda value: part in value),
        (part, lambda value: value == part),
    ))  # fmt: skip
    return f"{name} LIKE '{pattern}'", lambda row: _known(lambda v, _: holds(v), row[name], 0)


def _arithmetic(choice: random.Random) -> tuple[str, Predicate]:
    value = choice.choice(_DOUBLES)
    return f"n * 2 + mean > {value}", lambda row: _known(
        lambda n, mean: ctypes.c_int64(n * 2).value + mean > value, row["n"], row["mean"]
    )


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: _sortable(left) < _sortable(right),
    ">=": lambda left, right: _sortable(left) >= _sortable(right),
}


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return repr(value)


def _known(holds: Callable[[Any, Any], bool], left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else holds(left, right)


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    return _not(_and(_not(left), _not(right)))
