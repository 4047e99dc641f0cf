"""Nested joins of streams equal their slow model, for any cut and restart."""

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from oriel import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
    first,
    last,
)
from oriel.pipeline.language import KStream
from oriel.pipeline.plan import StorePlans
from oriel.testing import Record
from tests.campaigns import full
from tests.models.join_trees import Leaf, Logs, Merged, Model, Node, Row, Tree, columns_in
from tests.windows.topologies.runs import Rows, StagesRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: Four trees with these seeds reach all rare branches, in windows of every kind.
FIRST_SEED = 4_100_823
#: (before, after) of joins.
REACHES = ((0, 0), (2, 2), (5, 5), (10, 0), (0, 10), (3, 12), (10, -3), (-3, 10))
SIZE, GRACE = 20, 4
#: The key and the time of the records that close all windows of a log.
CLOSER, CLOSED_MS = "z", 1_000_000


@dataclass
class Trees:
    """Creates random trees of joins over distinct topics."""

    random: Random
    topics: int = 0

    def tree(self, leaves: int) -> Tree:
        """Return a tree with this many columns."""
        if leaves == 1:
            column = f"t{self.topics}"
            merged = tuple(self.leaf(column) for _ in range(self.random.choice((1, 1, 1, 1, 2, 3))))
            return Merged(merged) if len(merged) > 1 else merged[0]
        of_left = self.random.randint(1, leaves - 1)
        before, after = self.random.choice(REACHES)
        return Node(
            self.random.choice(("inner", "left", "outer")),
            before,
            after,
            self.random.choice((0, 0, 1, 4, 15)),
            self.tree(of_left),
            self.tree(leaves - of_left),
            without=self.random.choice(("", "", "7")),
            endings=self.random.choice(((), (), ("x",), ("x", "y"), ("y", "x", "x"))),
        )

    def leaf(self, column: str) -> Leaf:
        """Return one more topic."""
        self.topics += 1
        flat = self.random.random() < 0.3
        return Leaf(f"t{self.topics - 1}", flat, column)


def leaves_of(tree: Tree) -> list[Leaf]:
    """Return the topics of a tree in order."""
    if isinstance(tree, Leaf):
        return [tree]
    if isinstance(tree, Merged):
        return list(tree.leaves)
    return leaves_of(tree.left) + leaves_of(tree.right)


def columns_of(tree: Tree) -> list[str]:
    """Return the columns of a tree in order."""
    return list(dict.fromkeys(leaf.column for leaf in leaves_of(tree)))


def stream_of(builder: StreamsBuilder, tree: Tree) -> KStream:
    """Return the stream of a tree."""
    if isinstance(tree, Leaf):
        if not tree.flat:
            return builder.stream(tree.topic, f"{tree.column} STRING")
        taken_apart = builder.stream(tree.topic, "texts ARRAY<STRING>")
        return taken_apart.flat_map_values(**{tree.column: "texts"})
    if isinstance(tree, Merged):
        merged, *others = (stream_of(builder, leaf) for leaf in tree.leaves)
        for other in others:
            merged = merged.merge(other)
        return merged
    windows = JoinWindows(tree.before, tree.after, tree.grace)
    left, right = stream_of(builder, tree.left), stream_of(builder, tree.right)
    join = left.join if tree.how == "inner" else getattr(left, f"{tree.how}_join")
    joined: KStream = join(right, windows)
    for column in columns_of(tree) if tree.without else ():
        joined = joined.filter(f"NOT coalesce(contains({column}, '{tree.without}'), false)")
    if tree.endings:
        column, *more = columns_of(tree)
        elements = ", ".join(f"concat({column}, '{ending}')" for ending in tree.endings)
        joined = joined.flat_map_values(*more, **{column: f"array({elements})"})
    return joined


#: Windows whose states order rows by their lineages, each with its own code.
WINDOWS = {
    "tumbling": TimeWindows.of_size_and_grace(SIZE, GRACE),
    "hopping": TimeWindows.of_size_and_grace(SIZE, GRACE).advance_by(7),
    "sliding": SlidingWindows.of_time_difference_and_grace(SIZE, GRACE),
    "sessions": SessionWindows.of_inactivity_gap_and_grace(5, 2 * CLOSED_MS),
}


def topology_of(tree: Node, windows: str) -> Topology:
    """Return a topology that writes the results to windows and to a topic."""
    builder = StreamsBuilder()
    joined = stream_of(builder, tree)
    texts = ", ".join(f"coalesce({column}, '-')" for column in columns_of(tree))
    text = joined.map_values(text=f"concat_ws('|', {texts})")
    windowed = text.group_by_key().windowed_by(WINDOWS[windows])
    windowed.aggregate(
        None, n=count(), all=collect_list("text"), first=first("text"), last=last("text")
    ).materialize("windows")
    joined.to("out")
    return builder.build()


