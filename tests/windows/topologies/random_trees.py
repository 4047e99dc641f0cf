"""Random trees of operations, with logs for which Kafka's results should equal ours.

Kafka Streams has one stream time per task. Oriel has one per partition of each topic (decisions
0012, 0013, 0059). If a tree reads several streams, its log is in order or its grace is ample, so
that no record is late in either system. If a tree reads one stream, records can be late. The trees
avoid the other differences. These are in docs/reference/kafka-streams-differences.md, each with a
test.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.windows.topologies.random_logs import Entry, Plan, random_log
from tests.windows.topologies.random_parts import (
    AMPLE_MS,
    Built,
    Columns,
    Trees,
    history_ms_of,
    random_windows,
    rows_of,
)
from tests.windows.topologies.tree_facts import is_interleaving_free, topics_of

#: The columns of a window that steps after an aggregation can read.
WINDOW_BOUNDS = ("window_start_ms", "window_end_ms")


@dataclass(frozen=True)
class Case:
    """A tree, its log and their seed."""

    seed: int
    tree: Mapping[str, Any]
    log: Sequence[Entry]
    #: Whether no result depends on how the topics are interleaved (docs/concepts/guarantees.md#1).
    is_interleaving_free: bool
    #: The index of the log of the tree.
    number: int = 0

    @property
    def topics(self) -> list[str]:
        """Return the topics that the tree reads."""
        return sorted(topics_of(self.tree))


_WINDOW_KINDS = ("none", "tumbling", "hopping", "sliding", "session")
#: Aggregations of one stream, because the results of functions depend on the order of records.
_OF_ONE = ("columns", "columns", "fold", "removing", "reduce")
_ALL_EMITS = ("update", "update", "close", "suppress")


def _one_stream(trees: Trees, plan: Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stream("a", most=4)])


def _lookup(trees: Trees, plan: Plan) -> dict[str, Any]:
    number = trees.random.choice((1, 2, 2, 3))
    found = trees.looked_up(trees.stream("a"), number, waits=True)
    return _aggregated(trees, plan, [trees.stepped(found)])


def _merger_looked_up(trees: Trees, plan: Plan) -> dict[str, Any]:
    number = trees.random.choice((1, 1, 2))
    return _aggregated(trees, plan, [trees.stepped(trees.looked_up(trees.merged(), number))])


def _merger(trees: Trees, plan: Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stepped(trees.merged())])


def _branches(trees: Trees, plan: Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stepped(trees.merged_branches())])


def _cogroup(trees: Trees, plan: Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stream(topic) for topic in trees.topics])


def _join_grace(random: Random, before: int, after: int) -> int:
    """Return a grace with which Kafka finds all matches of records in order.

    Its join stores have records up to before + after + grace before the newest record. However, a
    match can be older by the greater bound ("match at the edge").
    """
    least = max(0, max(before, after) - (before + after) + 1)
    return least + random.choice((0, 0, 3, AMPLE_MS))


def _inner_join(trees: Trees, plan: Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [_inner_joined(trees, plan)])


def _inner_joined(trees: Trees, plan: Plan) -> Built:
    random = trees.random
    joins = random.choice((1, 1, 1, 2, 2, 3))
    more = [random.choice(("a", "b", "c", "d", "ab")) for _ in range(joins + 1)]
    topics = iter(more if joins > 1 else random.choice((("a", "b"), ("a", "a"), ("ab", "c"))))
    found = trees.looked_up(_inner_side(trees, plan, joins, topics), random.choice((0, 0, 1, 2)))
    return trees.stepped(found)


def _inner_side(trees: Trees, plan: Plan, joins: int, topics: Iterator[str]) -> Built:
    """Return a stream with ``joins`` joins of ``topics``. Without joins, one or merged topics."""
    random = trees.random
    if not joins:
        topic = next(topics)
        return trees.merged() if topic == "ab" else trees.stream(topic, 1)
    before, after = random.choice(((5, 5), (0, 0), (0, 7), (12, 3), (-2, 6), (9, -4)))
    grace = AMPLE_MS if plan.ample else _join_grace(random, before, after)
    of_left = random.randint(0, joins - 1)
    sides = [
        trees.looked_up(_inner_side(trees, plan, number, topics), random.choice((0, 0, 1)))
        for number in (of_left, joins - 1 - of_left)
    ]
    return trees.stepped(trees.joined("inner", (before, after, grace), *sides), most=1)


def _written(trees: Trees, plan: Plan) -> dict[str, Any]:
    random = trees.random
    makes: Sequence[Callable[[], Built]] = (
        lambda: trees.stream("a", most=4),
        lambda: trees.looked_up(trees.stream("a"), random.choice((1, 2)), waits=True),
        trees.merged,
        trees.merged_branches,
        lambda: _inner_joined(trees, plan),
        trees.updates,
    )
    return {"op": "to", "input": trees.stepped(random.choice(makes)()).node}


def _outer_join(trees: Trees, plan: Plan) -> dict[str, Any]:
    """Return a chain of joins. At least one is left or outer, and some inputs are merged streams.

    Unmatched records are emitted late, so the next join of Kafka matches them only with an ample
    grace.
    """
    random = trees.random

    def side(topic: str) -> Built:
        if random.random() < 0.25:
            return trees.merged((topic, f"{topic}{topic}"))
        return trees.stream(topic, 1)

    topics = "abcd"[: random.choice((2, 2, 3, 4))]
    hows = [random.choice(("inner", "left", "outer")) for _ in topics[1:]]
    hows[random.randrange(len(hows))] = random.choice(("left", "outer"))
    built = side(topics[0])
    for number, (topic, how) in enumerate(zip(topics[1:], hows, strict=True)):
        before, after = random.choice(((5, 5), (0, 0), (0, 7), (12, 3)))
        has_unmatched = any(front != "inner" for front in hows[:number])
        grace = AMPLE_MS if has_unmatched else min(_join_grace(random, before, after), 100)
        sides = [
            trees.looked_up(side, random.choice((0, 0, 1)))
            for side in (trees.with_other_values(built), side(topic))
        ]
        built = trees.joined(how, (before, after, grace), *sides)
    found = trees.looked_up(built, random.choice((0, 0, 1)))
    return _aggregated(trees, plan, [trees.stepped(found)])


def _table(trees: Trees, _: Plan) -> dict[str, Any]:
    table = trees.tables(4)
    while history_ms_of(table.node) is not None:
        # In Kafka, a materialized versioned table is versioned only if the new store is.
        table = trees.tables(4)
    return {"op": "materialize", "input": table.node}


def _foreign_key(trees: Trees, _: Plan) -> dict[str, Any]:
    return {"op": "materialize", "input": trees.tables_by_foreign_key().node}


def _grouped_table(trees: Trees, _: Plan) -> dict[str, Any]:
    table = trees.tables(4) if trees.random.random() < 0.6 else trees.table()
    key = trees.key(table.columns)
    numbers = [name for name, of in table.columns.items() if of == "BIGINT"]
    seen = dict.fromkeys(("n0", *(f"total0_{number}" for number in numbers)), "BIGINT")
    rows = seen | {f"n0_{name}": "BIGINT" for name in table.columns}
    how = trees.random.choice(("columns", "columns", "fold"))
    if "v" not in table.columns:
        how = "columns"
    if how == "fold":
        rows = seen = {"text": "STRING"}
    return {
        "op": "group_table", "how": how, "key": key, "columns": table.columns,
        "input": table.node, "behind": trees.row_steps(rows, seen, {}),
    }  # fmt: skip


def _updates(trees: Trees, plan: Plan) -> dict[str, Any]:
    stream = trees.looked_up(trees.updates(), trees.random.choice((0, 0, 1)))
    return _aggregated(trees, plan, [trees.stepped(stream)])


def _joined_aggregates(trees: Trees, plan: Plan) -> dict[str, Any]:
    """Return a join of two aggregations with equal time windows, or without windows."""
    kinds = ("none", "tumbling", "hopping")
    node = _aggregated(trees, plan, [trees.stream(topic) for topic in trees.topics], kinds)
    how = trees.random.choice(("inner", "left", "outer"))
    return node | {"op": "join_aggregates", "how": how, "behind": []}


def _rows_of_stores(trees: Trees, plan: Plan) -> dict[str, Any]:
    """Return windows over the final rows of windows, sometimes in two levels."""
    random = trees.random
    built = trees.stream("a")
    kinds = ["tumbling", "hopping", "session", *(["sliding"] if plan.in_order else [])]
    closing = replace(plan, emits=("close", "suppress"), hows=("columns",))
    for number in range(random.choice((1, 1, 2))):
        upstream = _aggregated(trees, closing, [built], kinds)
        # After a filter, Kafka's suppress waits for rows that pass ("suppress after a filter").
        upstream["suppress"] = "first"
        # The next operation reads other columns than ``map_values`` would keep.
        upstream["behind"] = [s for s in upstream["behind"] if s["op"] != "map_values"]
        rows = {"op": "rows_of", "input": upstream | {"store": f"store-{number}"}}
        texts = [name for name, of_type in built.columns.items() if of_type == "STRING"]
        columns = {
            "v": ["column", random.choice(("n0", "total0_v", "most0_v"))],
            "s": ["column", f"least0_{random.choice(texts)}"],
            "at": ["column", random.choice(("window_start_ms", "window_end_ms"))],
        }
        node = {"op": "map_values", "columns": columns, "input": rows}
        types = {"v": "BIGINT", "s": "STRING", "at": "BIGINT"}
        built = trees.stepped(Built(node, types))
    built = trees.looked_up(built, random.choice((0, 0, 1)))
    return _aggregated(trees, plan, [built])


def _updates_of_stores(trees: Trees, plan: Plan) -> dict[str, Any]:
    """Return windows over every update of windows, sometimes in two levels."""
    random = trees.random
    updating = replace(plan, emits=("update",))
    # The stream time of a table includes all records, but in Kafka only records that continue.
    of_table = not plan.in_order and random.random() < 0.3
    if of_table:
        group = _grouped_table(trees, plan)
        group["behind"] = [s for s in group["behind"] if s["op"] != "map_values"]
        rows = {"op": "rows_of", "input": group | {"store": "groups"}}
        is_by_functions = group["how"] == "fold"
        columns = {"s": ["column", "text" if is_by_functions else "key"]}
        columns |= {} if is_by_functions else {"v": ["column", "n0"]}
        node = {"op": "map_values", "columns": columns}
        types = {name: "STRING" if name == "s" else "BIGINT" for name in columns}
        built = trees.stepped(Built(node | {"input": rows}, types))
    elif plan.in_order:
        # One join, but not of merged streams or with itself, because Kafka emits the matches of a
        # record in another order (docs/reference/kafka-streams-differences.md, "Joins").
        built = trees.stepped(_inner_side(trees, plan, 1, iter("ab")))
    elif plan.ample and random.random() < 0.4:
        built = trees.merged()
    else:
        built = trees.looked_up(trees.stream("a"), random.choice((0, 0, 0, 1)))
    of_cogroup = plan.ample and not of_table and random.random() < 0.5
    if plan.ample and built.node.get("op") != "merge" and not of_cogroup:
        updating = replace(updating, hows=_OF_ONE)
    # Kafka loses partly late records in sliding windows.
    kinds = ["none", "tumbling", "hopping", "session", *(["sliding"] if plan.ample else [])]
    kinds = kinds[:1] if of_table else kinds
    for number in range(random.choice((1, 1, 2))):
        # In a batch, the logs of a topic that is read twice are processed one after the other.
        inputs = [built, *([trees.stream("c")] if of_cogroup and not number else [])]
        upstream = _aggregated(trees, updating, inputs, kinds)
        if upstream["windows"]["kind"] == "sliding":
            # The log has even times, so two records never define a window ("window that two records
            # define").
            upstream["windows"]["length"] = random.choice((4, 6, 12))
        # The next operation reads other columns than ``map_values`` would keep.
        upstream["behind"] = [s for s in upstream["behind"] if s["op"] != "map_values"]
        columns = _chosen(random, rows_of(upstream["how"], inputs)[1])
        kind = upstream["windows"]["kind"]
        goes = upstream["behind"] or upstream["how"] == "removing" or kind == "session"
        if kind != "none" and not goes:
            # Steps can read the bounds of a deleted row, unlike Kafka ("deleted row of a window").
            columns["at"] = ["column", random.choice(WINDOW_BOUNDS)]
        rows = {"op": "rows_of", "input": upstream | {"store": f"store-{number}"}}
        node = {"op": "map_values", "columns": columns, "input": rows}
        types = {name: "STRING" if name == "s" else "BIGINT" for name in columns}
        # A deleted row has no columns, and a row of a cogroup can have no records of a stream.
        built = trees.stepped(Built(node, types, frozenset(columns)))
    built = trees.looked_up(built, random.choice((0, 0, 1)))
    if random.random() < 0.3:
        return {"op": "to", "input": built.node}
    return _aggregated(trees, plan, [built], kinds if of_table else _WINDOW_KINDS)


def _chosen(random: Random, rows: Columns) -> dict[str, list[str]]:
    """Return some columns of the rows of an aggregation, as ``v`` and ``s``."""
    chosen = {}
    for name, of_type in (("v", "BIGINT"), ("s", "STRING")):
        of = [column for column, its_type in rows.items() if its_type == of_type]
        if of:
            chosen[name] = ["column", random.choice(of)]
    return chosen


#: Tables that are aggregations of joined streams.
_OF_PAIRS = Plan(in_order=True, ample=True, ends=False, pairs=True)

#: Kinds of trees, and their plans. A tree that reads one stream can have any log.
KINDS: Mapping[str, tuple[Callable[[Trees, Plan], dict[str, Any]], Sequence[Plan]]] = {
    "one stream": (
        _one_stream,
        [Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE)],
    ),
    "lookup": (
        _lookup,
        [Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE)],
    ),
    "merger looked up": (
        _merger_looked_up,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "merger": (
        _merger,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
            Plan(in_order=True, ample=False, ends=True, emits=("close", "suppress")),
        ],
    ),
    "branches": (
        _branches,
        [Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE)],
    ),
    # After a cogroup, Kafka has no emit strategy, only suppress.
    "cogroup": (
        _cogroup,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
            Plan(in_order=True, ample=False, ends=True, emits=("suppress",)),
        ],
    ),
    "inner join": (
        _inner_join,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "outer join": (_outer_join, [Plan(in_order=True, ample=True, ends=True)]),
    "table": (_table, [Plan(in_order=False, ample=False, ends=False), _OF_PAIRS]),
    "foreign key": (_foreign_key, [Plan(in_order=False, ample=False, ends=False)]),
    "grouped table": (_grouped_table, [Plan(in_order=False, ample=False, ends=False), _OF_PAIRS]),
    "joined aggregates": (
        _joined_aggregates,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "rows of stores": (
        _rows_of_stores,
        [
            Plan(
                in_order=in_order,
                ample=False,
                ends=False,
                emits=_ALL_EMITS,
                hows=_OF_ONE,
                many=True,
            )
            for in_order in (False, True)
        ],
    ),
    "updates of stores": (
        _updates_of_stores,
        [
            Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE),
            # Merged streams have one stream time in Kafka and two in Oriel.
            Plan(in_order=False, ample=True, ends=False, hows=("columns",)),
            # For joined streams, the results are in the order of their records.
            Plan(in_order=True, ample=True, ends=False, hows=("columns",)),
        ],
    ),
    "written": (
        _written,
        [
            Plan(in_order=True, ample=False, ends=False),
            Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "updates": (
        _updates,
        [
            Plan(in_order=in_order, ample=True, ends=False, hows=_OF_ONE)
            for in_order in (False, True)
        ]
        + [replace(_OF_PAIRS, hows=_OF_ONE)],
    ),
}


def random_cases(seed: int, logs: int) -> list[Case]:
    """Return a random tree with this many logs."""
    random = Random(seed)
    kind = random.choice(list(KINDS))
    make, plans = KINDS[kind]
    plan = random.choice(plans)
    trees = Trees(random, steady=plan.ends, pairs=plan.pairs)
    tree = make(trees, plan)
    free = is_interleaving_free(tree)
    return [
        Case(seed, tree, random_log(random, tree, plan), free, number) for number in range(logs)
    ]


def _aggregated(
    trees: Trees, plan: Plan, inputs: Sequence[Built], kinds: Sequence[str] = _WINDOW_KINDS
) -> dict[str, Any]:
    random = trees.random
    how = random.choice(plan.hows)
    if "v" not in inputs[0].columns or inputs[0].columns["v"] != "BIGINT":
        how = "columns"
    if how == "removing":
        # A removed row has another result in Kafka ("removed aggregate in sliding windows").
        kinds = [kind for kind in kinds if kind != "sliding"]
    windows = random_windows(random, random.choice(kinds), ample=plan.ample)
    emit = random.choice(plan.emits)
    if windows["kind"] == "none" or how in {"removing", "reduce"}:
        emit = "update"
    if emit == "suppress" and windows["kind"] in {"sliding", "session"}:
        # Kafka emits them 1 ms early (docs/reference/kafka-streams-differences.md, "Suppress").
        emit = "close" if len(inputs) == 1 else "update"
    keyed = [
        {
            "input": built.node,
            "key": trees.key(built.columns) if random.random() < 0.3 else None,
            "columns": built.columns,
        }
        for built in inputs
    ]
    operation = "reduce" if how == "reduce" else "aggregate"
    is_windowed = windows["kind"] != "none"
    bounds = dict.fromkeys(WINDOW_BOUNDS, "BIGINT") if is_windowed else {}
    return {
        "op": operation, "how": how, "windows": windows, "emit": emit, "inputs": keyed,
        "suppress": random.choice(("first", "last")),
        "behind": trees.row_steps(*rows_of(how, inputs), bounds),
    }  # fmt: skip
