"""Three and more tables joined by key in the test driver, compared with the slow model."""

from random import Random

import pytest

from oriel import InvalidTopology, StreamsBuilder
from oriel.pipeline.language.tables import SourceTable
from oriel.testing import KeyValue, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.models.joins import Tree, joined_by_tree, random_tree
from tests.windows.join_batches import random_logs


def joined(builder: StreamsBuilder, tree: Tree) -> SourceTable:
    """Return the tree of joins as a table of the topology."""
    if isinstance(tree, int):
        return builder.table(f"t{tree}", f"v{tree} STRING")
    how, left, right = tree
    step = "join" if how == "inner" else f"{how}_join"
    table: SourceTable = getattr(joined(builder, left), step)(joined(builder, right))
    return table


@cases(6, 60)
def test_any_join_of_tables_holds_what_the_slow_model_joins(number: int) -> None:
    """Any join of three or four tables has the slow model's rows, in any order of batches."""
    for seed in range(number):
        random = Random(seed)
        tree = random_tree(random, list(range(random.choice((3, 3, 4)))))
        builder = StreamsBuilder()
        joined(builder, tree).materialize("s")
        driver = TopologyTestDriver(builder.build())
        count = len(builder.build().sources)
        tables = [random_logs(random, f"t{number}.", 0.25) for number in range(count)]
        waiting = [
            (number, partition, [Record(key, None if value is None else {f"v{number}": value}, time)
                                 for key, time, value in log])
            for number, logs in enumerate(tables) for partition, log in logs.items()
        ]  # fmt: skip
        while waiting:
            number, partition, records = random.choice(waiting)
            taken = random.choice((1, 3, 10))
            driver.pipe_input(f"t{number}", records[:taken], partition)
            del records[:taken]
            waiting = [one for one in waiting if one[2]]
        rows = {
            row.key: ([row.value[f"v{number}"] for number in range(count)], row.timestamp_ms)
            for row in driver.key_value_store("s").all()
        }
        assert rows == joined_by_tree(tables, tree), f"seed {seed}: {tree}"


def test_a_row_of_a_join_within_a_join_is_whole_or_not_there() -> None:
    """An incomplete inner join within an outer join has no row.

    The test joins (a inner b) outer c.
    """
    builder = StreamsBuilder()
    a, b, c = (builder.table(name, f"{name} INT") for name in "abc")
    a.join(b).outer_join(c).materialize("s")
    driver = TopologyTestDriver(builder.build())

    def row(topic: str, value: int | None, time: int) -> KeyValue | None:
        driver.pipe_input(topic, Record("k", None if value is None else {topic: value}, time))
        return driver.key_value_store("s").get("k")

    assert row("a", 1, 10) is None
    assert row("c", 3, 5) == KeyValue("k", {"a": None, "b": None, "c": 3}, 10)
    assert row("b", 2, 7) == KeyValue("k", {"a": 1, "b": 2, "c": 3}, 10)
    assert row("c", None, 20) == KeyValue("k", {"a": 1, "b": 2, "c": None}, 20)
    assert row("a", None, 21) is None
    assert "Rows: joins of tables: (1 inner 2) outer 3\n" in builder.build().describe()


def test_errors_for_three_tables_have_a_solution() -> None:
    """The error about a duplicate column of three tables names the column."""
    builder = StreamsBuilder()
    one, two, three = (builder.table(name, "v INT") for name in "abc")
    many = one.join(two).left_join(three)
    many.materialize("s")
    with pytest.raises(InvalidTopology, match="column 'v' exists twice"):
        TopologyTestDriver(builder.build())