def random_logs(
    random: Random, tree: Node
) -> dict[str, dict[int, list[tuple[str, int, list[str]]]]]:
    """Return logs with few keys and small times, out of order. Topics can have two partitions."""
    logs: dict[str, dict[int, list[tuple[str, int, list[str]]]]] = {}
    number = 0
    for leaf in leaves_of(tree):
        partitions = random.choice((1, 1, 2))
        logs[leaf.topic] = {partition: [] for partition in range(partitions)}
        time = 0.0
        for _ in range(random.choice((1, 6, 14))):
            time += random.choice((0, 1, 3, 3, 25 if random.random() < 0.2 else 1))
            moment = max(0, int(time) - random.choice((0, 0, 0, 2, 9, 30)))
            elements = random.choice((0, 1, 2, 3)) if leaf.flat else 1
            number += 1
            texts = [f"{number}{'abc'[element]}" for element in range(elements)]
            partition = random.randrange(partitions)
            logs[leaf.topic][partition].append((random.choice("ab"), moment, texts))
    return logs


def record_of(leaf: Leaf, key: str, time: int, texts: Sequence[str]) -> Record:
    """Return a record of a topic."""
    return Record(key, {"texts": list(texts)} if leaf.flat else {leaf.column: texts[0]}, time)


@dataclass(frozen=True)
class Came:
    """The result of a log: windows without the closing key, written records, late records."""

    windows: Rows
    written: Counter[str]
    late: tuple[int, int, int]


def run(
    topology: Topology,
    tree: Node,
    logs: Mapping[str, Logs],
    plans: dict[str, StorePlans],
    random: Random | None,
) -> tuple[Came, dict[str, StorePlans]]:
    """Run the stages in one batch, or in random batches with random numbers of tasks."""
    leaves = leaves_of(tree)
    rest = {
        leaf.topic: {
            p: [record_of(leaf, *one) for one in log] for p, log in logs[leaf.topic].items()
        }
        for leaf in leaves
    }
    with tempfile.TemporaryDirectory(prefix="trees-") as directory:
        stages = StagesRun(topology, Path(directory), plans)
        # A partition that is added later would start with the stream time of the others.
        stages.take({topic: dict.fromkeys(of_topic, ()) for topic, of_topic in rest.items()})
        while any(log for of_topic in rest.values() for log in of_topic.values()):
            batch: dict[str, dict[int, list[Record]]] = defaultdict(dict)
            for topic, of_topic in rest.items():
                for partition, log in of_topic.items():
                    size = len(log) if random is None else random.choice((0, 1, 4, 9))
                    batch[topic][partition] = log[:size]
                    of_topic[partition] = log[size:]
            stages.take(batch, 2 if random is None else random.choice((1, 2, 3)))
        closers = {
            leaf.topic: {p: [record_of(leaf, CLOSER, CLOSED_MS, ["z"])] for p in logs[leaf.topic]}
            for leaf in leaves
        }
        stages.take(closers)
        counted = stages.counters
        late = counted["late"], counted.get("elements_late", 0), counted["late_results"]
        windows = {place: row for place, row in stages.rows.items() if place.key != CLOSER}
        sources = [
            source
            for source, record in zip(stages.written_sources, stages.written, strict=True)
            if record.key != CLOSER
        ]
        assert max(Counter(sources).values(), default=1) == 1, "two results have the same lineage"
        return Came(windows, Counter(sources), late), stages.plans


def has_merged(tree: Tree) -> bool:
    """Return True if a tree contains merged streams."""
    return len(leaves_of(tree)) > columns_in(tree)


def joined_text(row: Row) -> str:
    """Return the strings of a row, joined as in the topology."""
    return "|".join("-" if text is None else text for text in row.texts)


def check_model(came: Came, tree: Node, logs: Mapping[str, Logs], windows: str) -> list[Row]:
    """Compare a result with the model, including tumbling windows. Return the model's results.

    Raises:
        AssertionError: They differ.
    """
    model = Model(logs)
    results = model.rows(tree)
    # A topic that is joined with several merged streams has several names in the model.
    written = Counter(re.sub(r"#\d+", "", source) for source in came.written.elements())
    assert written == Counter("+".join(filter(None, row.places)) for row in results)
    if windows != "tumbling":
        return results
    by_start: dict[tuple[str, int], list[Row]] = defaultdict(list)
    late = 0
    for row in results:
        start = row.time // SIZE * SIZE
        if start + SIZE <= row.stream_time - GRACE:
            late += 1
        else:
            by_start[row.key, start].append(row)
    found: Any = {(place.key, place.start): row for place, row in came.windows.items()}
    assert found.keys() == by_start.keys()
    for place, rows in by_start.items():
        time_ms, row = found[place]
        assert (time_ms, row["n"]) == (max(one.time for one in rows), len(rows)), place
        assert row["all"] == sorted(map(joined_text, rows)), place
    of_joins = model.late
    if has_merged(tree):
        return results
    assert came.late == (of_joins.records, of_joins.elements, of_joins.results + late)
    return results


