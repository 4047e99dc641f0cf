"""Random trees of operations, and logs for them, such that Kafka's results should be ours.

Kafka Streams has one clock for what one task reads, we have one for each partition of each topic
(decisions 0012, 0013, 0059). So where a tree reads several streams, either its log is in the order
of time or its grace is ample: then nothing is late by either's clocks. Where one stream alone
decides, records come as late as they like. What else is left out is what the guide names
(docs/for-kafka-streams.md, "Where topologies differ"): each point has a test.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
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
#: The names that ``v`` and ``s`` have on a join's right side, the first join's first.
RIGHT_NAMES = (("w", "r"), ("x", "q"), ("y", "p"), ("z", "o"), ("g", "h"), ("i", "j"))
#: Operations whose results depend on how topics are interleaved.
_INTERLEAVED = {"join_table", "join_global", "to_stream"}


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


def is_interleaving_free(tree: Mapping[str, Any]) -> bool:
    """Whether no result of a tree depends on how its topics are interleaved."""
    operations = operations_of(tree)
    if "group_table" in operations and "join_tables" in operations:
        return False
    return _INTERLEAVED.isdisjoint(operations)


@dataclass
class _Built:
    """A stream or table under way."""

    node: dict[str, Any]
    columns: Columns
    #: A stream is flattened once, and neither in front of a join of streams nor behind it.
    can_flatten: bool = True
    #: Columns that a join leaves null where a record has no partner.
    unset: frozenset[str] = frozenset()

    @property
    def set_columns(self) -> Columns:
        """The columns that are set if those of the log's records are."""
        return {name: of for name, of in self.columns.items() if name not in self.unset}


