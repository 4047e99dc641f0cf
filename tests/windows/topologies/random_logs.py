"""Random logs for random trees: what a kind of tree needs of its log, and logs like that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.windows.topologies.tree_facts import follows_pairs, nodes_of, topics_of, waiting_joins

#: Topic, key, value, time.
Entry = tuple[str, str | None, Mapping[str, Any] | None, int]

#: What all windows of a log are closed by: one record of each topic, at this time. A longer silence
#: would lose sessions in Kafka (tests/system/kafka_streams/test_kafka_sessions.py).
_LAST_MS = 30_000
#: Positive, divisible by 3, set, "a": every condition in front of a join or a merger lets it pass.
_LAST_VALUE = {"v": 999_999, "s": "a"}


@dataclass(frozen=True)
class Plan:
    """What a kind of tree needs of its windows and its log."""

    in_order: bool
    ample: bool
    #: Whether the log ends with a record of each topic that closes all before it.
    ends: bool
    emits: Sequence[str] = ("update",)
    hows: Sequence[str] = ("columns",)
    #: Whether the log has many records, and most windows of it close.
    many: bool = False
    #: Whether aggregations that are tables may be of pairs of streams.
    pairs: bool = False


def _passes_records_without_keys(tree: Any) -> bool:
    """Whether one of Kafka's joins, left or outer, lets a record without a key get another."""
    of_tables = {"join_tables", "join_by_foreign_key"}
    return any(
        node.get("how") in {"left", "outer"} and node.get("op") not in of_tables
        for node in nodes_of(tree)
    )


def _tells_sliding_windows(tree: Any) -> bool:
    """Whether updates of sliding windows go on as a stream."""
    return any(
        node.get("windows", {}).get("kind") == "sliding"
        and node["emit"] == "update"
        and "store" in node
        for node in nodes_of(tree)
    )


def random_log(random: Random, tree: Mapping[str, Any], plan: Plan) -> list[Entry]:
    """Few keys and small times; some records without a key, a value or one of its columns."""
    topics = sorted(topics_of(tree))
    spread = 0 if plan.in_order else random.choice((0, 3, 10, 30))
    odd = random.choice((0.0, 0.1, 0.25))
    unset = 0 if _passes_records_without_keys(tree) else odd / 2
    drift = random.choice((3.0, 6.0) if plan.many else (0.0, 0.7, 3.0))
    # With even times and lengths no window has two definers, which Kafka would tell twice.
    step_ms = 2 if _tells_sliding_windows(tree) else 1
    #: How probably a record's topic is that of the one before.
    stays = random.choice((0.0, 0.8))
    # Of one time, what has waited goes on by its keys in Kafka ("records of one time that waited").
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
        # Kafka may tell of a record that is alone later than we do: what it looks up is there.
        log.sort(key=lambda entry: not entry[0].startswith("t"))
        log += [(topic, "a", _LAST_VALUE, _LAST_MS) for topic in topics]
    return log
