"""The operations of a tree in Oriel. Tree.java has them in Kafka Streams.

A tree is data. A node is a dict with the name of its operation (``op``), its arguments, and its
children (``input``, or ``left`` and ``right``). An operation has an entry here (in ``STREAMS``,
``TABLES`` or ``STORES``) and an entry with the same name in Tree.java. An expression is
[NAME, COLUMN], with an entry here and an entry in Expressions.java. Arrays are written like
expressions. ``random_trees`` creates trees.
"""

import builtins
from collections.abc import Callable, Mapping
from typing import Any

from oriel import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
    max,
    min,
    sum,
    until_window_closes,
)
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.windows import Aggregate, NoWindows, Windows

Node = Mapping[str, Any]
#: The schema of all topics. ``v`` is the position of the record in the log, or null.
SCHEMA = "v BIGINT, s STRING"
STORE = "store"
#: The output topic of ``to``.
OUT = "out"

#: An expression over a column, by its name.
EXPRESSIONS = {
    "column": "{}",
    "plus_1": "{} + 1",
    "negated": "-{}",
    "remainder_3": "{} % 3",
    "text": "CAST({} AS STRING)",
    "marked": "concat({}, '!')",
}
#: Arrays over a column, as ``EXPRESSIONS``.
ARRAYS = {
    "twice": "array({0}, {0} + 1)",
    "up_to_2": (
        "CASE abs({0}) % 3 WHEN 0 THEN slice(array({0}), 1, 0) WHEN 1 THEN array({0}) "
        "WHEN 2 THEN array({0}, -{0}) END"
    ),
    # Arrow does not support a computed length, because a length below 0 is an error.
    "up_to_2_by_spark": "slice(array({0}, -{0}), 1, CAST(abs({0}) % 3 AS INT))",
    "with_marked": "array({0}, concat({0}, '!'))",
    "split": "split({0}, '!')",
}
CONDITIONS = {
    "positive": "{} > 0",
    "third": "{} % 3 = 0",
    "is_a": "{} = 'a'",
    "is_null": "{} IS NULL",
    "is_set": "{} IS NOT NULL",
    "is_begun": "{} <> '0'",
}


def topology_of(tree: Node) -> Topology:
    """Return the topology of a tree. The last store is ``STORE``, or it has one output topic."""
    builder = StreamsBuilder()
    STORES[tree["op"]](builder, tree)
    return builder.build()


def expression(named: list[str]) -> str:
    """Return an expression in SQL."""
    name, column = named
    return EXPRESSIONS[name].format(column)


def array_of(node: Node) -> dict[str, str]:
    """Return the array of a ``flat_map_values`` or ``flat_map`` node. It replaces its column."""
    name, column = node["array"]
    return {column: ARRAYS[name].format(column)}


def condition(named: list[str]) -> str:
    """Return a condition in SQL."""
    name, column = named
    return CONDITIONS[name].format(column)


def stream_of(builder: StreamsBuilder, node: Node) -> KStream:
    """Return the stream of a node."""
    return STREAMS[node["op"]](builder, node)


def table_of(builder: StreamsBuilder, node: Node) -> Any:
    """Return the table of a node: of a topic or an aggregation."""
    return TABLES[node["op"]](builder, node)


def columns_of(node: Node) -> dict[str, str]:
    """Return the columns of a ``map_values`` or ``map`` node in SQL."""
    return {name: expression(of) for name, of in node["columns"].items()}


def _branches(builder: StreamsBuilder, node: Node) -> list[KStream]:
    """Return the branches in the order of their conditions, with the default branch last."""
    split = stream_of(builder, node["input"]).split()
    for of in node["conditions"]:
        split = split.branch(condition(of))
    return list(split.default_branch().values())


def _merged_branches(builder: StreamsBuilder, node: Node) -> KStream:
    first, second, *_ = _branches(builder, node)
    return first.merge(second)


def _join_streams(builder: StreamsBuilder, node: Node) -> KStream:
    left, right = (stream_of(builder, node[side]) for side in ("left", "right"))
    before, after = node["before"], node["after"]
    # The greater bound is set first, because before + after must never be negative, as in Kafka.
    windows = JoinWindows.of_time_difference_and_grace(builtins.max(before, after), node["grace"])
    windows = windows.before(before).after(after)
    stream: KStream = _by_how(left, node)(right, windows)
    return stream


def _join_global(builder: StreamsBuilder, node: Node) -> KStream:
    left = stream_of(builder, node["left"])
    table = builder.global_table(node["topic"], SCHEMA)
    stream: KStream = _by_how(left, node)(table, key=expression(node["key"]))
    return stream


def _by_how(left: Any, node: Node) -> Any:
    return left.join if node["how"] == "inner" else getattr(left, f"{node['how']}_join")