@dataclass
class _Trees:
    """Makes the trees of one seed; ``steady``: the log's last records pass all operations."""

    random: Random
    steady: bool
    topics: list[str] = field(default_factory=lambda: ["a", "b"])
    right_names: Iterator[tuple[str, str]] = field(default_factory=lambda: iter(RIGHT_NAMES))
    #: Kafka Streams reads a topic as a table only once.
    table_topics: Iterator[str] = field(default_factory=lambda: map("t{}".format, count(1)))

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
        self,
        built: _Built,
        *,
        is_table: bool = False,
        filters: bool = True,
        most: int = 2,
    ) -> _Built:
        """With up to ``most`` row-wise operations behind."""
        for _ in range(self.random.choice((0, 0, 1, 1, most))):
            rowwise: list[Callable[[_Built], _Built]] = [self._mapped]
            if filters:
                rowwise += [self._filtered, self._filtered_not]
            if not is_table:
                rowwise += [self._with_new_key, self._with_new_key_and_value, self._branch]
                if built.can_flatten:
                    rowwise += [self._flattened, self._flattened_with_new_key]
            built = self.random.choice(rowwise)(built)
        return built

    def stream(self, topic: str, most: int = 2, *, flattens: bool = True) -> _Built:
        """A topic with row-wise operations behind."""
        columns = {"v": "BIGINT", "s": "STRING"}
        return self.stepped(_Built({"op": "stream", "topic": topic}, columns, flattens), most=most)

    def table(self, *, filters: bool = True) -> _Built:
        """A further topic as a table with row-wise operations behind."""
        columns = {"v": "BIGINT", "s": "STRING"}
        built = _Built({"op": "table", "topic": next(self.table_topics)}, columns)
        return self.stepped(built, is_table=True, filters=filters)

    def renamed(self, built: _Built) -> _Built:
        """With other names for ``v`` and ``s``, for the right side of a join."""
        names = dict(zip(("v", "s"), next(self.right_names), strict=True))
        columns = {names.get(name, name): ["column", name] for name in built.columns}
        node = {"op": "map_values", "columns": columns, "input": built.node}
        types = {names.get(name, name): of_type for name, of_type in built.columns.items()}
        unset = frozenset(names.get(name, name) for name in built.unset)
        return replace(built, node=node, columns=types, unset=unset)

    def _filtered(self, built: _Built) -> _Built:
        condition = self.condition(built.columns)
        node = {"op": "filter", "condition": condition, "input": built.node}
        return replace(built, node=node)

    def _filtered_not(self, built: _Built) -> _Built:
        condition = self.condition(built.columns)
        if self.steady:
            condition = ["is_null", self.random.choice([*built.columns, "key"])]
        node = {"op": "filter_not", "condition": condition, "input": built.node}
        return replace(built, node=node)

    def _mapped(self, built: _Built) -> _Built:
        made, columns = self.values(built.columns)
        node = {"op": "map_values", "columns": made, "input": built.node}
        return replace(built, node=node, columns=columns)

    def _with_new_key(self, built: _Built) -> _Built:
        node = {"op": "select_key", "key": self.key(built.columns), "input": built.node}
        return replace(built, node=node)

    def _with_new_key_and_value(self, built: _Built) -> _Built:
        key = self.key(built.columns)
        made, columns = self.values(built.columns)
        node = {"op": "map", "key": key, "columns": made, "input": built.node}
        return replace(built, node=node, columns=columns)

    def _branch(self, built: _Built) -> _Built:
        conditions = [self.condition(built.columns) for _ in range(self.random.choice((1, 2)))]
        take = self.random.randint(0, len(conditions))
        if self.steady:
            # The last records go to the first branch.
            take = 0
        node = {"op": "branch", "conditions": conditions, "take": str(take), "input": built.node}
        return replace(built, node=node)

    def _flattened(self, built: _Built) -> _Built:
        """A record for each element of an array, which stands in place of the column it is of."""
        name = self.random.choice(list(built.columns))
        is_number = built.columns[name] == "BIGINT"
        arrays = ["twice" if is_number else "with_marked"]
        if not self.steady:
            arrays.append("up_to_2" if is_number else "split")
        node = {
            "op": "flat_map_values", "array": [self.random.choice(arrays), name],
            "keep": [other for other in built.columns if other != name], "input": built.node,
        }  # fmt: skip
        return replace(built, node=node, can_flatten=False)

    def _flattened_with_new_key(self, built: _Built) -> _Built:
        flat = self._flattened(built)
        return replace(flat, node=flat.node | {"op": "flat_map", "key": self.key(built.columns)})

    def merged(self, *, flattens: bool = True) -> _Built:
        """Two topics as one stream."""
        left, right = (self.stream(topic, flattens=flattens) for topic in self.topics)
        node = {"op": "merge", "left": left.node, "right": right.node}
        return _Built(node, left.columns, left.can_flatten and right.can_flatten)

    def merged_branches(self) -> _Built:
        """Two branches of one topic as one stream again."""
        one = self.stream(self.topics[0], most=1)
        conditions = [self.condition(one.columns) for _ in range(2)]
        node = {"op": "merged_branches", "conditions": conditions, "input": one.node}
        return replace(one, node=node)

    def joined(self, how: str, span: tuple[int, int, int], left: _Built, right: _Built) -> _Built:
        """A stream with another, which may be of the same topic."""
        right = self.renamed(right)
        before, after, grace = span
        node = {
            "op": "join_streams", "how": how, "before": before, "after": after, "grace": grace,
            "left": left.node, "right": right.node,
        }  # fmt: skip
        return _side_by_side(node, left, right)

    def looked_up(self, built: _Built, number: int) -> _Built:
        """A stream with what so many tables have, one behind the other."""
        is_inner = self.random.random() < 0.4
        for _ in range(number):
            how = self.random.choice(("inner", "left"))
            if self.steady or is_inner:
                how = "left" if self.steady else "inner"
            is_global = not self.steady and self.random.random() < 0.3
            look_up = self._looked_up_globally if is_global else self._looked_up_by_key
            built = replace(look_up(built, how), can_flatten=built.can_flatten)
        return built

    def _looked_up_by_key(self, built: _Built, how: str) -> _Built:
        """By the record's key or another, which is set: Kafka's left join lets null pass."""
        left = built.node
        if built.set_columns and self.random.random() < 0.5:
            key = self._table_key(built.set_columns)
            left = {"op": "select_key", "key": key, "input": left}
        table = self.renamed(self.table())
        node = {"op": "join_table", "how": how, "left": left, "right": table.node}
        return _side_by_side(node, built, table)

    def _looked_up_globally(self, built: _Built, how: str) -> _Built:
        """By any key; the table has its topic's columns, so the stream's get other names."""
        built = self.renamed(built)
        node = {
            "op": "join_global", "how": how, "key": self._table_key(built.columns),
            "left": built.node, "topic": next(self.table_topics),
        }  # fmt: skip
        return _side_by_side(node, built, _Built({}, {"v": "BIGINT", "s": "STRING"}))

    def _table_key(self, columns: Columns) -> list[str]:
        """A key that tables have, a text as it is; now and then another."""
        texts = [name for name, of_type in columns.items() if of_type == "STRING"]
        if texts and self.random.random() < 0.7:
            return ["column", self.random.choice(texts)]
        return self.key(columns)

    def tables(self, most: int, *, filters: bool = True) -> _Built:
        """Up to ``most`` tables, joined in any order, which are filtered if ``filters``."""
        number = self.random.choice((1, 2, 2, *range(2, most + 1)))
        first = self.table(filters=filters)
        others = [self.renamed(self.table(filters=filters)) for _ in range(number - 1)]
        return self._joined_tables([first, *others])

    def _joined_tables(self, tables: Sequence[_Built]) -> _Built:
        if len(tables) == 1:
            return tables[0]
        cut = self.random.randint(1, len(tables) - 1)
        left, right = self._joined_tables(tables[:cut]), self._joined_tables(tables[cut:])
        how = self.random.choice(("inner", "left", "outer"))
        node = {"op": "join_tables", "how": how, "left": left.node, "right": right.node}
        return _side_by_side(node, left, right)


