"""Compare the rows of a tree in Kafka Streams and in Oriel, and explain known differences."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oriel import Topology
from tests.windows.kafka_peer import KafkaPeer
from tests.windows.topologies.operations import topology_of
from tests.windows.topologies.random_parts import RIGHT_NAMES
from tests.windows.topologies.random_trees import Case
from tests.windows.topologies.runs import (
    Place,
    Rows,
    Written,
    driver_records,
    driver_rows,
    normalized,
    stages_records,
    stages_rows,
)
from tests.windows.topologies.tree_facts import (
    nodes_of,
    operations_of,
    topics_of,
    waiting_joins,
)


@dataclass(frozen=True)
class KafkaRows:
    """Kafka's result of a case: the last update of each row, and the aggregated records."""

    rows: Rows
    #: Key, time, and whether the value is not null, for each record of the aggregation.
    arrived: Sequence[tuple[str | None, int, bool]]


@dataclass(frozen=True)
class Difference:
    """Rows that differ, per system. None: the system does not have the row."""

    kafka: dict[Place, Any]
    ours: dict[Place, Any]


@dataclass(frozen=True)
class Rule:
    """A documented difference."""

    name: str
    #: Page and section.
    page: str
    explains: Callable[[Case, KafkaRows, Difference], bool]


def compared(peer: KafkaPeer, case: Case) -> Rule | None:
    """Compare a case. Return the rule of its difference, or None if the rows are equal.

    Raises:
        AssertionError: No rule explains the difference, or the driver and the stages differ.
    """
    topology = topology_of(case.tree)
    if topology.sinks:
        return _compare_written(peer, topology, case)
    # Both run for the first log of a tree, then in turn, because they are slower than Kafka.
    runs = [
        run(topology, case)
        for number, run in enumerate((driver_rows, stages_rows))
        if case.number == 0 or case.number % 2 == number
    ]
    ours = runs[0]
    assert ours == runs[-1], _message("driver and stages differ", case, ours, runs[-1])
    kafka = kafka_result(peer, case)
    if kafka.rows == ours:
        return None
    places = {p for p in kafka.rows.keys() | ours.keys() if kafka.rows.get(p) != ours.get(p)}
    difference = Difference(
        {place: kafka.rows.get(place) for place in places},
        {place: ours.get(place) for place in places},
    )
    for rule in RULES:
        if rule.explains(case, kafka, difference):
            return rule
    raise AssertionError(_message("Kafka differs", case, difference.kafka, difference.ours))


def _compare_written(peer: KafkaPeer, topology: Topology, case: Case) -> Rule | None:
    """Compare the records of the output topic of a tree, and their order per key.

    Return the rule of a difference. The order after a join of streams is not compared: Kafka emits
    a match when its later record arrives, but we emit all matches of a batch together.

    Raises:
        AssertionError: No rule explains the difference.
    """
    request = json.dumps({"tree": case.tree, "log": case.log}, separators=(",", ":"))
    response = json.loads(peer.response(request))
    assert "error" not in response, f"seed {case.seed}: {response}: {request}"
    kafka = [Written.of(key, time, value) for key, _, _, time, value in response["emitted"]]
    has_order = "join_streams" not in operations_of(case.tree) and not waits_at_one_time(case)
    for run in (driver_records, stages_records):
        ours = run(topology, case)
        if _filters_after_foreign_key(case.tree) and Counter(ours) < Counter(kafka):
            return FILTER_AFTER_FOREIGN_KEY
        if _names_rows_by_elements(case.tree) and Counter(kafka) < Counter(ours):
            return DROPPED_RESPONSES
        if Counter(kafka) != Counter(ours) and _deletes_at_its_versions_time(case):
            return LOST_DELETION
        lacking = Counter(kafka) - Counter(ours)
        if _are_without_key(case.tree, lacking) and Counter(ours) < Counter(kafka):
            return WITHOUT_KEY
        assert Counter(ours) == Counter(kafka), f"seed {case.seed}: {request}: {kafka} | {ours}"
        if has_order and (run is driver_records or len(case.topics) == 1):
            for key in {one.key for one in kafka}:
                assert [one for one in ours if one.key == key] == [
                    one for one in kafka if one.key == key
                ], f"seed {case.seed}: order of {key!r}: {request}: {kafka} | {ours}"
    return None


def kafka_result(peer: KafkaPeer, case: Case) -> KafkaRows:
    """Return Kafka's result, and check that its store equals the records that it emitted."""
    request = json.dumps({"tree": case.tree, "log": case.log}, separators=(",", ":"))
    response = json.loads(peer.response(request))
    assert "error" not in response, f"seed {case.seed}: {response}: {request}"
    left: Rows = {}
    for key, start, end, time, value in response["emitted"]:
        left.pop(Place(key, start, end), None)
        if value is not None:
            left[Place(key, start, end)] = (time, normalized(value))
    held = {Place(*row[:3]): (row[3], normalized(row[4])) for row in response["rows"]}
    if case.tree.get("emit", "update") == "update":
        # Retention hides sessions that have closed.
        assert held.items() <= left.items(), _message("store and updates differ", case, held, left)
        is_session = case.tree.get("windows", {}).get("kind") == "session"
        assert is_session or held == left, _message("store and updates differ", case, held, left)
    return KafkaRows(left, [(key, time, valued) for key, time, valued in response["arrived"]])