STREAMS: Mapping[str, Callable[[StreamsBuilder, Node], KStream]] = {
    "stream": lambda b, n: b.stream(n["topic"], SCHEMA),
    "filter": lambda b, n: stream_of(b, n["input"]).filter(condition(n["condition"])),
    "filter_not": lambda b, n: stream_of(b, n["input"]).filter_not(condition(n["condition"])),
    "map_values": lambda b, n: stream_of(b, n["input"]).map_values(**columns_of(n)),
    "select_key": lambda b, n: stream_of(b, n["input"]).select_key(expression(n["key"])),
    "map": lambda b, n: stream_of(b, n["input"]).map(expression(n["key"]), **columns_of(n)),
    "flat_map_values": lambda b, n: stream_of(b, n["input"]).flat_map_values(
        *n["keep"], **array_of(n)
    ),
    "flat_map": lambda b, n: stream_of(b, n["input"]).flat_map(
        expression(n["key"]), *n["keep"], **array_of(n)
    ),
    "merge": lambda b, n: stream_of(b, n["left"]).merge(stream_of(b, n["right"])),
    "branch": lambda b, n: _branches(b, n)[int(n["take"])],
    "merged_branches": _merged_branches,
    "join_streams": _join_streams,
    "join_table": lambda b, n: _by_how(stream_of(b, n["left"]), n)(
        table_of(b, n["right"]), grace_ms=n.get("grace")
    ),
    "join_global": _join_global,
    "to_stream": lambda b, n: table_of(b, n["input"]).to_stream(),
    "rows_of": lambda b, n: _aggregated_of(b, n["input"]).to_stream(),
}

TABLES: Mapping[str, Callable[[StreamsBuilder, Node], Any]] = {
    "aggregated": lambda b, n: _aggregated_of(b, n["input"]),
    "table": lambda b, n: b.table(n["topic"], SCHEMA),
    "versioned_table": lambda b, n: b.versioned_table(n["topic"], SCHEMA, n["history"]),
    "to_table": lambda b, n: stream_of(b, n["input"]).to_table(),
    "filter": lambda b, n: table_of(b, n["input"]).filter(condition(n["condition"])),
    "filter_not": lambda b, n: table_of(b, n["input"]).filter_not(condition(n["condition"])),
    "map_values": lambda b, n: table_of(b, n["input"]).map_values(**columns_of(n)),
    "join_tables": lambda b, n: _by_how(table_of(b, n["left"]), n)(table_of(b, n["right"])),
    "join_by_foreign_key": lambda b, n: _by_how(table_of(b, n["left"]), n)(
        table_of(b, n["right"]), foreign_key=expression(n["key"])
    ),
}


def windows_of(node: Node) -> Windows:
    """Return the windows of an aggregation."""
    windows = node["windows"]
    length, grace = windows.get("length", 0), windows.get("grace", 0)
    if windows["kind"] == "none":
        return NoWindows()
    if windows["kind"] == "session":
        return SessionWindows.of_inactivity_gap_and_grace(length, grace)
    if windows["kind"] == "sliding":
        return SlidingWindows.of_time_difference_and_grace(length, grace)
    return TimeWindows.of_size_and_grace(length, grace).advance_by(windows["advance"])


def _grouped(builder: StreamsBuilder, node: Node) -> KGroupedStream:
    stream = stream_of(builder, node["input"])
    return (
        stream.group_by_key() if node["key"] is None else stream.group_by(expression(node["key"]))
    )


def every_column(number: int, columns: Mapping[str, str]) -> dict[str, Aggregate]:
    """Return aggregates of all columns of stream ``number``, with names of RowAggregation.java."""
    aggregates = {f"n{number}": count()}
    for name, of_type in columns.items():
        if of_type == "BIGINT":
            aggregates[f"total{number}_{name}"] = sum(name)
        aggregates[f"least{number}_{name}"] = min(name)
        aggregates[f"most{number}_{name}"] = max(name)
        aggregates[f"all{number}_{name}"] = collect_list(name)
    return aggregates


def _v(value: Mapping[str, Any] | None) -> int | None:
    return None if value is None else value["v"]


def _text_of(value: Mapping[str, Any] | None) -> str:
    return "null" if _v(value) is None else str(_v(value))


def _folded(_: str, value: Mapping[str, Any] | None, text: str) -> str:
    return f"{text}+{_text_of(value)}"


def _unfolded(_: str, value: Mapping[str, Any], text: str) -> str:
    return f"{text}-{_text_of(value)}"


def _removing(key: str, value: Mapping[str, Any] | None, text: str) -> str | None:
    place = _v(value)
    return None if place is not None and place % 3 == 0 else _folded(key, value, text)


def _merged(_: str, left: str, right: str) -> str:
    return f"{left}+{right}"


