"""A tree's rows in Kafka Streams and in our language, side by side; what may differ and why."""

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
    stages_records,
    stages_rows,
    told,
)
from tests.windows.topologies.tree_facts import (
    nodes_of,
    operations_of,
    topics_of,
    waiting_joins,
)


@dataclass(frozen=True)
class Answer:
    """What Kafka made of a case: what was told last of each row, and what was aggregated."""

    rows: Rows
    #: Key, time, whether there is a value: records as they came to the aggregation.
    arrived: Sequence[tuple[str | None, int, bool]]


@dataclass(frozen=True)
class Difference:
    """Rows that are not alike; a side that lacks the row has None."""

    kafka: dict[Place, Any]
    ours: dict[Place, Any]


@dataclass(frozen=True)
class Rule:
    """A difference that a page names."""

    name: str
    #: Page and section.
    page: str
    explains: Callable[[Case, Answer, Difference], bool]


def compared(peer: KafkaPeer, case: Case) -> Rule | None:
    """Compare a case; the rule of its difference, None if there is none.

    Raises:
        AssertionError: they differ, and no rule explains it, or our two runs do.
    """
    topology = topology_of(case.tree)
    if topology.sinks:
        return _compare_written(peer, topology, case)
    # Both for a tree's first log, then in turn: they take longer than Kafka.
    runs = [
        run(topology, case)
        for number, run in enumerate((driver_rows, stages_rows))
        if case.number == 0 or case.number % 2 == number
    ]
    ours = runs[0]
    assert ours == runs[-1], _message("driver and stages differ", case, ours, runs[-1])
    answer = kafka_answer(peer, case)
    if answer.rows == ours:
        return None
    places = {p for p in answer.rows.keys() | ours.keys() if answer.rows.get(p) != ours.get(p)}
    difference = Difference(
        {place: answer.rows.get(place) for place in places},
        {place: ours.get(place) for place in places},
    )
    for rule in RULES:
        if rule.explains(case, answer, difference):
            return rule
    raise AssertionError(_message("Kafka differs", case, difference.kafka, difference.ours))


def _compare_written(peer: KafkaPeer, topology: Topology, case: Case) -> Rule | None:
    """Compare the records of a tree's topic: which, and of each key in which order.

    If one has more, the rule that explains it. A join of streams gives pairs when the later
    record comes, in Kafka each by itself and here a batch together, so there the order is not
    compared.

    Raises:
        AssertionError: they differ.
    """
    asked = json.dumps({"tree": case.tree, "log": case.log}, separators=(",", ":"))
    answer = json.loads(peer.answered(asked))
    assert "error" not in answer, f"seed {case.seed}: {answer}: {asked}"
    kafka = [Written.of(key, time, value) for key, _, _, time, value in answer["emitted"]]
    has_order = "join_streams" not in operations_of(case.tree) and not waits_at_one_time(case)
    for run in (driver_records, stages_records):
        ours = run(topology, case)
        if _filters_behind_foreign_key(case.tree) and Counter(ours) < Counter(kafka):
            return FILTER_BEHIND_FOREIGN_KEY
        if _names_rows_by_elements(case.tree) and Counter(kafka) < Counter(ours):
            return DROPPED_ANSWERS
        if Counter(kafka) != Counter(ours) and _deletes_at_its_versions_time(case):
            return LOST_DELETION
        lacking = Counter(kafka) - Counter(ours)
        if _are_without_key(case.tree, lacking) and Counter(ours) < Counter(kafka):
            return WITHOUT_KEY
        assert Counter(ours) == Counter(kafka), f"seed {case.seed}: {asked}: {kafka} | {ours}"
        if has_order and (run is driver_records or len(case.topics) == 1):
            for key in {one.key for one in kafka}:
                assert [one for one in ours if one.key == key] == [
                    one for one in kafka if one.key == key
                ], f"seed {case.seed}: order of {key!r}: {asked}: {kafka} | {ours}"
    return None


