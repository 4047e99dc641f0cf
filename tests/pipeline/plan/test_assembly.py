"""From a store to its engine: columns of several inputs, functions, and what does not fit."""

from typing import Any

import pyarrow as pa
import pytest

from oriel import (
    InvalidTopology,
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    avg,
    collect_list,
    count,
    sum,
)
from oriel.pipeline.language.grouped import CogroupedKStream
from oriel.pipeline.lowered import Store, lower
from oriel.pipeline.plan import aggregate_calls, plan_engine
from oriel.pipeline.plan.engine import PlannedEngine
from oriel.pipeline.windows import Times
from tests.pipeline.tasks.task_runs import one_store

A = pa.schema([("v", pa.float64()), ("w", pa.string())])
B = pa.schema([("v", pa.int32())])


def of_two(builder: StreamsBuilder, **of_first: Any) -> CogroupedKStream:
    """A cogroup of the topics a and b, both with a column ``v``."""
    first = builder.stream("a", "v DOUBLE, w STRING").group_by_key()
    second = builder.stream("b", "v INT").group_by_key()
    return first.cogroup(**of_first).cogroup(second, total=sum("v"), m=count())


def test_one_input_keeps_its_names() -> None:
    """With one input the engine reads the columns that it needs as they are called."""
    builder = StreamsBuilder()
    builder.stream("a", "v DOUBLE, w STRING").group_by_key().aggregate(mean=avg("v")).materialize(
        "s"
    )
    assembly = plan_engine(one_store(builder.build()), [A])
    assert assembly.columns == ({"v": "v"},)
    assert assembly.markers == (None,)
    assert "w" not in assembly.engine.record_schema.names
    assert assembly.engine.aggregate_types == {"mean": pa.float64()}
    assert not assembly.keeps_raw


def test_columns_of_several_inputs_stay_separate() -> None:
    """Columns of two inputs with equal names stay separate. count() counts its own input."""
    builder = StreamsBuilder()
    of_two(builder, n=count(), mean=avg("v")).aggregate().materialize("s")
    store = one_store(builder.build())
    assembly = plan_engine(store, [A, B])
    assert assembly.columns == ({"v": "_0_v"}, {"v": "_1_v"})
    assert assembly.markers == ("_0_", "_1_")
    assert {"_0_v", "_1_v", "_0_", "_1_"} <= set(assembly.engine.record_schema.names)
    assert assembly.engine.aggregate_types == {
        "n": pa.int64(), "mean": pa.float64(), "total": pa.int64(), "m": pa.int64(),
    }  # fmt: skip
    assert aggregate_calls(store) == {
        "n": "a: count()", "mean": "a: avg(v)", "total": "b: sum(v)", "m": "b: count()",
    }  # fmt: skip


def test_the_error_for_an_unknown_column_has_the_names_of_the_input() -> None:
    """The message names store, step and call, and none of the names that are made up here."""
    builder = StreamsBuilder()
    of_two(builder, mean=avg("x")).aggregate().materialize("s")
    with pytest.raises(InvalidTopology) as caught:
        plan_engine(one_store(builder.build()), [A, B])
    assert str(caught.value) == (
        "store 's', aggregate: avg(x): no column 'x'. The columns are ['v', 'w']. "
        "Compute others in map_values first"
    )


def test_a_column_of_another_input_is_unknown() -> None:
    """Each input's aggregates read their own columns only."""
    builder = StreamsBuilder()
    first = builder.stream("a", "v DOUBLE, w STRING").group_by_key()
    second = builder.stream("b", "v INT").group_by_key()
    first.cogroup(n=count()).cogroup(second, words=collect_list("w")).aggregate().materialize("s")
    with pytest.raises(InvalidTopology, match=r"collect_list\(w\): no column 'w'.*\['v'\]"):
        plan_engine(one_store(builder.build()), [A, B])


def test_functions_of_several_inputs_see_their_own_columns() -> None:
    """An aggregator gets its input's value under the names that the input has."""
    seen = []

    def first(key: str, value: Any, aggregate: int) -> int:
        seen.append(("a", key, value))
        return aggregate + 1

    def second(key: str, value: Any, aggregate: int) -> int:
        seen.append(("b", key, value))
        return aggregate + 10

    builder = StreamsBuilder()
    a = builder.stream("a", "v DOUBLE, w STRING").group_by_key()
    b = builder.stream("b", "v INT").group_by_key()
    a.cogroup(first).cogroup(b, second).aggregate(lambda: 0, schema="n BIGINT").materialize("s")
    assembly = plan_engine(one_store(builder.build()), [A, B])
    assert assembly.keeps_raw
    rows = _processed(assembly, [(0, {"_0_v": 1.5, "_0_w": "x"}), (1, {"_1_v": 7})])
    assert seen == [("a", "k", {"v": 1.5, "w": "x"}), ("b", "k", {"v": 7})]
    assert [row["n"] for row in rows] == [11]


