"""Random trees of operations, and logs for them, such that Kafka's results should be ours.

Kafka Streams has one clock for what one task reads, we have one for each partition of each topic
(decisions 0012, 0013, 0059). So where a tree reads several streams, either its log is in the order
of time or its grace is ample: then nothing is late by either's clocks. Where one stream alone
decides, records come as late as they like. What else is left out is what the guide names
(docs/for-kafka-streams.md, "Where topologies differ"): each point has a test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

#: Column -> type.
Columns = dict[str, str]
#: Topic, key, value, time.
Entry = tuple[str, str | None, Mapping[str, Any] | None, int]

#: More than the times of a log are apart.
AMPLE_MS = 10_000
#: What all windows of a log are closed by: one record of each topic, at this time. A longer silence
#: would lose sessions in Kafka (tests/windows/test_kafka_sessions.py).
_LAST_MS = 30_000
#: Positive, divisible by 3, set, "a": every condition in front of a join or a merger lets it pass.
_LAST_VALUE = {"v": 999_999, "s": "a"}


@dataclass(frozen=True)
class Case:
    """A tree, its log and the seed that they are of."""

    seed: int
    tree: Mapping[str, Any]
    log: Sequence[Entry]
    #: Whether no result depends on how the topics are interleaved (docs/topology.md).
    is_interleaving_free: bool
    #: Which of the tree's logs it is.
    number: int = 0

    @property
    def topics(self) -> list[str]:
        """The topics that the tree reads."""
        return sorted(topics_of(self.tree))


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


@dataclass
class _Built:
    """A stream or table under way."""

    node: dict[str, Any]
    columns: Columns
    #: Whether its key may be another than the record's own.
    is_rekeyed: bool = False


@dataclass
class _Trees:
    """Makes the trees of one seed; ``steady``: the log's last records pass all operations."""

    random: Random
    steady: bool
    topics: list[str] = field(default_factory=lambda: ["a", "b"])

    def condition(self, columns: Columns) -> list[str]:
        """A condition over a random column."""
        name = self.random.choice([*columns, "key"])
        is_number = columns.get(name) == "BIGINT"
        if self.steady:
            return [self.random.choice(("positive", "is_set") if is_number else ("is_set",)), name]
        tests = ("positive", "third") if is_number else ("is_a",)
        return [self.random.choice((*tests, *tests, "is_null", "is_set")), name]

    def key(self, columns: Columns) -> list[str]:
        """What a new key is made of."""
        name = self.random.choice(["s", "s", "key", *columns])
        if self.steady:
            return [self.random.choice(("column", "marked")), "s"]
        if columns.get(name) == "BIGINT":
            return [self.random.choice(("remainder_3", "text", "column")), name]
        return [self.random.choice(("column", "marked")), name if name in columns else "key"]

    def values(self, columns: Columns) -> tuple[dict[str, list[str]], Columns]:
        """New columns of the same types and names; now and then one more."""
        made: dict[str, list[str]] = {}
        changes = ("plus_1",) if self.steady else ("plus_1", "negated", "remainder_3")
        for name, of_type in columns.items():
            other = self.random.choice(changes if of_type == "BIGINT" else ("marked",))
            keeps = self.random.random() < 0.6 or (self.steady and of_type == "STRING")
            made[name] = ["column" if keeps else other, name]
        return made, dict(columns)

    def stepped(
        self, built: _Built, *, is_table: bool = False, filters: bool = True, most: int = 2
    ) -> _Built:
        """With up to ``most`` row-wise operations behind."""
        rowwise: list[Callable[[_Built], _Built]] = [self._mapped]
        if filters:
            rowwise += [self._filtered, self._filtered_not]
        if not is_table:
            rowwise += [self._with_new_key, self._with_new_key_and_value, self._branch]
        for _ in range(self.random.choice((0, 0, 1, 1, most))):
            built = self.random.choice(rowwise)(built)
        return built

    def stream(self, topic: str, most: int = 2) -> _Built:
        """A topic with row-wise operations behind."""
        columns = {"v": "BIGINT", "s": "STRING"}
        return self.stepped(_Built({"op": "stream", "topic": topic}, columns), most=most)

    def table(self, topic: str, *, filters: bool = True) -> _Built:
        """A topic as a table with row-wise operations behind."""
        columns = {"v": "BIGINT", "s": "STRING"}
        built = _Built({"op": "table", "topic": topic}, columns)
        return self.stepped(built, is_table=True, filters=filters)

    def renamed(self, built: _Built) -> _Built:
        """With other names for the columns, for the right side of a join."""
        names = {"v": "w", "s": "r"}
        columns = {names[name]: ["column", name] for name in built.columns}
        node = {"op": "map_values", "columns": columns, "input": built.node}
        types = {names[name]: of_type for name, of_type in built.columns.items()}
        return _Built(node, types, built.is_rekeyed)

    def _filtered(self, built: _Built) -> _Built:
        condition = self.condition(built.columns)
        node = {"op": "filter", "condition": condition, "input": built.node}
        return _Built(node, built.columns, built.is_rekeyed)

    def _filtered_not(self, built: _Built) -> _Built:
        condition = self.condition(built.columns)
        if self.steady:
            condition = ["is_null", self.random.choice([*built.columns, "key"])]
        node = {"op": "filter_not", "condition": condition, "input": built.node}
        return _Built(node, built.columns, built.is_rekeyed)

    def _mapped(self, built: _Built) -> _Built:
        made, columns = self.values(built.columns)
        node = {"op": "map_values", "columns": made, "input": built.node}
        return _Built(node, columns, built.is_rekeyed)

    def _with_new_key(self, built: _Built) -> _Built:
        node = {"op": "select_key", "key": self.key(built.columns), "input": built.node}
        return _Built(node, built.columns, is_rekeyed=True)

    def _with_new_key_and_value(self, built: _Built) -> _Built:
        key = self.key(built.columns)
        made, columns = self.values(built.columns)
        node = {"op": "map", "key": key, "columns": made, "input": built.node}
        return _Built(node, columns, is_rekeyed=True)

    def _branch(self, built: _Built) -> _Built:
        conditions = [self.condition(built.columns) for _ in range(self.random.choice((1, 2)))]
        take = self.random.randint(0, len(conditions))
        if self.steady:
            # The last records go to the first branch.
            take = 0
        node = {"op": "branch", "conditions": conditions, "take": str(take), "input": built.node}
        return _Built(node, built.columns, built.is_rekeyed)

    def merged(self) -> _Built:
        """Two topics as one stream."""
        left, right = (self.stream(topic) for topic in self.topics)
        node = {"op": "merge", "left": left.node, "right": right.node}
        return _Built(node, left.columns, left.is_rekeyed or right.is_rekeyed)

    def merged_branches(self) -> _Built:
        """Two branches of one topic as one stream again."""
        one = self.stream(self.topics[0], most=1)
        conditions = [self.condition(one.columns) for _ in range(2)]
        node = {"op": "merged_branches", "conditions": conditions, "input": one.node}
        return _Built(node, one.columns, one.is_rekeyed)

    def joined(self, how: str, span: tuple[int, int, int], left: _Built, topic: str) -> _Built:
        """A stream with another of ``topic``, which may be its own."""
        right = self.renamed(self.stream(topic, most=1))
        before, after, grace = span
        node = {
            "op": "join_streams", "how": how, "before": before, "after": after, "grace": grace,
            "left": left.node, "right": right.node,
        }  # fmt: skip
        return _Built(node, left.columns | right.columns, left.is_rekeyed or right.is_rekeyed)

    def looked_up(self, how: str, left: _Built, topic: str) -> _Built:
        """A stream with what the table of ``topic`` has."""
        table = self.renamed(self.table(topic))
        node = {"op": "join_table", "how": how, "left": left.node, "right": table.node}
        return _Built(node, left.columns | table.columns, left.is_rekeyed)

    def tables(self, *, filters: bool = True) -> _Built:
        """A table, or two that are joined, which are filtered if ``filters``."""
        if self.random.random() < 0.3:
            return self.table(self.topics[0])
        left, right = (self.table(topic, filters=filters) for topic in self.topics)
        right = self.renamed(right)
        how = self.random.choice(("inner", "left", "outer"))
        node = {"op": "join_tables", "how": how, "left": left.node, "right": right.node}
        return _Built(node, left.columns | right.columns)