def kafka_answer(peer: KafkaPeer, case: Case) -> Answer:
    """Ask Kafka; what its store holds in the end is checked against what came out of it."""
    asked = json.dumps({"tree": case.tree, "log": case.log}, separators=(",", ":"))
    answer = json.loads(peer.answered(asked))
    assert "error" not in answer, f"seed {case.seed}: {answer}: {asked}"
    left: Rows = {}
    for key, start, end, time, value in answer["emitted"]:
        left.pop(Place(key, start, end), None)
        if value is not None:
            left[Place(key, start, end)] = (time, told(value))
    held = {Place(*row[:3]): (row[3], told(row[4])) for row in answer["rows"]}
    if case.tree.get("emit", "update") == "update":
        # Retention hides sessions that have closed.
        assert held.items() <= left.items(), _message("store and updates differ", case, held, left)
        is_session = case.tree.get("windows", {}).get("kind") == "session"
        assert is_session or held == left, _message("store and updates differ", case, held, left)
    return Answer(left, [(key, time, valued) for key, time, valued in answer["arrived"]])


def _message(what: str, case: Case, first: Mapping[Place, Any], second: Mapping[Place, Any]) -> str:
    rows = [
        f"  {place}: {first.get(place)} | {second.get(place)}"
        for place in sorted(first.keys() | second.keys())
        if first.get(place) != second.get(place)
    ]
    log = "\n".join(f"  {json.dumps(entry)}" for entry in case.log)
    tree = json.dumps(case.tree)
    return "\n".join([f"seed {case.seed}: {what}: {tree}", log, *rows])


def _sliding_loses(case: Case, answer: Answer, difference: Difference) -> bool:
    """Some record came after its own left window had closed: Kafka then never knows more than we.

    It may lose the record for windows that are open. What it has in a row, we have, too.
    """
    windows = case.tree.get("windows", {})
    if windows.get("kind") != "sliding" or _is_in_time(answer, windows):
        return False
    if case.tree["behind"]:
        # What its filters leave out it may have, where it lacks a record.
        return True
    for place, of_kafka in difference.kafka.items():
        of_us = difference.ours[place]
        if of_us is None or (of_kafka is not None and of_kafka[0] > of_us[0]):
            return False
    return True


def _is_in_time(answer: Answer, windows: Mapping[str, int]) -> bool:
    """Whether each accepted record came while its own left window was open."""
    length, grace, stream_time = windows["length"], windows["grace"], -1
    for key, time, has_value in answer.arrived:
        if key is None or not has_value:
            continue
        stream_time = max(stream_time, time)
        if time + length >= stream_time - grace > max(time, length):
            return False
    return True


def _deleted_row_had_a_time(case: Case, _: Answer, difference: Difference) -> bool:
    """Of joined tables, rows that lack a side differ in their times, and in nothing else.

    Ours have the time of the record that deleted the side, or that a filter left out.
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


def _right_row_has_its_own_time(case: Case, _: Answer, difference: Difference) -> bool:
    """A log out of order and a foreign key: rows of earlier times in Kafka, else the same.

    There a joined row has the time of the right record that came last, whatever the left one's.
    """
    times = [entry[-1] for entry in case.log]
    if "join_by_foreign_key" not in operations_of(case.tree) or times == sorted(times):
        return False
    for place, of_kafka in difference.kafka.items():
        of_us = difference.ours[place]
        if of_kafka is None or of_us is None or of_kafka[1] != of_us[1] or of_kafka[0] > of_us[0]:
            return False
    return True


def _suppress_waits_for_rows_that_pass(case: Case, _: Answer, difference: Difference) -> bool:
    """Behind a filter suppress hears time from rows that pass: final ones may be still to come."""
    is_final = case.tree.get("emit") == "suppress" and case.tree.get("suppress") == "last"
    filters = any(step["op"] != "map_values" for step in case.tree.get("behind", ()))
    return is_final and filters and not any(difference.kafka.values())


def _functions_see_updates_in_another_order(case: Case, _: Answer, difference: Difference) -> bool:
    """Functions over sliding windows of joined tables' updates: the same windows, at their times.

    A window is folded in the order of stream times there, in Kafka as the updates came.
    """
    of_functions = case.tree.get("how") in {"fold", "reduce"}
    is_sliding = case.tree.get("windows", {}).get("kind") == "sliding"
    joins = {"join_tables", "join_by_foreign_key"} & set(operations_of(case.tree))
    return bool(of_functions and is_sliding and joins) and _differ_in_values(difference)


def _differ_in_values(difference: Difference) -> bool:
    both = ((row, difference.ours[place]) for place, row in difference.kafka.items())
    return all(one and other and one[0] == other[0] for one, other in both)


def waits_at_one_time(case: Case) -> bool:
    """Whether records of one time wait in front of a versioned table."""
    return any(
        len(times := _times_of(case, node["left"])) > len(set(times))
        or not {"flat_map", "flat_map_values"}.isdisjoint(operations_of(node["left"]))
        for node in waiting_joins(case.tree)
    )


def _times_of(case: Case, tree: Any) -> list[int]:
    topics = topics_of(tree)
    return [time for topic, _, _, time in case.log if topic in topics]


def _functions_see_one_time_by_key(case: Case, _: Answer, difference: Difference) -> bool:
    """Functions behind a buffer: the same rows; what is of one time leaves Kafka's by its key."""
    of_functions = case.tree.get("how") in {"fold", "reduce"}
    return of_functions and waits_at_one_time(case) and _differ_in_values(difference)