def _message(what: str, case: Case, first: Mapping[Place, Any], second: Mapping[Place, Any]) -> str:
    rows = [
        f"  {place}: {first.get(place)} | {second.get(place)}"
        for place in sorted(first.keys() | second.keys())
        if first.get(place) != second.get(place)
    ]
    log = "\n".join(f"  {json.dumps(entry)}" for entry in case.log)
    tree = json.dumps(case.tree)
    return "\n".join([f"seed {case.seed}: {what}: {tree}", log, *rows])


def _sliding_loses(case: Case, kafka: KafkaRows, difference: Difference) -> bool:
    """A record arrived after its left window closed, and Kafka has only a part of our records.

    Kafka can lose such a record for windows that are still open.
    """
    windows = case.tree.get("windows", {})
    if windows.get("kind") != "sliding" or _is_in_time(kafka, windows):
        return False
    if case.tree["behind"]:
        # Without the record, a row of Kafka can pass a filter that our row does not pass.
        return True
    for place, of_kafka in difference.kafka.items():
        of_us = difference.ours[place]
        if of_us is None or (of_kafka is not None and of_kafka[0] > of_us[0]):
            return False
    return True


def _is_in_time(kafka: KafkaRows, windows: Mapping[str, int]) -> bool:
    """Return True if each accepted record arrived while its own left window was open."""
    length, grace, stream_time = windows["length"], windows["grace"], -1
    for key, time, has_value in kafka.arrived:
        if key is None or not has_value:
            continue
        stream_time = max(stream_time, time)
        if time + length >= stream_time - grace > max(time, length):
            return False
    return True


def _deleted_row_had_a_time(case: Case, _: KafkaRows, difference: Difference) -> bool:
    """In a join of tables, unmatched rows differ only in their times.

    Our rows have the time of the record that deleted the other side, or that a filter dropped.
    """
    operations = operations_of(case.tree)
    joins = operations.count("join_tables") + operations.count("join_by_foreign_key")
    if joins == 0 or case.tree["op"] != "materialize":
        return False
    sides = (("v", "s"), *RIGHT_NAMES[:joins])
    for place, of_kafka in difference.kafka.items():
        of_us = difference.ours[place]
        if of_kafka is None or of_us is None or of_kafka[1] != of_us[1]:
            return False
        if all(of_us[1].keys() & set(side) for side in sides):
            return False
    return True


def _right_row_has_its_own_time(case: Case, _: KafkaRows, difference: Difference) -> bool:
    """For a foreign key and an unordered log, rows only have earlier times in Kafka.

    There, a joined row has the time of the last right record, also if the left record is later.
    """
    times = [entry[-1] for entry in case.log]
    if "join_by_foreign_key" not in operations_of(case.tree) or times == sorted(times):
        return False
    for place, of_kafka in difference.kafka.items():
        of_us = difference.ours[place]
        if of_kafka is None or of_us is None or of_kafka[1] != of_us[1] or of_kafka[0] > of_us[0]:
            return False
    return True


def _suppress_waits_for_rows_that_pass(case: Case, _: KafkaRows, difference: Difference) -> bool:
    """After a filter, suppress only sees the time of rows that pass, so Kafka lacks final rows."""
    is_final = case.tree.get("emit") == "suppress" and case.tree.get("suppress") == "last"
    filters = any(step["op"] != "map_values" for step in case.tree.get("behind", ()))
    return is_final and filters and not any(difference.kafka.values())


def _functions_see_updates_in_another_order(
    case: Case, _: KafkaRows, difference: Difference
) -> bool:
    """Functions over sliding windows of updates of joined tables: only the values differ.

    Oriel calls the functions in the order of stream times, and Kafka in the order of arrival.
    """
    of_functions = case.tree.get("how") in {"fold", "reduce"}
    is_sliding = case.tree.get("windows", {}).get("kind") == "sliding"
    joins = {"join_tables", "join_by_foreign_key"} & set(operations_of(case.tree))
    return bool(of_functions and is_sliding and joins) and _differ_in_values(difference)


def _differ_in_values(difference: Difference) -> bool:
    both = ((row, difference.ours[place]) for place, row in difference.kafka.items())
    return all(one and other and one[0] == other[0] for one, other in both)


def waits_at_one_time(case: Case) -> bool:
    """Return True if records with equal times wait in the grace buffer of a versioned table."""
    return any(
        len(times := _times_of(case, node["left"])) > len(set(times))
        or not {"flat_map", "flat_map_values"}.isdisjoint(operations_of(node["left"]))
        for node in waiting_joins(case.tree)
    )