def marks_of(tree: Node, results: Sequence[Row], logs: Mapping[str, Logs]) -> set[str]:
    """Return the rare branches that a case reached."""
    model = Model(logs)
    model.rows(tree)
    sides = (tree.left, tree.right)
    marks = {f"{columns_in(tree)} columns", f"{tree.how} at the end"}
    marks |= {"both sides are joins"} if all(isinstance(side, Node) for side in sides) else set()
    are_merged = tree.how == "outer" and has_merged(tree.left)
    marks |= {"merged streams stay unmatched"} if are_merged else set()
    are_merged = tree.how != "inner" and has_merged(tree.right)
    marks |= {"unmatched with merged streams"} if are_merged else set()
    marks |= {"elements of results"} if tree.endings else set()
    of_elements = any(isinstance(side, Node) and len(side.endings) > 1 for side in sides)
    marks |= {"a join of elements of results"} if of_elements and results else set()
    marks |= {"late results"} if model.late.results else set()
    marks |= {"late elements"} if model.late.elements else set()
    for row in results:
        missing = [text is None for text in row.texts]
        if sum(not one for one in missing) > 2:
            marks.add("three records or more")
        marks |= {"the first is missing"} if missing[0] else set()
        marks |= {"one within is missing"} if any(missing[1:-1]) else set()
    return marks


ALL_MARKS = {
    "2 columns", "3 columns", "4 columns",
    "inner at the end", "left at the end", "outer at the end",
    "both sides are joins", "late results", "late elements", "three records or more",
    "the first is missing", "one within is missing",
    "merged streams stay unmatched", "unmatched with merged streams",
    "elements of results", "a join of elements of results",
}  # fmt: skip


def check_tree(seed: int, logs: int) -> set[str]:
    """Compare the tree of a seed for some logs, whole and cut. Return their rare branches."""
    random, cuts = Random(seed), Random(seed)
    tree = Trees(random).tree(random.choice((2, 3, 3, 4, 4)))
    assert isinstance(tree, Node)
    windows = random.choice(("tumbling", *WINDOWS))
    topology = topology_of(tree, windows)
    plans: dict[str, StorePlans] = {}
    marks: set[str] = set()
    for number in range(logs):
        of_topics = random_logs(random, tree)
        at_once, plans = run(topology, tree, of_topics, plans, None)
        try:
            marks |= marks_of(tree, check_model(at_once, tree, of_topics, windows), of_topics)
            cut, _ = run(topology, tree, of_topics, plans, cuts)
            assert cut == at_once, "another cut has another result"
        except AssertionError as error:
            error.add_note(f"seed {seed}, log {number}, {windows}: {tree}\n{of_topics}")
            raise
    return marks


@pytest.mark.parametrize(("number", "logs"), [(4, 3), *full(200, 11)])
def test_random_trees_equal_the_model(spark: "SparkSession", number: int, logs: int) -> None:
    """Results, written records and late records equal the model, for any cut."""
    del spark
    seeds = range(FIRST_SEED, FIRST_SEED + number)
    reached = set().union(*(check_tree(seed, logs) for seed in seeds))
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


@pytest.mark.parametrize("field", ["grace", "before", "after"])
def test_a_wrong_model_is_noticed(spark: "SparkSession", field: str) -> None:
    """The comparison fails for a model whose last join has another bound."""
    del spark
    first, second, third = (Leaf(name, column=name) for name in ("t0", "t1", "t2"))
    tree = Node("left", 5, 5, 1, Node("left", 5, 5, 1, first, second), third)
    topology, random = topology_of(tree, "tumbling"), Random(5)
    plans: dict[str, StorePlans] = {}
    wrong = replace(tree, **{field: getattr(tree, field) + 1})
    for _ in range(20):
        logs = random_logs(random, tree)
        came, plans = run(topology, tree, logs, plans, None)
        check_model(came, tree, logs, "tumbling")
        try:
            check_model(came, wrong, logs, "tumbling")
        except AssertionError:
            return
    pytest.fail(f"twenty logs did not notice one ms more of {field}")
