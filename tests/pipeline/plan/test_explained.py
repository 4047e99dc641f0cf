"""The plans of a topology as text: ``Topology.explain`` and ``oriel run --explain``."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel import (
    InvalidTopology,
    JoinWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum,
)
from oriel.pipeline.run_command import main

TUMBLING = TimeWindows.of_size_and_grace(10, 5)


def physical(topology: Topology) -> str:
    """Return the physical plan."""
    logical, _, plan = topology.explain().partition("== Physical plan ==\n")
    assert logical == f"== Logical plan ==\n{topology.describe()}\n"
    return plan


def test_a_join_has_an_exchange_per_operator() -> None:
    """Each operator has its state, and each input its stream time, its steps and its source."""
    builder = StreamsBuilder()
    orders, paid = builder.stream("orders", "v BIGINT"), builder.stream("paid", "w BIGINT")
    within = JoinWindows.of_time_difference_and_grace(3, 6)
    joined = orders.filter("v > 0").outer_join(paid, within).group_by("v")
    joined.windowed_by(TUMBLING).aggregate(w=sum("w")).materialize("sums")
    assert physical(builder.build()) == (
        f"sums ({TUMBLING!r})\n"
        """\
+- TimeWindow: w=sum(w) [state: rows by key and time bucket]
   +- Exchange by key
      +- Late filter
         +- Steps in Arrow: group_by(v)
            +- StreamJoin: outer_join('paid') [state: open records]
               +- Exchange by key
                  :- Stream time: orders
                  :  +- Steps in Arrow: filter('v > 0')
                  :     +- Source: stream('orders')
                  +- Stream time: paid
                     +- Source: stream('paid')"""
    )


def test_the_stream_time_of_a_stream_continues_after_a_join_with_a_table() -> None:
    """One task needs all records of a partition again, so the plan has one more exchange."""
    builder = StreamsBuilder()
    orders, names = builder.stream("orders", "v BIGINT"), builder.table("names", "name STRING")
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    orders.join(names).group_by_key().windowed_by(windows).aggregate(n=count()).materialize("s")
    assert physical(builder.build()) == (
        f"s ({windows!r})\n"
        """\
+- SlidingWindow: n=count() [state: rows by key and time bucket]
   +- Exchange by key
      +- Late filter
         +- Stream time: orders
            +- Exchange by partition
               +- StreamTableJoin: join(table 'names') [state: rows by key]
                  +- Exchange by key
                     :- Source: stream('orders')
                     +- Stream time: names
                        +- Source: table('names')"""
    )


def test_a_foreign_key_join_has_state_by_sub_key() -> None:
    """The state of a right row has one row per subscriber."""
    builder = StreamsBuilder()
    orders = builder.table("orders", "customer STRING, v BIGINT")
    customers = builder.table("customers", "name STRING")
    orders.join(customers, foreign_key="customer").materialize("named")
    plan = physical(builder.build())
    assert "TableRows" in plan
    assert "Responses: rows(table 'customers') [state: rows by key and sub-key]" in plan
    assert "Subscriptions: subscriptions() [state: rows by key]" in plan


def test_functions_and_steps_say_how_they_run(spark: SparkSession) -> None:
    """Functions are compiled or called. Some expressions need Spark. A sink has no state."""
    del spark  # An expression that Arrow lacks is checked in this session.
    builder = StreamsBuilder()
    orders = builder.stream("orders", "v BIGINT, w STRING")
    longest = orders.group_by_key().reduce(lambda old, new: new if new["v"] > old["v"] else old)
    longest.filter("v > 1").materialize("longest")
    orders.filter("w LIKE 'a_'").to("few")
    plan = physical(builder.build())
    assert "reduce(functions) [state: rows by key, functions compiled]" in plan
    assert "Steps in Arrow: filter('v > 1')\n" in plan
    assert "Records: records [state: none]" in plan
    assert """Steps in Spark: filter("w LIKE 'a_'")""" in plan


def test_an_invalid_step_is_rejected() -> None:
    """`explain` rejects an invalid step, as a run does."""
    builder = StreamsBuilder()
    builder.stream("orders", "v BIGINT").filter("missing > 1").to("few")
    with pytest.raises(InvalidTopology, match="missing"):
        builder.build().explain()


def test_the_command_prints_the_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log and the data directory can be missing, and are not created."""
    file = tmp_path / "topology.py"
    file.write_text(
        "from oriel import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('t', 'v INT').group_by_key().count().materialize('counts')\n"
        "topology = builder.build()\n"
    )
    data = tmp_path / "data"
    options = ["--event-log", str(tmp_path / "log"), "--data", str(data), "--explain"]
    assert main([str(file), *options]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("== Logical plan ==\nTopology\n  Store: counts (no windows)\n")
    assert "\n+- TimeWindow: count=count() [state: rows by key]" in printed
    assert not data.exists()
    file.write_text("topology = 1\n")
    assert main([str(file), *options]) == 1
    assert "must define `topology = builder.build()`" in capsys.readouterr().err
