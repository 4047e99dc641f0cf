"""Streams and tables of random trees: topics, row-wise operations, joins and lookups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

#: More than the difference of any two times of a log.
AMPLE_MS = 10_000
#: Column -> type.
Columns = dict[str, str]
#: The names of ``v`` and ``s`` on the right side of the first join, the second join, and so on.
RIGHT_NAMES = (
    ("w", "r"), ("x", "q"), ("y", "p"), ("z", "o"), ("g", "h"), ("i", "j"),
    *((f"v{number}", f"s{number}") for number in range(10)),
)  # fmt: skip


@dataclass
class Built:
    """A stream or table, with its columns."""

    node: dict[str, Any]
    columns: Columns
    #: Columns that can be null because of an unmatched record of a join or an update.
    unset: frozenset[str] = frozenset()
    #: For joined tables, the columns of the first table, which can be foreign keys.
    first: Columns | None = None

    @property
    def naming(self) -> Columns:
        """Return the columns that can be a foreign key."""
        return self.columns if self.first is None else self.first

    @property
    def set_columns(self) -> Columns:
        """Return the columns that are not null if the columns of the log are not null."""
        return {name: of for name, of in self.columns.items() if name not in self.unset}


@dataclass
class Trees:
    """Creates the trees of a seed. With ``steady``, the last records pass all operations."""

    random: Random
    steady: bool
    #: Whether tables can be aggregations of joined streams, because the log is in order.
    pairs: bool = False
    topics: list[str] = field(default_factory=lambda: ["a", "b"])
    right_names: Iterator[tuple[str, str]] = field(default_factory=lambda: iter(RIGHT_NAMES))
    aggregations: Iterator[int] = field(default_factory=count)
    #: Kafka Streams reads a topic as a table only once.
    table_topics: Iterator[str] = field(default_factory=lambda: map("t{}".format, count(1)))

    def condition(self, columns: Columns) -> list[str]:
        """Return a condition over a random column."""
        name = self.random.choice([*columns, "key"])
        is_number = columns.get(name) == "BIGINT"
        if self.steady:
            return [self.random.choice(("positive", "is_set") if is_number else ("is_set",)), name]
        tests = ("positive", "third") if is_number else ("is_a",)
        return [self.random.choice((*tests, *tests, "is_null", "is_set")), name]

    def key(self, columns: Columns) -> list[str]:
        """Return the expression of a new key."""
        name = self.random.choice(["s", "s", "key", *columns])
        if self.steady:
            return [self.random.choice(("column", "marked")), "s"]
        if columns.get(name) == "BIGINT":
            return [self.random.choice(("remainder_3", "text", "column")), name]
        return [self.random.choice(("column", "marked")), name if name in columns else "key"]

    def values(self, columns: Columns) -> tuple[dict[str, list[str]], Columns]:
        """Return new columns of the same types and names, and sometimes one more column."""
        made: dict[str, list[str]] = {}
        changes = ("plus_1",) if self.steady else ("plus_1", "negated", "remainder_3")
        for name, of_type in columns.items():
            other = self.random.choice(changes if of_type == "BIGINT" else ("marked",))
            keeps = self.random.random() < 0.6 or (self.steady and of_type == "STRING")
            made[name] = ["column" if keeps else other, name]
        return made, dict(columns)

    def stepped(self, built: Built, *, is_table: bool = False, most: int = 2) -> Built:
        """Append up to ``most`` row-wise operations."""
        for _ in range(self.random.choice((0, 0, 1, 1, most))):
            rowwise = [self._mapped, self._filtered, self._filtered_not]
            if not is_table:
                rowwise += [self._with_new_key, self._with_new_key_and_value, self._branch]
                rowwise += [self._flattened, self._flattened_with_new_key]
            built = self.random.choice(rowwise)(built)
        return built

    def stream(self, topic: str, most: int = 2) -> Built:
        """Return the stream of a topic, with row-wise operations."""
        columns = {"v": "BIGINT", "s": "STRING"}
        return self.stepped(Built({"op": "stream", "topic": topic}, columns), most=most)

    def table(self) -> Built:
        """Return the table of a new topic with row-wise operations.

        Sometimes it is versioned, or a stream that becomes a table.
        """
        if self.random.random() < 0.2:
            stream = self.stream(next(self.table_topics))
            table = replace(stream, node={"op": "to_table", "input": stream.node})
            return self.stepped(table, is_table=True)
        node: dict[str, Any] = {"op": "table", "topic": next(self.table_topics)}
        if self.random.random() < 0.3:
            history = self.random.choice((0, 3, 10, AMPLE_MS))
            node |= {"op": "versioned_table", "history": history}
        built = Built(node, {"v": "BIGINT", "s": "STRING"})
        return self.stepped(built, is_table=True)

    def aggregated(self) -> Built:
        """Return an aggregation of a new topic without windows, sometimes with a filter."""
        of_pairs = self.pairs and self.random.random() < 0.5
        stream = self._pairs() if of_pairs else self.stream(next(self.table_topics))
        removes = stream.columns["v"] == "BIGINT" and self.random.random() < 0.3
        node: dict[str, Any] = {
            "op": "aggregate", "how": "removing" if removes else "columns",
            "windows": {"kind": "none"}, "emit": "update", "behind": [],
            "store": f"aggregated-{next(self.aggregations)}",
            "inputs": [{
                "input": stream.node, "columns": stream.columns,
                "key": self.key(stream.columns) if self.random.random() < 0.3 else None,
            }],
        }  # fmt: skip
        names = {"s": "text"} if removes else {"v": "n0", "s": "least0_s"}
        columns = {name: ["column", of] for name, of in names.items()}
        rows = {"op": "aggregated", "input": node}
        table = {"op": "map_values", "columns": columns, "input": rows}
        types = {name: "STRING" if name == "s" else "BIGINT" for name in names}
        # Kafka uses the initial aggregate as the old row of the first update ("first row of an
        # aggregation"). This filter drops it.
        begun = ["is_begun", "s"] if removes else ["is_set", "v"]
        rows = {"op": "filter", "condition": begun, "input": table}
        return self.stepped(Built(rows, types), is_table=True)

    def _pairs(self) -> Built:
        """Return the join of the streams of two new topics."""
        left, right = (self.stream(next(self.table_topics), most=1) for _ in range(2))
        return self.stepped(self.joined("inner", (5, 5, AMPLE_MS), left, right), most=1)

    def renamed(self, built: Built) -> Built:
        """Rename ``v`` and ``s`` for the right side of a join."""
        names = dict(zip(("v", "s"), next(self.right_names), strict=True))
        columns = {names.get(name, name): ["column", name] for name in built.columns}
        node = {"op": "map_values", "columns": columns, "input": built.node}
        types = {names.get(name, name): of_type for name, of_type in built.columns.items()}
        unset = frozenset(names.get(name, name) for name in built.unset)
        return replace(built, node=node, columns=types, unset=unset, first=None)

    def with_other_values(self, built: Built) -> Built:
        """Append an operation that keeps the key, or none."""
        steps = (self._mapped, self._filtered, self._filtered_not)
        return self.random.choice(steps)(built) if self.random.random() < 0.5 else built

    def _filtered(self, built: Built) -> Built:
        condition = self.condition(built.columns)
        node = {"op": "filter", "condition": condition, "input": built.node}
        return replace(built, node=node)

    def _filtered_not(self, built: Built) -> Built:
        condition = self.condition(built.columns)
        if self.steady:
            condition = ["is_null", self.random.choice([*built.columns, "key"])]
        node = {"op": "filter_not", "condition": condition, "input": built.node}
        return replace(built, node=node)

    def _mapped(self, built: Built) -> Built:
        made, columns = self.values(built.columns)
        node = {"op": "map_values", "columns": made, "input": built.node}
        return replace(built, node=node, columns=columns)

    def _with_new_key(self, built: Built) -> Built:
        node = {"op": "select_key", "key": self.key(built.columns), "input": built.node}
        return replace(built, node=node)

    def _with_new_key_and_value(self, built: Built) -> Built:
        key = self.key(built.columns)
        made, columns = self.values(built.columns)
        node = {"op": "map", "key": key, "columns": made, "input": built.node}
        return replace(built, node=node, columns=columns)

    def _branch(self, built: Built) -> Built:
        conditions = [self.condition(built.columns) for _ in range(self.random.choice((1, 2)))]
        take = self.random.randint(0, len(conditions))
        if self.steady:
            # The last records go to the first branch.
            take = 0
        node = {"op": "branch", "conditions": conditions, "take": str(take), "input": built.node}
        return replace(built, node=node)

    def _flattened(self, built: Built) -> Built:
        """Flatten an array: a record per element, which replaces its column."""
        name = self.random.choice(list(built.columns))
        is_number = built.columns[name] == "BIGINT"
        arrays = ["twice" if is_number else "with_marked"]
        if not self.steady:
            # Each job of Spark is as slow as the rest of a batch.
            up_to_2 = "up_to_2_by_spark" if self.random.random() < 0.1 else "up_to_2"
            arrays.append(up_to_2 if is_number else "split")
        node = {
            "op": "flat_map_values", "array": [self.random.choice(arrays), name],
            "keep": [other for other in built.columns if other != name], "input": built.node,
        }  # fmt: skip
        return replace(built, node=node)

    def _flattened_with_new_key(self, built: Built) -> Built:
        flat = self._flattened(built)
        return replace(flat, node=flat.node | {"op": "flat_map", "key": self.key(built.columns)})

    def row_steps(self, rows: Columns, seen: Columns, bounds: Columns) -> list[dict[str, Any]]:
        """Return up to three steps after an aggregation whose ``rows`` have these columns.

        Conditions use ``bounds`` and the remaining columns of ``seen``. Steps can only select the
        other columns: lists, and numbers that the peer program omits if they are 0.
        """
        steps: list[dict[str, Any]] = []
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            left = {name: of for name, of in seen.items() if name in rows}
            if self.random.random() < 0.5:
                made, _ = self.values(left)
                made |= {name: ["column", name] for name in rows if name not in left}
                names = [name for name in made if self.random.random() < 0.8] or list(made)
                steps.append({"op": "map_values", "columns": {name: made[name] for name in names}})
                rows = {name: rows[name] for name in names}
                continue
            operation = self.random.choice(("filter", "filter", "filter_not"))
            # The last records need not pass, because closed windows are enough.
            condition = replace(self, steady=False).condition(left | bounds)
            steps.append({"op": operation, "condition": condition})
        return steps

    def merged(self, topics: Sequence[str] = ()) -> Built:
        """Merge the streams of two topics. Default: the first two."""
        left, right = (self.stream(topic) for topic in topics or self.topics)
        node = {"op": "merge", "left": left.node, "right": right.node}
        return Built(node, left.columns)

    def merged_branches(self) -> Built:
        """Merge two branches of one topic."""
        one = self.stream(self.topics[0], most=1)
        conditions = [self.condition(one.columns) for _ in range(2)]
        node = {"op": "merged_branches", "conditions": conditions, "input": one.node}
        return replace(one, node=node)

    def joined(self, how: str, span: tuple[int, int, int], left: Built, right: Built) -> Built:
        """Join two streams, which can have the same topic."""
        right = self.renamed(right)
        before, after, grace = span
        node = {
            "op": "join_streams", "how": how, "before": before, "after": after, "grace": grace,
            "left": left.node, "right": right.node,
        }  # fmt: skip
        return _side_by_side(node, left, right)

    def looked_up(self, built: Built, number: int, *, waits: bool = False) -> Built:
        """Join a stream with ``number`` tables, one after the other.

        With ``waits``, it can wait for versioned tables. This needs a stream with one stream time.
        """
        is_inner = self.random.random() < 0.4
        for _ in range(number):
            how = self.random.choice(("inner", "left"))
            if self.steady or is_inner:
                how = "left" if self.steady else "inner"
            is_global = not self.steady and self.random.random() < 0.3
            if is_global:
                built = self._looked_up_globally(built, how)
            else:
                built = self._looked_up_by_key(built, how, waits=waits)
        return built

    def _looked_up_by_key(self, built: Built, how: str, *, waits: bool) -> Built:
        """Join by the key of the record or another key, never null, as Kafka forwards null keys."""
        left = built.node
        if built.set_columns and self.random.random() < 0.5:
            key = self._table_key(built.set_columns)
            left = {"op": "select_key", "key": key, "input": left}
        makes = [self.table, self.aggregated, lambda: self.tables(3)]
        make = self.table if self.steady else self.random.choices(makes, (5, 2, 2))[0]
        table = self.renamed(make())
        node: dict[str, Any] = {
            "op": "join_table", "how": how, "left": left, "right": table.node,
        }  # fmt: skip
        history_ms = history_ms_of(table.node)
        if waits and history_ms is not None and self.random.random() < 0.7:
            node["grace"] = self.random.choice((0, min(2, history_ms), history_ms))
        return _side_by_side(node, built, table)

    def _looked_up_globally(self, built: Built, how: str) -> Built:
        """Join a global table by any key. The columns of the stream are renamed."""
        built = self.renamed(built)
        node = {
            "op": "join_global", "how": how, "key": self._table_key(built.columns),
            "left": built.node, "topic": next(self.table_topics),
        }  # fmt: skip
        return _side_by_side(node, built, Built({}, {"v": "BIGINT", "s": "STRING"}))

    def _table_key(self, columns: Columns) -> list[str]:
        """Return a key that tables have, for example an unchanged string, or another key."""
        texts = [name for name, of_type in columns.items() if of_type == "STRING"]
        if texts and self.random.random() < 0.7:
            return ["column", self.random.choice(texts)]
        return self.key(columns)

    def tables(self, most: int) -> Built:
        """Join up to ``most`` tables in any order."""
        number = self.random.choice((1, 2, 2, *range(2, most + 1)))
        tables = [self.aggregated() if self.random.random() < 0.25 else self.table()
                  for _ in range(number)]  # fmt: skip
        return self._joined_tables([tables[0], *map(self.renamed, tables[1:])])

    def updates(self) -> Built:
        """Return the updates of a table or of joined tables."""
        table = self.tables(4)
        return replace(table, node={"op": "to_stream", "input": table.node})

    def tables_by_foreign_key(self) -> Built:
        """Join a table with others by foreign key or by key, and sometimes with one more table."""
        joined = self.table()
        for number in range(self.random.choice((1, 1, 2, 3))):
            is_aggregated = self.random.random() < 0.25
            right = self.renamed(self.aggregated() if is_aggregated else self.table())
            how = self.random.choice(("inner", "left"))
            node = {"op": "join_tables", "how": how, "left": joined.node, "right": right.node}
            if number == 0 or self.random.random() < 0.7:
                node |= self._by_foreign_key(joined)
            joined = _side_by_side(node, joined, right)
        if self.random.random() < 0.7:
            return joined
        sides = [joined, self.renamed(self.table())]
        self.random.shuffle(sides)
        return self._joined_tables(sides)

    def _joined_tables(self, tables: Sequence[Built]) -> Built:
        if len(tables) == 1:
            return tables[0]
        cut = self.random.randint(1, len(tables) - 1)
        left, right = self._joined_tables(tables[:cut]), self._joined_tables(tables[cut:])
        how = self.random.choice(("inner", "left", "outer"))
        node = {"op": "join_tables", "how": how, "left": left.node, "right": right.node}
        # Rows of joined streams have no foreign key, and no row references them.
        if how != "outer" and not self.pairs and self.random.random() < 0.3:
            node |= self._by_foreign_key(left)
        joined = _side_by_side(node, left, right)
        if self.random.random() < 0.7:
            return joined
        stepped = self.stepped(joined, is_table=True)
        # After steps, rows have the columns of all tables.
        first = joined.first if stepped.node is joined.node else None
        return replace(stepped, first=first)

    def _by_foreign_key(self, left: Built) -> dict[str, Any]:
        return {"op": "join_by_foreign_key", "key": self._table_key(left.naming)}


def history_ms_of(table: Mapping[str, Any]) -> int | None:
    """Return the history of a versioned table, also after row-wise operations, otherwise None."""
    if table["op"] == "versioned_table":
        return int(table["history"])
    return history_ms_of(table["input"]) if "input" in table else None


def _side_by_side(node: dict[str, Any], left: Built, right: Built) -> Built:
    """Return the results of a join."""
    unset = left.unset | right.unset
    if node["how"] != "inner":
        unset |= right.columns.keys()
    if node["how"] == "outer":
        unset |= left.columns.keys()
    columns = left.columns | right.columns
    return Built(node, columns, unset=unset, first=left.naming)


def rows_of(how: str, inputs: Sequence[Built]) -> tuple[Columns, Columns]:
    """Return the columns of an aggregation, and the columns that the peer keeps if they are 0."""
    if how == "reduce":
        columns = {name: of for name, of in inputs[0].columns.items() if name in {"v", "s"}}
        return columns, columns
    if how != "columns":
        return {"text": "STRING"}, {"text": "STRING"}
    rows: Columns = {}
    for number, built in enumerate(inputs):
        rows[f"n{number}"] = "BIGINT"
        for name, of in built.columns.items():
            rows |= {f"least{number}_{name}": of, f"most{number}_{name}": of}
            rows[f"all{number}_{name}"] = "ARRAY"
            if of == "BIGINT":
                rows[f"total{number}_{name}"] = of
    # A row of a cogroup can have no records of a stream.
    left_out = "n" if len(inputs) > 1 else "-"
    return rows, {
        name: of for name, of in rows.items() if of != "ARRAY" and not name.startswith(left_out)
    }


def random_windows(random: Random, kind: str, *, ample: bool) -> dict[str, Any]:
    """Return windows of a kind. With ``ample``, the grace is long enough for every record."""
    if kind == "none":
        return {"kind": kind}
    length = random.choice((3, 5, 12))
    grace = AMPLE_MS if ample else random.choice((0, 0, 2, 10))
    advance = random.randint(1, length) if kind == "hopping" else length
    # Kafka only finds sessions within the retention. With 1 ms more than the minimum, these are the
    # open sessions (tests/system/kafka_streams/test_kafka_sessions.py). Other windows need more.
    retention = length + grace + 1 if kind == "session" else 1_000_000_000
    return {
        "kind": kind, "length": length, "advance": advance, "grace": grace, "retention": retention
    }  # fmt: skip
