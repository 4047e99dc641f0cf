"""Random PromQL expressions, each with a plain Python function that says the same.

A function returns the value of each series at a time. It shares no code with the service.
"""

import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oriel.storage import StoreDefinition, StoreKind

#: The values of series by their labels.
Sample = Mapping[frozenset[tuple[str, str]], float]
Function = Callable[[int], Sample]


class ModelStore(NamedTuple):
    """A store as a plain list of windows, with the components of their keys."""

    definition: StoreDefinition
    windows: list[dict[str, Any]]
    components: Callable[[str], list[str]]


def sample_at(store: ModelStore, aggregate: str, time_ms: int) -> Sample:
    """Return the value of each series of a metric at a time."""
    newest: dict[str, dict[str, Any]] = {}
    for window in store.windows:
        order = window["end"], window["start"]
        known = newest.get(window["key"])
        if window["end"] <= time_ms and (known is None or order > (known["end"], known["start"])):
            newest[window["key"]] = window
    sample = {}
    for key, window in newest.items():
        value = window[aggregate]
        if value is None or not _is_valid(store.definition, window, time_ms):
            continue
        parts = store.components(key)
        names = ["key"] if len(parts) == 1 else [f"key_{i}" for i in range(1, len(parts) + 1)]
        labels = {"__name__": f"{store.definition.name}_{aggregate}"}
        labels |= {"store": store.definition.name, **dict(zip(names, parts, strict=True))}
        sample[frozenset((name, text) for name, text in labels.items() if text)] = float(value)
    return sample


def _is_valid(definition: StoreDefinition, window: Mapping[str, Any], time_ms: int) -> bool:
    spec = definition.window
    if spec.kind is StoreKind.HOPPING:
        assert spec.advance_ms is not None
        return bool(time_ms < window["end"] + spec.advance_ms)
    if spec.kind is StoreKind.TUMBLING:
        return bool(time_ms < window["end"] + spec.size_ms)
    if spec.kind is StoreKind.SESSION:
        return bool(time_ms <= window["end"] + spec.size_ms)
    return bool(window["timestamp"] >= time_ms - spec.size_ms)


def random_expression(
    choice: random.Random, store: ModelStore, depth: int = 2
) -> tuple[str, Function]:
    """Return a random expression over the metrics of a store, and its function."""
    if depth == 0 or choice.random() < 0.3:
        return _selector(choice, store)
    text, function = random_expression(choice, store, depth - 1)
    kind = choice.choice((_aggregation, _arithmetic, _comparison, _function, _ranking))
    if kind is _ranking:
        # Ties have no order in Prometheus. The values of a selector are different.
        text, function = _selector(choice, store)
    return kind(choice, text, function)


def _selector(choice: random.Random, store: ModelStore) -> tuple[str, Function]:
    aggregate = choice.choice(("n", "mean"))
    keys = sorted({window["key"] for window in store.windows})
    parts = [store.components(key) for key in keys]
    names = ["key"] if len(parts[0]) == 1 else [f"key_{i + 1}" for i in range(len(parts[0]))]
    matchers: list[tuple[str, str, str]] = []
    for _ in range(choice.randrange(3)):
        name = choice.choice((*names, *names, "store", "other"))
        values = {part[names.index(name)] for part in parts} if name in names else {"store", ""}
        one, other = (choice.choice(sorted(values)) for _ in range(2))
        sign = choice.choice(("=", "!=", "=~", "!~"))
        value = one
        if sign in {"=~", "!~"}:
            plain = f"{re.escape(one)}|{re.escape(other)}"
            value = choice.choice((plain, f"{re.escape(one[:1])}.*", ".+", ".*", ""))
        matchers.append((name, sign, value))
    inside = ",".join(f"{name}{sign}{_quoted(value)}" for name, sign, value in matchers)
    offset_ms = choice.choice((0, 0, 7, 20))
    offset = f" offset {offset_ms}ms" if offset_ms else ""

    def evaluated(time_ms: int) -> Sample:
        sample = sample_at(store, aggregate, time_ms - offset_ms)
        return {
            labels: value
            for labels, value in sample.items()
            if all(_matches(dict(labels).get(name, ""), *rest) for name, *rest in matchers)
        }

    return f"{store.definition.name}_{aggregate}{{{inside}}}{offset}", evaluated


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _matches(value: str, sign: str, pattern: str) -> bool:
    if sign in {"=", "!="}:
        return (value == pattern) == (sign == "=")
    return bool(re.fullmatch(pattern, value, re.DOTALL)) == (sign == "=~")