def _side_by_side(node: dict[str, Any], left: _Built, right: _Built) -> _Built:
    """The results of a join."""
    unset = left.unset | right.unset
    if node["how"] != "inner":
        unset |= right.columns.keys()
    if node["how"] == "outer":
        unset |= left.columns.keys()
    return _Built(node, left.columns | right.columns, can_flatten=False, unset=unset)


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
    number = trees.random.choice((1, 2, 2, 3))
    return _aggregated(trees, plan, [trees.stepped(trees.looked_up(trees.stream("a"), number))])


def _merger_looked_up(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    number = trees.random.choice((1, 1, 2))
    return _aggregated(trees, plan, [trees.stepped(trees.looked_up(trees.merged(), number))])


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
    left, right = random.choice((("a", "b"), ("a", "a"), ("ab", "c")))
    streams = [
        trees.merged(flattens=False) if topic == "ab" else trees.stream(topic, 1, flattens=False)
        for topic in (left, right)
    ]
    in_front = [trees.looked_up(stream, random.choice((0, 0, 1))) for stream in streams]
    joined = trees.joined("inner", (before, after, grace), *in_front)
    found = trees.looked_up(joined, random.choice((0, 0, 1, 2)))
    return _aggregated(trees, plan, [trees.stepped(found)])


def _outer_join(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    random = trees.random
    before, after = random.choice(((5, 5), (0, 0), (0, 7), (12, 3)))
    how = random.choice(("left", "outer"))
    grace = min(_join_grace(random, before, after), 100)
    streams = [trees.stream(topic, 1, flattens=False) for topic in trees.topics]
    in_front = [trees.looked_up(stream, random.choice((0, 0, 1))) for stream in streams]
    joined = trees.joined(how, (before, after, grace), *in_front)
    found = trees.looked_up(joined, random.choice((0, 0, 1)))
    return _aggregated(trees, plan, [trees.stepped(found)])


def _table(trees: _Trees, _: _Plan) -> dict[str, Any]:
    return {"op": "materialize", "input": trees.tables(4).node}


def _grouped_table(trees: _Trees, _: _Plan) -> dict[str, Any]:
    table = trees.tables(2)
    key = trees.key(table.columns)
    return {"op": "group_table", "key": key, "columns": table.columns, "input": table.node}


def _updates(trees: _Trees, plan: _Plan) -> dict[str, Any]:
    # Of two tables Kafka tells also that a row is gone, which some windows count, and not of each
    # record that a filter leaves out.
    table = trees.tables(2, filters=False)
    updates = replace(table, node={"op": "to_stream", "input": table.node})
    stream = trees.looked_up(updates, trees.random.choice((0, 0, 1)))
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
    "grouped table": (_grouped_table, [_Plan(in_order=False, ample=False, ends=False)]),
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
    free = is_interleaving_free(tree)
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
    for place in range(1, random.choice((2, 6, 12)) * max(2, len(topics)) + 1):
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
        # Kafka may tell of a record that is alone later than we do: what it looks up is there.
        log.sort(key=lambda entry: not entry[0].startswith("t"))
        log += [(topic, "a", _LAST_VALUE, _LAST_MS) for topic in topics]
    return log