def _processed(assembly: PlannedEngine, records: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """Run records (input, columns) of one key and partition through the engine."""
    schema = assembly.engine.record_schema
    rows = [
        {
            "key": "k", "timestamp_ms": 5, "partition": 0, "offset": offset, "close_ms": 0,
            "key_group": 1, "input": place, "null_value": False, **columns,
        }
        for offset, (place, columns) in enumerate(records)
    ]  # fmt: skip
    batch = pa.Table.from_pylist(rows, schema=schema)
    result = assembly.engine.apply(assembly.engine.empty_state(), batch, Times.closing(0, 0))
    rows_made: list[Any] = result.changes.to_pylist()
    return rows_made


def test_reduce_keeps_the_values_columns() -> None:
    """A reduce has the columns of its value in wider types, and receives them as a dict."""
    builder = StreamsBuilder()
    grouped = builder.stream("b", "v INT").group_by_key()
    grouped.reduce(lambda kept, new: {"v": max(kept["v"], new["v"])}).materialize("s")
    assembly = plan_engine(one_store(builder.build()), [B])
    assert assembly.engine.aggregate_types == {"v": pa.int64()}
    assert [row["v"] for row in _processed(assembly, [(0, {"v": 3}), (0, {"v": 2})])] == [3]


def table_store(how: str = "inner") -> Store:
    """Two tables joined by key."""
    builder = StreamsBuilder()
    left, right = builder.table("a", "v DOUBLE, w STRING"), builder.table("b", "x INT")
    {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how](right).materialize(
        "s"
    )
    return one_store(builder.build())


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_joined_tables_have_the_columns_of_both(how: str) -> None:
    """The store's columns are the left table's, then the right one's, widened."""
    assembly = plan_engine(table_store(how), [A, pa.schema([("x", pa.int32())])])
    assert assembly.engine.aggregate_types == {
        "v": pa.float64(), "w": pa.string(), "x": pa.int64(),
    }  # fmt: skip


def test_tables_with_equal_columns_are_refused() -> None:
    """A table cannot have two columns with one name."""
    with pytest.raises(InvalidTopology, match=r"store 's', .*column 'v' exists twice"):
        plan_engine(table_store(), [A, pa.schema([("v", pa.int32())])])


@pytest.mark.parametrize(
    "found",
    [
        pa.date32(), pa.timestamp("us"), pa.binary(), pa.decimal128(10, 2),
        pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()),
        pa.list_(pa.struct([("a", pa.int32())])),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_that_no_store_can_hold_is_refused(found: pa.DataType) -> None:
    """A table's column and a reduced value become columns of the store: it must know their type."""
    builder = StreamsBuilder()
    builder.table("t", "v STRING").materialize("rows")
    builder.stream("t", "v STRING").group_by_key().reduce(lambda kept, _: kept).materialize("kept")
    for store in lower(builder.build()).stores:
        with pytest.raises(InvalidTopology) as caught:
            plan_engine(store, [pa.schema([("v", found)])])
        assert str(caught.value).startswith(
            f"store {store.name!r}, column 'v': a store cannot hold {found}"
        )


@pytest.mark.parametrize("name", ["final", "Revision", "window_start", "position", "a b"])
def test_a_value_may_not_take_the_name_of_a_stores_column(name: str) -> None:
    """The columns of a table and of a reduced value are the store's: its own names are taken."""
    builder = StreamsBuilder()
    builder.table("t", "v STRING").materialize("rows")
    builder.stream("t", "v STRING").group_by_key().reduce(lambda kept, _: kept).materialize("kept")
    for store in lower(builder.build()).stores:
        with pytest.raises(InvalidTopology) as caught:
            plan_engine(store, [pa.schema([(name, pa.string())])])
        assert str(caught.value).startswith(f"store {store.name!r}: ")
        assert repr(name) in str(caught.value)


def test_joined_tables_may_not_differ_in_case_only() -> None:
    """``v`` and ``V`` are one column in Delta: refused before anything is made."""
    with pytest.raises(
        InvalidTopology, match=r"store 's', .*join of tables: .*'V' exists twice .*case"
    ):
        plan_engine(table_store(), [A, pa.schema([("V", pa.int32())])])


def test_a_join_of_streams_orders_its_results() -> None:
    """Results of one left record differ in their lineage. Records of a source have no lineage."""
    windows = TimeWindows.of_size_with_no_grace(10)
    builder = StreamsBuilder()
    left, right = builder.stream("a", "v DOUBLE"), builder.stream("b", "x INT")
    joined = left.join(right, JoinWindows.of_time_difference_with_no_grace(5))
    joined.group_by_key().windowed_by(windows).count().materialize("streams")
    looked_up = left.join(builder.table("b", "x INT"))
    looked_up.group_by_key().windowed_by(windows).count().materialize("table")
    streams, table = lower(builder.build()).stores
    values = [pa.schema([("v", pa.float64()), ("x", pa.int32())])]
    assert "__lineage" in plan_engine(streams, values).engine.record_schema.names
    assert "__lineage" not in plan_engine(table, values).engine.record_schema.names


def test_a_session_needs_a_merger_only_for_functions() -> None:
    """Declarative aggregates and a reduce merge by themselves."""
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    builder = StreamsBuilder()
    windowed = builder.stream("b", "v INT").group_by_key().windowed_by(windows)
    windowed.reduce(lambda kept, _: kept).materialize("reduced")
    windowed.aggregate(n=count()).materialize("counted")
    for store in lower(builder.build()).stores:
        assert plan_engine(store, [B]).engine.aggregate_types


def test_calls_of_columns_after_steps() -> None:
    """A column that a step keeps has its aggregate's call, a computed one its expression."""
    builder = StreamsBuilder()
    counted = builder.stream("a", "v DOUBLE").group_by_key().aggregate(n=count(), mean=avg("v"))
    counted.map_values("*", twice="n  *  2", n="n + 1").filter("n > 1").map_values(
        "N", "twice", x="1"
    ).materialize("s")
    assert aggregate_calls(one_store(builder.build())) == {
        "N": "n + 1", "twice": "n * 2", "x": "1",
    }  # fmt: skip
    builder = StreamsBuilder()
    made = builder.stream("a", "v DOUBLE").group_by_key().reduce(lambda _, new: new)
    made.map_values("*", twice="v * 2").materialize("s")
    assert aggregate_calls(one_store(builder.build())) == {"twice": "v * 2"}