@dataclass(frozen=True)
class _Plan:
    """What a kind of tree needs of its windows and its log."""

    in_order: bool
    ample: bool
    #: Whether the log ends with a record of each topic that closes all before it.
    ends: bool
    emits: Sequence[str] = ("update",)
    hows: Sequence[str] = ("columns",)


_WINDOW_KINDS = ("none", "tumbling", "hopping", "sliding", "session")
#: Aggregations of one stream; what functions make depends on the order of its records.
_OF_ONE = ("columns", "columns", "fold", "removing", "reduce")
_ALL_EMITS = ("update", "update", "close", "suppress")


def _one_stream(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stream("a", most=4)])


def _lookup(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    how = trees.random.choice(("inner", "left"))
    return _aggregated(trees, plan, [trees.stepped(trees.looked_up(how, trees.stream("a"), "b"))])


def _merger_looked_up(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    how = trees.random.choice(("inner", "left"))
    return _aggregated(trees, plan, [trees.stepped(trees.looked_up(how, trees.merged(), "c"))])


def _merger(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stepped(trees.merged())])


def _branches(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stepped(trees.merged_branches())])


def _cogroup(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    return _aggregated(trees, plan, [trees.stream(topic) for topic in trees.topics])


def _join_grace(random: Random, before: int, after: int) -> int:
    """A grace with which Kafka finds all partners of records in order.

    Its join stores show what is less than before + after + grace behind their newest record, while
    a partner may be as far behind as the greater bound ("a partner at the edge").
    """
    least = max(0, max(before, after) - (before + after) + 1)
    return least + random.choice((0, 0, 3, AMPLE_MS))


def _inner_join(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    random = trees.random
    before, after = random.choice(((5, 5), (0, 0), (0, 7), (12, 3), (-2, 6), (9, -4)))
    grace = AMPLE_MS if plan.ample else _join_grace(random, before, after)
    left, right = random.choice(
        ((trees.stream("a"), "b"), (trees.stream("a"), "a"), (trees.merged(), "c"))
    )
    joined = trees.joined("inner", (before, after, grace), left, right)
    return _aggregated(trees, plan, [trees.stepped(joined)])


def _outer_join(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    random = trees.random
    before, after = random.choice(((5, 5), (0, 0), (0, 7), (12, 3)))
    how = random.choice(("left", "outer"))
    grace = min(_join_grace(random, before, after), 100)
    joined = trees.joined(how, (before, after, grace), trees.stream("a"), "b")
    return _aggregated(trees, plan, [trees.stepped(joined)])


def _table(trees: _Trees, _: _Plan) -> dict[str, Any]:
    return {"op": "materialize", "input": trees.tables().node}


def _updates(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    # Of two tables Kafka tells also that a row is gone, which some windows count, and not of each
    # record that a filter leaves out.
    table = trees.tables(filters=False)
    stream = _Built({"op": "to_stream", "input": table.node}, table.columns)
    kinds = ("none", "sliding") if "join_tables" in operations_of(table.node) else _WINDOW_KINDS
    return _aggregated(trees, plan, [trees.stepped(stream)], kinds)


#: Kinds of trees, and the plans that fit. What reads one stream only may have any log.
KINDS: Mapping[str, tuple[Callable[[_Trees, _Plan], dict[str, Any]], Sequence[_Plan]]] = {
    "one stream": (
        _one_stream,
        [_Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE)],
    ),
    "lookup": (
        _lookup,
        [_Plan(in_order=False, ample=False, ends=False, emits=_ALL_EMITS, hows=_OF_ONE)],
    ),
    "merger looked up": (
        _merger_looked_up,
        [
            _Plan(in_order=True, ample=False, ends=False),
            _Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "merger": (
        _merger,
        [
            _Plan(in_order=True, ample=False, ends=False),
            _Plan(in_order=False, ample=True, ends=False),
            _Plan(in_order=True, ample=False, ends=True, emits=("close", "suppress")),
        ],
    ),
    "branches": (
        _branches,
        [
            _Plan(in_order=True, ample=False, ends=False),
            _Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    # Kafka has no emit strategy behind a cogroup, but suppress.
    "cogroup": (
        _cogroup,
        [
            _Plan(in_order=True, ample=False, ends=False),
            _Plan(in_order=False, ample=True, ends=False),
            _Plan(in_order=True, ample=False, ends=True, emits=("suppress",)),
        ],
    ),
    "inner join": (
        _inner_join,
        [
            _Plan(in_order=True, ample=False, ends=False),
            _Plan(in_order=False, ample=True, ends=False),
        ],
    ),
    "outer join": (_outer_join, [_Plan(in_order=True, ample=True, ends=True)]),
    "table": (_table, [_Plan(in_order=False, ample=False, ends=False)]),
    "updates": (_updates, [_Plan(in_order=True, ample=True, ends=False)]),
}


def random_cases(seed: int, logs: int) -> list[Case]:
    """A random tree with so many logs."""
    random = Random(seed)
    kind = random.choice(list(KINDS))
    make, plans = KINDS[kind]
    plan = random.choice(plans)
    trees = _Trees(random, steady=plan.ends)
    tree = make(trees, plan)
    free = kind not in {"lookup", "merger looked up", "updates"}
    return [
        Case(seed, tree, random_log(random, tree, plan), free, number) for number in range(logs)
    ]


def _aggregated(
    trees: _Trees, plan: _Plan, inputs: Sequence[_Built], kinds: Sequence[str] = _WINDOW_KINDS
) -> dict[str, Any]:
    random = trees.random
    how = random.choice(plan.hows)
    if "v" not in inputs[0].columns or inputs[0].columns["v"] != "BIGINT":
        how = "columns"
    if how == "removing":
        # Kafka's sliding windows forget what was removed ("a function that removes a row").
        kinds = [kind for kind in kinds if kind != "sliding"]
    windows = _windows(random, random.choice(kinds), ample=plan.ample)
    emit = random.choice(plan.emits)
    if windows["kind"] == "none" or how in {"removing", "reduce"}:
        emit = "update"
    if emit == "suppress" and windows["kind"] in {"sliding", "session"}:
        # Kafka tells them a ms early (docs/for-kafka-streams.md, "When rows are written").
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
    return {"op": operation, "how": how, "windows": windows, "emit": emit, "inputs": keyed}


def _windows(random: Random, kind: str, *, ample: bool) -> dict[str, Any]:
    if kind == "none":
        return {"kind": kind}
    length = random.choice((3, 5, 12))
    grace = AMPLE_MS if ample else random.choice((0, 0, 2, 10))
    advance = random.randint(1, length) if kind == "hopping" else length
    # Of sessions Kafka finds those that retention leaves: with one ms over the least, the open
    # ones (tests/windows/test_kafka_sessions.py). Else far more than anything needs.
    retention = length + grace + 1 if kind == "session" else 1_000_000_000
    return {
        "kind": kind, "length": length, "advance": advance, "grace": grace, "retention": retention
    }  # fmt: skip


def _passes_records_without_keys(node: Any) -> bool:
    """Whether one of Kafka's or our operations lets a record without a key pass to get another.

    Kafka's are left and outer joins; ours is ``to_stream``.
    """
    if isinstance(node, Mapping):
        is_outer = node.get("how") in {"left", "outer"} and node["op"] != "join_tables"
        passes = is_outer or node.get("op") == "to_stream"
        return passes or any(_passes_records_without_keys(part) for part in node.values())
    return isinstance(node, list) and any(map(_passes_records_without_keys, node))


def random_log(random: Random, tree: Mapping[str, Any], plan: _Plan) -> list[Entry]:
    """Few keys and small times; some records without a key, a value or one of its columns."""
    topics = sorted(topics_of(tree))
    spread = 0 if plan.in_order else random.choice((0, 3, 10, 30))
    odd = random.choice((0.0, 0.1, 0.25))
    unset = 0 if _passes_records_without_keys(tree) else odd / 2
    drift = random.choice((0.0, 0.7, 3.0))
    log: list[Entry] = []
    time = 30.0
    for place in range(1, random.choice((4, 12, 24)) + 1):
        time += random.choice((0.0, drift, drift, 2 * drift, 15.0 if random.random() < 0.05 else 0))
        key = None if random.random() < unset else random.choice("abc")
        number = place if random.random() < 0.7 else -place
        value: Mapping[str, Any] | None = {
            "v": None if random.random() < unset else number,
            "s": None if random.random() < unset else random.choice("abc"),
        }
        if random.random() < odd:
            value = None
        moment = max(0, int(time) + (random.randint(-spread, spread) if spread else 0))
        log.append((random.choice(topics), key, value, moment))
    if plan.ends:
        log += [(topic, "a", _LAST_VALUE, _LAST_MS) for topic in topics]
    return log
