"""One example of each row of the tables of docs/reference/kafka-streams-differences.md.

An entry has a tree, a log, the rows of Kafka Streams and the rows of Oriel. ``log_of`` reads the
log.
"""

from typing import Any

from tests.windows.topologies.random_logs import Entry
from tests.windows.topologies.runs import Rows

Node = dict[str, Any]


def stream(topic: str) -> Node:
    """Return a topic as a stream."""
    return {"op": "stream", "topic": topic}


def table(topic: str) -> Node:
    """Return a topic as a table."""
    return {"op": "table", "topic": topic}


def renamed(node: Node) -> Node:
    """Return a node with the column names of the right side of a join."""
    columns = {"w": ["column", "v"], "r": ["column", "s"]}
    return {"op": "map_values", "columns": columns, "input": node}


def joined(how: str, *, grace: int, within: int = 5) -> Node:
    """Return a join of the streams of both topics."""
    return {
        "op": "join_streams", "how": how, "before": within, "after": within, "grace": grace,
        "left": stream("a"), "right": renamed(stream("b")),
    }  # fmt: skip


def joined_again(front: Node, *, grace: int) -> Node:
    """Return a join with the stream of a third topic."""
    columns = {"x": ["column", "v"], "q": ["column", "s"]}
    return {
        "op": "join_streams", "how": "inner", "before": 5, "after": 5, "grace": grace,
        "left": front, "right": {"op": "map_values", "columns": columns, "input": stream("c")},
    }  # fmt: skip


def joined_tables(how: str, left: Node) -> Node:
    """Return a join of the tables of both topics."""
    return {"op": "join_tables", "how": how, "left": left, "right": renamed(table("b"))}


def updates(how: str, left: Node) -> Node:
    """Return the updates of a join of the tables of both topics."""
    return {"op": "to_stream", "input": joined_tables(how, left)}


TUMBLING = {"kind": "tumbling", "length": 10, "advance": 10, "grace": 0, "retention": 10**9}


SLIDING = {"kind": "sliding", "length": 10, "grace": 0, "retention": 10**9}


def aggregated(
    node: Node,
    windows: Node | None = None,
    *,
    key: list[str] | None = None,
    how: str = "columns",
    joins: bool = True,
    columns: Node | None = None,
) -> Node:
    """Return an aggregation of every column of ``node``, after a join of both sides."""
    if columns is None:
        columns = {"v": "BIGINT", "s": "STRING"} | ({"w": "BIGINT", "r": "STRING"} if joins else {})
    keyed = {"input": node, "key": key, "columns": columns}
    return {
        "op": "aggregate", "how": how, "emit": "update",
        "windows": windows or {"kind": "none"}, "inputs": [keyed],
    }  # fmt: skip


def log_of(text: str) -> list[Entry]:
    """Parse records ``TOPIC:KEY:TIME``. Their ``v`` counts them, and a final ``!`` is a null value.

    The key ``*`` is null.
    """
    log: list[Entry] = []
    for place, word in enumerate(text.split(), start=1):
        topic, key, time = word.removesuffix("!").split(":")
        value = None if word.endswith("!") else {"v": place, "s": "a"}
        log.append((topic, None if key == "*" else key, value, int(time)))
    return log


def pairs(rows: Rows) -> dict[str, Any]:
    """Return the time and the values of ``v`` and ``w`` by key and window start."""
    return {
        f"{place.key}@{place.start}" if place.end else place.key: (
            time,
            value.get("text", value.get("all0_v", value.get("v", []))),
            value.get("all0_w", value.get("w", [])),
        )
        for place, (time, value) in rows.items()
    }


def counted(topic: str) -> Node:
    """Return the counts of a topic as a table with the columns of the right side of a join."""
    counts = aggregated(stream(topic), joins=False) | {"behind": [], "store": "counts"}
    columns = {"w": ["column", "n0"], "r": ["column", "least0_s"]}
    return {"op": "map_values", "columns": columns, "input": {"op": "aggregated", "input": counts}}


