"""The language: Oriel's rows equal those of the real Kafka Streams 4.3.1 for any topology.

The tests use random topologies over random logs, and one example of each documented difference.
"""

import json
import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from oriel.testing import TopologyTestDriver
from tests.campaigns import cases
from tests.tidy.project import ROOT
from tests.windows.kafka_peer import KafkaPeer
from tests.windows.topologies import campaign
from tests.windows.topologies.comparison import LOST_DELETION, RULES, compared, kafka_result
from tests.windows.topologies.named_differences import (
    NAMED,
    TUMBLING,
    Node,
    aggregated,
    log_of,
    pairs,
    renamed,
    stream,
)
from tests.windows.topologies.operations import (
    ARRAYS,
    CONDITIONS,
    STORE,
    STORES,
    STREAMS,
    TABLES,
    topology_of,
)
from tests.windows.topologies.random_logs import Plan, random_log
from tests.windows.topologies.random_trees import KINDS, Case, random_cases
from tests.windows.topologies.runs import driver_rows, record_of, stages_rows
from tests.windows.topologies.tree_facts import is_interleaving_free, operations_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_SEED = 9_700_000


@pytest.mark.kafka
@cases(1, 1000)
def test_random_topologies(peer: KafkaPeer, spark: "SparkSession", number: int) -> None:
    """For random topologies and logs, test driver and stages return Kafka's rows."""
    found: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        found += campaign.checked(peer, seed)
    assert found["equal"] > 0.8 * found.total(), found


#: How, history and grace of a join with a versioned table.
VERSIONED = [
    ("inner", 0, None),
    ("left", 10, None),
    ("left", 3, 0),
    ("inner", 10, 4),
    ("left", 30, 30),
]


@pytest.mark.kafka
@pytest.mark.parametrize(("how", "history", "grace"), VERSIONED)
@cases(6, 400)
def test_logs_that_join_a_versioned_table(
    peer: KafkaPeer, spark: "SparkSession", how: str, history: int, grace: int | None, number: int
) -> None:
    """Rows equal Kafka's with disorder in both topics, in windows with a short grace.

    Waiting records are emitted in order.
    """
    versions = {"op": "versioned_table", "topic": "b", "history": history}
    join: Node = {"op": "join_table", "how": how, "left": stream("a"), "right": renamed(versions)}
    tree = aggregated(join if grace is None else join | {"grace": grace}, TUMBLING | {"grace": 2})
    random, plan = Random(f"{how} {history} {grace}"), Plan(in_order=False, ample=False, ends=False)
    rules = [
        compared(peer, Case(0, tree, random_log(random, tree, plan), False, log))
        for log in range(number)
    ]
    assert set(rules) <= {None, LOST_DELETION}


def _keyed(topic: str) -> Node:
    """Return a filtered stream with another key."""
    rows = {"op": "filter", "condition": ["is_set", "s"], "input": stream(topic)}
    return {"op": "select_key", "key": ["column", "s"], "input": rows}


def _table(of: Node) -> Node:
    """Return a filtered table of a stream."""
    rows = {"op": "to_table", "input": of}
    return {"op": "filter_not", "condition": ["third", "v"], "input": rows}


_ELEMENTS = {
    "op": "flat_map_values", "array": ["up_to_2", "v"], "keep": ["s"], "input": stream("b"),
}  # fmt: skip
_SESSIONS = {"kind": "session", "length": 5, "grace": 30, "retention": 36}
_OF_SESSIONS = {
    "op": "map_values", "columns": {"v": ["column", "n0"], "s": ["column", "least0_s"]},
    "input": {
        "op": "rows_of",
        "input": aggregated(stream("a"), _SESSIONS, joins=False) | {"store": "sessions"},
    },
}  # fmt: skip
#: Trees in which streams become tables.
TABLES_OF_STREAMS: dict[str, Node] = {
    "kept": {"op": "materialize", "input": _table(_keyed("a"))},
    "of updates": {"op": "materialize", "input": _table(_OF_SESSIONS)},
    "looked up": aggregated(
        {
            "op": "join_table", "how": "left", "left": stream("a"),
            "right": renamed(_table(_ELEMENTS)),
        },
        TUMBLING,
    ),
    "joined": {
        "op": "to", "input": {
            "op": "to_stream", "input": {
                "op": "join_tables", "how": "outer", "left": _table(_keyed("a")),
                "right": renamed(_table(stream("b"))),
            },
        },
    },
    "grouped": {
        "op": "group_table", "how": "fold", "key": ["column", "key"], "behind": [],
        "columns": {"v": "BIGINT", "s": "STRING"}, "input": _table(_keyed("a")),
    },
}  # fmt: skip