def _times_of(case: Case, tree: Any) -> list[int]:
    topics = topics_of(tree)
    return [time for topic, _, _, time in case.log if topic in topics]


def _functions_see_one_time_by_key(case: Case, _: KafkaRows, difference: Difference) -> bool:
    """After a grace buffer, values of functions differ: Kafka's orders equal times by key."""
    of_functions = case.tree.get("how") in {"fold", "reduce"}
    return of_functions and waits_at_one_time(case) and _differ_in_values(difference)


def _deletes_at_its_versions_time(case: Case, *_: object) -> bool:
    """A deletion has the time of its version, and an older record of the key arrives later."""
    topics = {n["topic"] for n in nodes_of(case.tree) if n.get("op") == "versioned_table"}
    for number, (topic, key, value, time) in enumerate(case.log):
        if topic in topics and value is None:
            before, after = case.log[:number], case.log[number + 1 :]
            replaces = any((t, k, at) == (topic, key, time) for t, k, _, at in before)
            if replaces and any((t, k) == (topic, key) and at < time for t, k, _, at in after):
                return True
    return False


def _filters_after_foreign_key(tree: Any) -> bool:
    """Return True if a filter is downstream of a foreign-key join."""
    return any(
        "join_by_foreign_key" in operations_of(node.get("input", []))
        for node in nodes_of(tree)
        if node.get("op") in {"filter", "filter_not"}
    )


def _a_filter_deletes_missing_rows(case: Case, _: KafkaRows, __: Difference) -> bool:
    """Kafka emits a tombstone for each update that the filter drops, and windows count it."""
    continues = "to_stream" in operations_of(case.tree) or case.tree["op"] == "group_table"
    return continues and _filters_after_foreign_key(case.tree)


def _names_rows_by_elements(tree: Any) -> bool:
    """Return True if the left rows of a foreign-key join aggregate flattened records."""
    of_left = (
        set(operations_of(node["left"]))
        for node in nodes_of(tree)
        if node.get("op") == "join_by_foreign_key"
    )
    return any("aggregated" in of and {"flat_map", "flat_map_values"} & of for of in of_left)


def _responses_are_dropped(case: Case, _: KafkaRows, __: Difference) -> bool:
    """Kafka drops the response for a left row that has changed before the response arrives."""
    continues = "to_stream" in operations_of(case.tree) or case.tree["op"] == "group_table"
    return continues and _names_rows_by_elements(case.tree)


def _are_without_key(tree: Any, records: Iterable[Written]) -> bool:
    """Return True if only records of a left join without a key differ, which Kafka forwards."""
    joins = {"join_streams", "join_table", "join_global"}
    passes = any(
        node.get("how") in {"left", "outer"} for node in nodes_of(tree) if node.get("op") in joins
    )
    return passes and all(record.key is None for record in records)


WITHOUT_KEY = Rule(
    "records with a null key continue after left joins in Kafka",
    "reference/kafka-streams-differences.md, Joins",
    # Rows always have a key.
    lambda *_: False,
)

LOST_DELETION = Rule(
    "a deletion at the time of its version leaves no trace in Kafka",
    "reference/kafka-streams-differences.md, Joins",
    _deletes_at_its_versions_time,
)

DROPPED_RESPONSES = Rule(
    "a row that one record changes twice is emitted once in Kafka",
    "reference/kafka-streams-differences.md, Tables and updates",
    _responses_are_dropped,
)

FILTER_AFTER_FOREIGN_KEY = Rule(
    "a filter after a foreign key deletes rows that did not exist in Kafka",
    "reference/kafka-streams-differences.md, Tables and updates",
    _a_filter_deletes_missing_rows,
)

#: In the order in which they are checked.
RULES = (
    Rule(
        "sliding windows lose partly late records in Kafka",
        "reference/kafka-streams-differences.md, Partly late records in sliding windows",
        _sliding_loses,
    ),
    Rule(
        "the time of a deleted row counts in a join of tables",
        "reference/kafka-streams-differences.md, Tables and updates",
        _deleted_row_had_a_time,
    ),
    Rule(
        "a late right row sets the time of the joined row in Kafka",
        "reference/kafka-streams-differences.md, Tables and updates",
        _right_row_has_its_own_time,
    ),
    Rule(
        "functions see the updates of joined tables in another order",
        "reference/kafka-streams-differences.md, Tables and updates",
        _functions_see_updates_in_another_order,
    ),
    Rule(
        "waiting records of one time continue by their keys in Kafka",
        "reference/kafka-streams-differences.md, Joins",
        _functions_see_one_time_by_key,
    ),
    Rule(
        "suppress after a filter waits for rows that pass it in Kafka",
        "reference/kafka-streams-differences.md, Tables and updates",
        _suppress_waits_for_rows_that_pass,
    ),
    FILTER_AFTER_FOREIGN_KEY,
    DROPPED_RESPONSES,
    WITHOUT_KEY,
    LOST_DELETION,
)
