"""Random logs for random trees, with the properties that a kind of tree needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.windows.topologies.tree_facts import follows_pairs, nodes_of, topics_of, waiting_joins

#: Topic, key, value, time.
Entry = tuple[str, str | None, Mapping[str, Any] | None, int]

#: One record of each topic at this time closes all windows of a log. A longer gap would lose
#: sessions in Kafka (tests/system/kafka_streams/test_kafka_sessions.py).
_LAST_MS = 30_000
#: Positive, divisible by 3, not null, and "a": it passes all conditions before a join or a merge.
_LAST_VALUE = {"v": 999_999, "s": "a"}


@dataclass(frozen=True)
class Plan:
    """The properties of windows and log that a kind of tree needs."""

    in_order: bool
    ample: bool
    #: Whether the log ends with a record of each topic that closes all windows.
    ends: bool
    emits: Sequence[str] = ("update",)
    hows: Sequence[str] = ("columns",)
    #: Whether the log has many records, and most of its windows close.
    many: bool = False
    #: Whether tables can be aggregations of joined streams.
    pairs: bool = False


def _passes_records_without_keys(tree: Any) -> bool:
    """Return True if a left or outer join of Kafka forwards records without a key."""
    of_tables = {"join_tables", "join_by_foreign_key"}
    return any(
        node.get("how") in {"left", "outer"} and node.get("op") not in of_tables
        for node in nodes_of(tree)
    )


def _emits_sliding_windows(tree: Any) -> bool:
    """Return True if a stream has the updates of sliding windows."""
    return any(
        node.get("windows", {}).get("kind") == "sliding"
        and node["emit"] == "update"
        and "store" in node
        for node in nodes_of(tree)
    )


def random_log(random: Random, tree: Mapping[str, Any], plan: Plan) -> list[Entry]:
    """Return a log with few keys and small times. Some records have a null key, value or column."""
    topics = sorted(topics_of(tree))
    spread = 0 if plan.in_order else random.choice((0, 3, 10, 30))
    odd = random.choice((0.0, 0.1, 0.25))
    unset = 0 if _passes_records_without_keys(tree) else odd / 2
    drift = random.choice((3.0, 6.0) if plan.many else (0.0, 0.7, 3.0))
    # With even times and lengths, no window is defined by two records. Kafka would emit it twice.
    step_ms = 2 if _emits_sliding_windows(tree) else 1
    #: The probability that a record has the topic of the previous record.
    stays = random.choice((0.0, 0.8))
    # Kafka forwards waiting records of one time by their keys ("waiting records of one time").
    is_distinct = waiting_joins(tree) and random.random() < 0.7
    moments: set[int] = set()
    log: list[Entry] = []
    time, topic = 30.0, random.choice(topics)
    numbers = (20, 40) if plan.many else (2, 6, 12)
    number = random.choice((2, 6) if follows_pairs(tree) else numbers)
    for place in range(1, number * max(2, len(topics)) + 1):
        time += random.choice((0.0, drift, drift, 2 * drift, 15.0 if random.random() < 0.05 else 0))
        key = None if random.random() < unset else random.choice("abc")
        signed = place if random.random() < 0.7 else -place
        value: Mapping[str, Any] | None = {
            "v": None if random.random() < unset else signed,
            "s": None if random.random() < unset else random.choice("abc"),
        }
        if random.random() < odd:
            value = None
        moment = max(0, int(time) + (random.randint(-spread, spread) if spread else 0))
        moment -= moment % step_ms
        while is_distinct and moment in moments:
            moment += step_ms
        moments.add(moment)
        if random.random() >= stays:
            topic = random.choice(topics)
        log.append((topic, key, value, moment))
    if plan.ends:
        # Tables are first, because Kafka can emit an unmatched record, and so its lookup, later.
        log.sort(key=lambda entry: not entry[0].startswith("t"))
        log += [(topic, "a", _LAST_VALUE, _LAST_MS) for topic in topics]
    return log