@pytest.mark.kafka
@pytest.mark.parametrize("name", TABLES_OF_STREAMS)
@cases(6, 400)
def test_logs_of_streams_that_become_tables(
    peer: KafkaPeer, spark: "SparkSession", name: str, number: int
) -> None:
    """Rows equal Kafka's for rekeyed streams, flattened records and sessions, with disorder."""
    tree = TABLES_OF_STREAMS[name]
    random, plan = Random(name), Plan(in_order=False, ample=True, ends=False)
    free = is_interleaving_free(tree)
    rules = [
        compared(peer, Case(0, tree, random_log(random, tree, plan), free, log))
        for log in range(number)
    ]
    assert set(rules) <= {None, LOST_DELETION}, rules


def test_every_operation_comes_up() -> None:
    """Every operation occurs in random topologies, so that their comparison covers it."""
    trees = [random_cases(seed, 1)[0].tree for seed in range(FIRST_SEED, FIRST_SEED + 600)]
    found = {name for tree in trees for name in operations_of(tree)}
    assert found == STREAMS.keys() | TABLES.keys() | STORES.keys()
    text = repr(trees)
    assert [name for name in [*CONDITIONS, *ARRAYS] if f"['{name}', " not in text] == []
    assert [emit for emit in ("update", "close", "suppress") if f"'{emit}'" not in text] == []
    assert len(KINDS) == 16


def test_rules_name_sections_of_pages() -> None:
    """The section that a rule names exists."""
    for rule in RULES:
        page, section = rule.page.split(", ")
        text = (ROOT / "docs" / page).read_text()
        assert re.search(rf"^## {re.escape(section)}$", text, re.MULTILINE), rule.page


@pytest.mark.kafka
@pytest.mark.parametrize("name", NAMED)
def test_a_difference_that_the_page_names(
    peer: KafkaPeer, spark: "SparkSession", name: str
) -> None:
    """The page has the difference, and both systems return the rows of the example."""
    differences = (ROOT / "docs" / "reference" / "kafka-streams-differences.md").read_text()
    assert f"\n| {name} |" in differences
    tree, log, of_kafka, of_us = NAMED[name]
    case = Case(0, tree, log_of(log), is_interleaving_free(tree))
    assert pairs(kafka_result(peer, case).rows) == of_kafka
    topology = topology_of(tree)
    assert pairs(driver_rows(topology, case)) == of_us
    assert pairs(stages_rows(topology, case)) == of_us


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("emit", "suppress", "expected"),
    [
        ("update", "", [2, 1, None, 3, 1]),
        ("close", "", [2, 3]),
        ("suppress", "first", [2, 3]),
        ("suppress", "last", [2, 3]),
    ],
)
def test_updates_of_rows_that_a_filter_drops(
    peer: KafkaPeer, spark: "SparkSession", emit: str, suppress: str, expected: list[Any]
) -> None:
    """A filtered row has one tombstone if it existed, and none among final rows."""
    tree = aggregated(stream("a"), TUMBLING, joins=False) | {
        "emit": emit, "suppress": suppress,
        "behind": [{"op": "filter", "condition": ["third", "total0_v"]}],
    }  # fmt: skip
    log = log_of("a:k:3 a:k:5 a:q:6 a:q:7 a:q:8 a:z:40")
    response = json.loads(peer.response(json.dumps({"tree": tree, "log": log})))
    assert [row[4] and row[4]["n0"] for row in response["emitted"]] == expected
    driver = TopologyTestDriver(topology_of(tree))
    for topic, *entry in log:
        driver.pipe_input(topic, record_of(entry))
    rows = driver.create_output_reader(STORE).read_rows()
    assert [row["n0"] for row in rows if row["final"] == (emit != "update")] == expected