def _grouping(choice: random.Random) -> tuple[str, Callable[[frozenset[Any]], frozenset[Any]]]:
    names = {name for name in ("key", "key_1", "key_2", "store") if choice.random() < 0.4}
    listed = ", ".join(sorted(names))
    kind = choice.choice(("by", "without", ""))
    if kind == "without":
        dropped = names | {"__name__"}
        return f"without ({listed})", lambda labels: frozenset(
            pair for pair in labels if pair[0] not in dropped
        )
    if kind == "by":
        return f"by ({listed})", lambda labels: frozenset(
            pair for pair in labels if pair[0] in names
        )
    return "", lambda _: frozenset()


def _groups(sample: Sample, group: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for labels, value in sample.items():
        groups.setdefault(group(labels), []).append((labels, value))
    return groups


def _aggregation(choice: random.Random, text: str, function: Function) -> tuple[str, Function]:
    name = choice.choice(("sum", "avg", "min", "max", "count", "group"))
    clause, group = _grouping(choice)

    def of(values: list[float]) -> float:
        if name in {"min", "max"}:
            known = [value for value in values if not math.isnan(value)]
            return (min if name == "min" else max)(known) if known else math.nan
        total = sum(values)
        return {
            "sum": total, "avg": total / len(values), "count": len(values), "group": 1
        }[name]  # fmt: skip

    def evaluated(time_ms: int) -> Sample:
        groups = _groups(function(time_ms), group)
        return {labels: of([value for _, value in pairs]) for labels, pairs in groups.items()}

    return f"{name} {clause} ({text})", evaluated


def _ranking(choice: random.Random, text: str, function: Function) -> tuple[str, Function]:
    name, count = choice.choice(("topk", "bottomk")), choice.randrange(4)
    clause, group = _grouping(choice)

    def evaluated(time_ms: int) -> Sample:
        chosen: dict[Any, float] = {}
        for pairs in _groups(function(time_ms), group).values():
            ranked = sorted(pairs, key=lambda pair: pair[1], reverse=name == "topk")
            chosen.update(ranked[:count])
        return chosen

    return f"{name} {clause} ({count}, {text})", evaluated


def _without_name(labels: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in labels if pair[0] != "__name__")


_COMPUTATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul
}  # fmt: skip
_CONDITIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">=": operator.ge, "!=": operator.ne
}  # fmt: skip


def _arithmetic(choice: random.Random, text: str, function: Function) -> tuple[str, Function]:
    sign, number = choice.choice("+-*"), choice.choice((-2.0, 0.5, 3.0))
    is_left = choice.random() < 0.5
    compute = _COMPUTATIONS[sign]

    def evaluated(time_ms: int) -> Sample:
        return {
            _without_name(labels): compute(number, value) if is_left else compute(value, number)
            for labels, value in function(time_ms).items()
        }

    return f"({number}) {sign} ({text})" if is_left else f"({text}) {sign} ({number})", evaluated


def _comparison(choice: random.Random, text: str, function: Function) -> tuple[str, Function]:
    sign, number = choice.choice([*_CONDITIONS]), choice.choice((0.0, 5.0, 50.0))
    is_bool = choice.random() < 0.3
    holds = _CONDITIONS[sign]

    def evaluated(time_ms: int) -> Sample:
        sample = function(time_ms)
        if is_bool:
            return {
                _without_name(each): float(holds(value, number)) for each, value in sample.items()
            }
        return {each: value for each, value in sample.items() if holds(value, number)}

    return f"({text}) {sign} {'bool ' if is_bool else ''}{number}", evaluated


def _function(choice: random.Random, text: str, function: Function) -> tuple[str, Function]:
    name = choice.choice(("abs", "ceil", "floor", "-"))
    compute: Callable[[float], float] = {
        "abs": abs,
        "ceil": lambda value: float(math.ceil(value)),
        "floor": lambda value: float(math.floor(value)),
        "-": lambda value: -value,
    }[name]

    def evaluated(time_ms: int) -> Sample:
        return {_without_name(each): compute(value) for each, value in function(time_ms).items()}

    return f"{name}({text})", evaluated