def _deletes_at_its_versions_time(case: Case, *_: object) -> bool:
    """A version is deleted by a record of its own time, and an older one of its key comes later."""
    topics = {n["topic"] for n in nodes_of(case.tree) if n.get("op") == "versioned_table"}
    for number, (topic, key, value, time) in enumerate(case.log):
        if topic in topics and value is None:
            before, behind = case.log[:number], case.log[number + 1 :]
            replaces = any((t, k, at) == (topic, key, time) for t, k, _, at in before)
            if replaces and any((t, k) == (topic, key) and at < time for t, k, _, at in behind):
                return True
    return False


def _filters_behind_foreign_key(tree: Any) -> bool:
    """Whether updates of a table go on that a filter stands in, behind a join by a foreign key."""
    return any(
        "join_by_foreign_key" in operations_of(node.get("input", []))
        for node in nodes_of(tree)
        if node.get("op") in {"filter", "filter_not"}
    )


def _a_filter_tells_what_was_not_there(case: Case, _: Answer, __: Difference) -> bool:
    """Kafka tells of each update that the filter leaves out, which windows count as a record."""
    goes_on = "to_stream" in operations_of(case.tree) or case.tree["op"] == "group_table"
    return goes_on and _filters_behind_foreign_key(case.tree)


def _names_rows_by_elements(tree: Any) -> bool:
    """Whether the rows that name others, by a foreign key, are an aggregation of elements."""
    of_left = (
        set(operations_of(node["left"]))
        for node in nodes_of(tree)
        if node.get("op") == "join_by_foreign_key"
    )
    return any("aggregated" in of and {"flat_map", "flat_map_values"} & of for of in of_left)


def _answers_are_dropped(case: Case, _: Answer, __: Difference) -> bool:
    """Kafka does not tell of a row that is another one already when its answer comes."""
    goes_on = "to_stream" in operations_of(case.tree) or case.tree["op"] == "group_table"
    return goes_on and _names_rows_by_elements(case.tree)


def _are_without_key(tree: Any, records: Iterable[Written]) -> bool:
    """Whether records of a left join have none, as Kafka lets them pass."""
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

DROPPED_ANSWERS = Rule(
    "a row that one record changes twice is emitted once in Kafka",
    "reference/kafka-streams-differences.md, Tables and updates",
    _answers_are_dropped,
)

FILTER_BEHIND_FOREIGN_KEY = Rule(
    "a filter after a foreign key deletes rows that did not exist in Kafka",
    "reference/kafka-streams-differences.md, Tables and updates",
    _a_filter_tells_what_was_not_there,
)

#: In the order in which they are asked.
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
    FILTER_BEHIND_FOREIGN_KEY,
    DROPPED_ANSWERS,
    WITHOUT_KEY,
    LOST_DELETION,
)