def _reduced(kept: Any, added: Any) -> Any:
    others = dict.fromkeys(kept or added or ())
    newer = {"v": (_v(kept) or 0) + (_v(added) or 0), "s": None if added is None else added["s"]}
    return others | newer


_AGGREGATORS = {"fold": _folded, "removing": _removing}


def _aggregated_of(builder: StreamsBuilder, node: Node) -> KTable:
    make = {"reduce": _reduce, "aggregate": _aggregate, "group_table": _group_table}
    return make[node["op"]](builder, node)


def _aggregate(builder: StreamsBuilder, node: Node) -> KTable:
    windows, how, inputs = windows_of(node), node["how"], node["inputs"]
    grouped: Any = [_grouped(builder, each) for each in inputs]
    aggregates = [every_column(number, each["columns"]) for number, each in enumerate(inputs)]
    if len(grouped) > 1:
        cogrouped = grouped[0].cogroup(**aggregates[0])
        for each, of_it in zip(grouped[1:], aggregates[1:], strict=True):
            cogrouped = cogrouped.cogroup(each, **of_it)
        table = _windowed(cogrouped, windows, node).aggregate()
    elif how in _AGGREGATORS:
        stream = _windowed(grouped[0], windows, node)
        table = stream.aggregate(lambda: "0", _AGGREGATORS[how], _merged, "text STRING")
    else:
        table = _windowed(grouped[0], windows, node).aggregate(**aggregates[0])
    return _kept(table, node)


def _reduce(builder: StreamsBuilder, node: Node) -> KTable:
    stream = _windowed(_grouped(builder, node["inputs"][0]), windows_of(node), node)
    return _kept(stream.reduce(_reduced), node)


def _windowed(stream: Any, windows: Windows, node: Node) -> Any:
    if isinstance(windows, NoWindows):
        return stream
    windowed = stream.windowed_by(windows)
    return windowed.emit(EmitStrategy.on_window_close()) if node["emit"] == "close" else windowed


#: The steps after an aggregation.
ROW_STEPS: Mapping[str, Callable[[KTable, Node], KTable]] = {
    "filter": lambda table, step: table.filter(condition(step["condition"])),
    "filter_not": lambda table, step: table.filter_not(condition(step["condition"])),
    "map_values": lambda table, step: table.map_values(**columns_of(step)),
}


def _kept(table: KTable, node: Node) -> KTable:
    """Materialize the rows after their steps. Suppress is the first or the last step."""
    suppresses, is_last = node.get("emit") == "suppress", node.get("suppress") == "last"
    if suppresses and not is_last:
        table = table.suppress(until_window_closes())
    for step in node.get("behind", ()):
        table = ROW_STEPS[step["op"]](table, step)
    if suppresses and is_last:
        table = table.suppress(until_window_closes())
    return table.materialize(node.get("store", STORE))


def _materialize(builder: StreamsBuilder, node: Node) -> None:
    table_of(builder, node["input"]).materialize(STORE)


def _group_table(builder: StreamsBuilder, node: Node) -> KTable:
    aggregates: dict[str, Aggregate] = {"n0": count()}
    for name, of_type in node["columns"].items():
        aggregates[f"n0_{name}"] = count(name)
        if of_type == "BIGINT":
            aggregates[f"total0_{name}"] = sum(name)
    grouped: Any = table_of(builder, node["input"]).group_by(expression(node["key"]))
    if node["how"] == "fold":
        table = grouped.aggregate(lambda: "0", _folded, _unfolded, _merged, "text STRING")
    else:
        table = grouped.aggregate(**aggregates)
    return _kept(table, node)


#: The rows that a join of two aggregations has.
_JOINED_ROWS = {"inner": "n0 > 0 AND n1 > 0", "left": "n0 > 0"}


def _join_aggregates(builder: StreamsBuilder, node: Node) -> None:
    first: Any
    first, second = (_grouped(builder, each) for each in node["inputs"])
    of_first, of_second = (
        every_column(number, each["columns"]) for number, each in enumerate(node["inputs"])
    )
    if node["windows"]["kind"] != "none":
        left = _windowed(first, windows_of(node), node).aggregate(**of_first)
        right = _windowed(second, windows_of(node), node).aggregate(**of_second)
        _by_how(left, node)(right).materialize(STORE)
        return
    table = first.cogroup(**of_first).cogroup(second, **of_second).aggregate()
    if node["how"] in _JOINED_ROWS:
        table = table.filter(_JOINED_ROWS[node["how"]])
    table.materialize(STORE)


def _to(builder: StreamsBuilder, node: Node) -> None:
    stream_of(builder, node["input"]).to(OUT)


STORES: Mapping[str, Callable[[StreamsBuilder, Node], object]] = {
    "materialize": _materialize,
    "group_table": _group_table,
    "reduce": _reduce,
    "aggregate": _aggregate,
    "join_aggregates": _join_aggregates,
    "to": _to,
}