def twice_counted(topic: str) -> Node:
    """Return a count of the flattened records of a topic. Each record has two."""
    twice = {"op": "flat_map_values", "array": ["twice", "v"], "keep": ["s"]}
    counts = aggregated(twice | {"input": stream(topic)}, joins=False)
    columns = {"v": ["column", "n0"], "s": ["column", "least0_s"]}
    rows = {"op": "aggregated", "input": counts | {"behind": [], "store": "counts"}}
    return {"op": "map_values", "columns": columns, "input": rows}


def updates_of(windows: Node, columns: Node, *steps: Node) -> Node:
    """Return some columns of the updates of windows over a topic."""
    front = aggregated(stream("a"), windows, joins=False) | {
        "behind": list(steps), "store": "front"
    }  # fmt: skip
    return {"op": "map_values", "columns": columns, "input": {"op": "rows_of", "input": front}}


#: Name of a row -> tree, log, rows of Kafka Streams, rows of Oriel.
NAMED: dict[str, tuple[Node, str, dict[str, Any], dict[str, Any]]] = {
    "merged streams": (
        aggregated(
            {"op": "merge", "left": stream("a"), "right": stream("b")}, TUMBLING, joins=False
        ),
        "a:k:50 b:k:6",
        {"k@50": (50, [1], [])},
        {"k@0": (6, [2], []), "k@50": (50, [1], [])},
    ),
    "late record of a join": (
        aggregated(joined("inner", grace=0)),
        "a:k:50 b:k:5 a:k:5",
        {"k": (5, [3], [2])},
        {},
    ),
    "match at the edge": (
        aggregated(joined("inner", grace=0, within=0)),
        "a:k:5 b:k:5",
        {},
        {"k": (5, [1], [2])},
    ),
    "out-of-order record of a left join": (
        aggregated(joined("left", grace=100)),
        "a:q:50 a:k:5 b:k:5 a:z:500 b:z:500",
        {"k": (5, [2, 2], [3]), "q": (50, [1], []), "z": (500, [4], [5])},
        {"k": (5, [2], [3]), "q": (50, [1], []), "z": (500, [4], [5])},
    ),
    "unmatched record before a second join": (
        aggregated(joined_again(joined("left", grace=0), grace=0)),
        "a:k:5 c:k:6 c:z:100 a:z:50 b:z:50",
        {},
        {"k": (6, [1], [])},
    ),
    "old result before a second join": (
        aggregated(joined_again(joined("inner", grace=100), grace=0)),
        "a:k:5 b:z:50 b:k:5 c:k:5",
        {"k": (5, [1], [3])},
        {},
    ),
    "null key in a left join": (
        aggregated(joined("left", grace=0), key=["column", "s"]),
        "a:*:5 a:z:500 b:z:500",
        {"a": (500, [1, 2], [3])},
        {"a": (500, [2], [3])},
    ),
    "removed aggregate in sliding windows": (
        aggregated(stream("a"), SLIDING, how="removing", joins=False),
        "a:k:20 a:k:25 a:k:25 a:k:27",
        {"k@10": (20, "0+1", []), "k@17": (27, "0+1+4", []), "k@21": (27, "0+4", [])},
        {
            "k@10": (20, "0+1", []),
            "k@17": (27, "0+4", []),
            "k@21": (27, "0+4", []),
            "k@26": (27, "0+4", []),
        },
    ),
    "functions over updates of joined tables": (
        aggregated(updates("outer", table("a")), SLIDING | {"grace": 100}, how="fold"),
        "b:k:50 a:k:45",
        {"k@40": (50, "0+null+2", [])},
        {"k@40": (50, "0+2+null", [])},
    ),
    "window that two records define": (
        aggregated(updates_of(SLIDING, {"v": ["column", "n0"]}), columns={"v": "BIGINT"}),
        "a:k:15 a:k:20 a:k:31",
        {"k": (31, [1, 1, 1, 1, 2], [])},
        {"k": (31, [1, 1, 1, 2], [])},
    ),
    "deleted row of a window": (
        aggregated(
            {
                "op": "filter",
                "condition": ["is_null", "at"],
                "input": updates_of(
                    TUMBLING,
                    {"v": ["column", "n0"], "at": ["column", "window_start_ms"]},
                    {"op": "filter", "condition": ["third", "n0"]},
                ),
            },
            TUMBLING,
            columns={"v": "BIGINT", "at": "BIGINT"},
        ),
        "a:k:3 a:k:4 a:k:5 a:k:6",
        {"k@0": (6, [], [])},
        {},
    ),
    "first row of an aggregation": (
        {
            "op": "group_table",
            "how": "fold",
            "key": ["column", "s"],
            "behind": [],
            "columns": {"v": "BIGINT", "s": "STRING", "w": "BIGINT", "r": "STRING"},
            "input": {
                "op": "join_tables",
                "how": "inner",
                "left": table("a"),
                "right": counted("b"),
            },
        },
        "a:k:1 a:l:2 b:l:3 b:k:4",
        {"a": (4, "0+2-1+1", [])},
        {"a": (4, "0+2+1", [])},
    ),
    "time of a deleted row": (
        {"op": "materialize", "input": joined_tables("left", table("a"))},
        "b:k:5 b:k:20! a:k:6",
        {"k": (6, 3, [])},
        {"k": (20, 3, [])},
    ),
    "late right row of a foreign key": (
        {
            "op": "materialize",
            "input": joined_tables("inner", table("a"))
            | {"op": "join_by_foreign_key", "key": ["column", "s"]},
        },
        "a:k:50 b:a:5",
        {"k": (5, 1, 2)},
        {"k": (50, 1, 2)},
    ),
    "filter after a foreign-key join": (
        aggregated(
            {
                "op": "to_stream",
                "input": {
                    "op": "filter",
                    "condition": ["third", "v"],
                    "input": joined_tables("left", table("a"))
                    | {"op": "join_by_foreign_key", "key": ["column", "s"]},
                },
            },
            TUMBLING,
        ),
        "a:k:3",
        {"k@0": (3, [], [])},
        {},
    ),
    "row that one record changes twice": (
        aggregated(
            {
                "op": "to_stream",
                "input": joined_tables("left", twice_counted("a"))
                | {"op": "join_by_foreign_key", "key": ["column", "s"]},
            },
            TUMBLING,
        ),
        "a:k:3",
        {"k@0": (3, [2], [])},
        {"k@0": (3, [1, 2], [])},
    ),
    "deletion at the time of its version": (
        aggregated(
            {
                "op": "join_table",
                "how": "left",
                "left": stream("a"),
                "right": renamed({"op": "versioned_table", "topic": "b", "history": 100}),
            },
            TUMBLING,
        ),
        "b:k:20 b:k:20! b:k:15 a:k:25",
        {"k@20": (25, [4], [3])},
        {"k@20": (25, [4], [])},
    ),
    "waiting records of one time": (
        aggregated(
            {
                "op": "join_table",
                "how": "left",
                "grace": 5,
                "left": stream("a"),
                "right": renamed({"op": "versioned_table", "topic": "b", "history": 100}),
            },
            TUMBLING,
            key=["column", "s"],
            how="fold",
        ),
        "a:z:10 a:k:10 a:k:15",
        {"a@10": (10, "0+2+1", [])},
        {"a@10": (10, "0+1+2", [])},
    ),
    "suppress after a filter": (
        aggregated(stream("a"), TUMBLING, joins=False)
        | {
            "emit": "suppress",
            "suppress": "last",
            "behind": [{"op": "filter", "condition": ["third", "total0_v"]}],
        },
        "a:k:3 a:k:5 a:q:6 a:z:40",
        {},
        {"k@0": (5, [1, 2], []), "q@0": (6, [3], [])},
    ),
}
