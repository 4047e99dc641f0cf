"""Updates of a foreign-key join of tables: three engines in a chain equal a slow model."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from oriel.pipeline.windows import (
    FOREIGN_KEY,
    LEFT,
    RIGHT,
    SUBSCRIBER,
    ForeignUpdatesEngine,
    IllegalArgument,
    InputRows,
    JoinEngine,
    Lineage,
    ResponseUpdatesEngine,
    SubscriptionUpdatesEngine,
    Times,
)
from oriel.pipeline.windows.joins.foreign_keys.response_updates import SUBSCRIBED
from tests.campaigns import cases
from tests.models.foreign_keys import RowUpdate, Updates, foreign_key_of
from tests.models.joins import Arrived, Logs
from tests.windows.join_batches import (
    batches,
    random_cuts,
    saved_and_loaded,
    to_table,
    whole,
)
from tests.windows.lineages import values_of
from tests.windows.random_logs import marks_reached
from tests.windows.test_table_join_properties import CARRIED

STREAM_TIMES = (0, 0)
LEFT_KEYS, RIGHT_KEYS = ("a", "b", "c", "ä/ \0"), ("x", "y", "a")
VALUES = pa.schema([("l", pa.string())]), pa.schema([("r", pa.string())])
MESSAGES = InputRows(Lineage(1), have_apply_order=True)
RESPONSES = InputRows(Lineage(2, logs=2), have_apply_order=True)

#: One batch of the model: side and record.
Arrivals = Sequence[tuple[int, Arrived]]


class Chain:
    """The three engines with their states, in the order of the stages."""

    def __init__(self, how: Any, *, filters_right: bool = False, restarts: bool = False) -> None:
        """Start without rows. With ``restarts``, states are written and read after each batch."""
        self.restarts = restarts
        records = InputRows()
        self.subscriptions = SubscriptionUpdatesEngine(CARRIED)
        self.responses = ResponseUpdatesEngine(
            VALUES[RIGHT], CARRIED, (MESSAGES, records), is_filtered=filters_right
        )
        left = pa.schema([*VALUES[LEFT], FOREIGN_KEY])
        right = pa.schema([*VALUES[RIGHT], SUBSCRIBED])
        self.joined = ForeignUpdatesEngine(how, (left, right), CARRIED, (records, RESPONSES))
        engines = (self.subscriptions, self.responses, self.joined)
        self.states: dict[JoinEngine, pa.Table] = {each: each.empty_state() for each in engines}

    def take(self, given: Arrivals) -> pa.Table:
        """Return the updates that a batch emits."""
        left = [
            to_table(
                self.joined.record_schema, [one], "l", side=LEFT,
                **{FOREIGN_KEY.name: foreign_key_of(one.value) if one.value else None},
            )
            for side, one in given if side == LEFT
        ]  # fmt: skip
        right = [
            to_table(self.responses.record_schema, [one], "r", side=RIGHT)
            for side, one in given if side == RIGHT
        ]  # fmt: skip
        left = pa.concat_tables([self.joined.record_schema.empty_table(), *left])
        right = pa.concat_tables([self.responses.record_schema.empty_table(), *right])
        messages = self._run(
            self.subscriptions, left.select(self.subscriptions.record_schema.names)
        )
        messages = _as_batch(messages, self.responses.record_schema, LEFT)
        responses = self._run(self.responses, pa.concat_tables([right, messages]))
        responses = _as_batch(responses, self.joined.record_schema, RIGHT)
        return self._run(self.joined, pa.concat_tables([responses, left]))

    def _run(self, engine: JoinEngine, batch: pa.Table) -> pa.Table:
        state = self.states[engine]
        if isinstance(engine, ResponseUpdatesEngine):
            state = _needed(engine, state, batch)
            others = _others(self.states[engine], state)
            result = engine.apply(state, batch, Times.at(STREAM_TIMES))
            next_state = pa.concat_tables([others, result.state])
        else:
            result = engine.apply(state, batch, Times.at(STREAM_TIMES))
            next_state = result.state
        self.states[engine] = saved_and_loaded(next_state) if self.restarts else next_state
        return result.results


def _as_batch(results: pa.Table, schema: pa.Schema, side: int) -> pa.Table:
    """Return the results of an engine as records of a side of the next engine."""
    more: dict[str, Any] = {
        "side": pa.repeat(side, len(results)),
        "null_value": pa.repeat(value=False, size=len(results)),
        "key_group": pc.utf8_length(results["key"]),
    }
    columns = {
        field.name: results[field.name]
        if field.name in results.column_names
        else more.get(field.name, pa.nulls(len(results), field.type))
        for field in schema
    }
    return pa.table(columns).cast(schema)


def _needed(engine: ResponseUpdatesEngine, state: pa.Table, batch: pa.Table) -> pa.Table:
    """Return the rows of a state with sub-keys that a batch needs."""
    is_whole = pc.is_in(state["key"], value_set=pc.unique(engine.whole(batch)))
    named = set(zip(*(batch[n].to_pylist() for n in ("key", SUBSCRIBER.name)), strict=True))
    keys = set(batch["key"].to_pylist())
    rows = zip(*(state[n].to_pylist() for n in ("key", SUBSCRIBER.name)), strict=True)
    is_named = [row in named or (row[0] in keys and row[1] is None) for row in rows]
    return state.filter(pc.or_(is_whole, pa.array(is_named, pa.bool_())))


def _others(state: pa.Table, part: pa.Table) -> pa.Table:
    names = ("key", SUBSCRIBER.name)
    taken = set(zip(*(part[n].to_pylist() for n in names), strict=True))
    rows = zip(*(state[n].to_pylist() for n in names), strict=True)
    return state.filter(pa.array([row not in taken for row in rows], pa.bool_()))


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed."""

    seed: int
    how: str
    filters_right: bool
    sides: tuple[Logs, Logs]


def random_case(seed: int) -> Case:
    """Return logs with few keys, disorder, deletions, and rows without a reference."""
    random = Random(seed)
    spread = random.choice((0, 3, 20))

    def logs(keys: Sequence[str], names: Sequence[str]) -> Logs:
        return {
            partition: [
                (
                    random.choice(keys),
                    max(0, place + random.randint(-spread, spread)),
                    None
                    if random.random() < 0.25
                    else f"{partition}.{place}" + (f">{random.choice(names)}" if names else ""),
                )
                for place in range(random.choice((0, 3, 10, 30)))
            ]
            for partition in range(random.choice((1, 1, 2, 3)))
        }

    sides = logs(LEFT_KEYS, ("", *RIGHT_KEYS, "none")), logs(RIGHT_KEYS, ())
    return Case(seed, random.choice(("inner", "left")), random.random() < 0.3, sides)


def expected(updates: Sequence[RowUpdate]) -> list[tuple[Any, ...]]:
    """Return the rows of the engines. A row has its rank in the subscribers of a right record."""
    rows, rank = [], 0
    for number, one in enumerate(updates):
        rank = rank + 1 if number and updates[number - 1].cause is one.cause else 0
        deleted = one.left is None and one.right is None
        place = (one.cause.partition, one.cause.offset)
        lineage = (1, rank) if one.side else (0,)
        rows.append(
            (
                one.key,
                one.time,
                *place,
                lineage,
                one.cause.stream_time,
                deleted,
                one.left,
                one.right,
            )
        )
    return rows


def check_case(case: Case, *, cut: bool, restart: bool, wrong: str = "") -> set[str]:
    """Compare a case with the model after each batch. Return its rare branches."""
    chain = Chain(case.how, filters_right=case.filters_right, restarts=restart)
    model = Updates(case.how, filters_right=case.filters_right, wrong=wrong)
    random = Random(case.seed + 1)
    cuts = random_cuts(case.sides, random) if cut else whole(case.sides)
    for batch in batches(case.sides, cuts):
        given = [(side, one) for side in (RIGHT, LEFT) for one in batch.new[side]]
        random.shuffle(given)
        results = [values_of(row) for row in chain.take(given).to_pylist()]
        assert results == expected(model.process(given))
        held = chain.states[chain.joined].to_pylist()
        rows = {(row["key"], row["l"]) for row in held if row["side"] == LEFT}
        assert rows == {(key, row.value) for key, row in model.rows[LEFT].items()}
        # The state only has right rows that left rows reference.
        named = {(row["key"], row["r"]) for row in held if row["side"] == RIGHT}
        assert named == {
            (key, right.value)
            for key, row in model.rows[LEFT].items()
            if (right := model.rows[RIGHT].get(foreign_key_of(row.value or "") or "")) is not None
        }
    held = chain.states[chain.responses].to_pylist()
    subscribers = {(row["key"], row[SUBSCRIBER.name]) for row in held if row["side"] == LEFT}
    assert subscribers == {
        (names, key)
        for key, row in model.rows[LEFT].items()
        if (names := foreign_key_of(row.value or "")) is not None
    }
    assert len(held) == len(subscribers) + len(model.rows[RIGHT])
    return model.marks


def check_cuts(seed: int) -> set[str]:
    """Compare a case in one batch and cut, with and without restarts. Return its rare branches."""
    case, cuts = random_case(seed), ((False, False), (True, False), (True, True))
    return set().union(*(check_case(case, cut=cut, restart=restart) for cut, restart in cuts))


ALL_MARKS = {
    "no reference any more", "no right row, as before", "reference to a missing row",
    "reference to another key", "deletion of a missing row", "several subscribers",
    "an earlier right record",
}  # fmt: skip


@pytest.mark.slow
@cases(8, 3000)
def test_the_engines_equal_the_model_on_random_logs(number: int) -> None:
    """After each batch and restart, results, their order and all states equal the model."""
    assert marks_reached(range(number), check_cuts) == ALL_MARKS, (
        "the random logs no longer reach every rare branch"
    )


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["sides", "same", "time"])
def test_a_wrong_model_is_noticed(wrong: str) -> None:
    """The comparison fails for a model with another rule."""
    for seed in range(200):
        try:
            check_case(random_case(seed), cut=True, restart=False, wrong=wrong)
        except AssertionError:
            return
    pytest.fail(f"two hundred cases did not notice a wrong {wrong}")


def test_names_are_checked() -> None:
    """A column name that an engine uses is rejected."""
    with pytest.raises(IllegalArgument, match=r"column .offset. exists twice"):
        ResponseUpdatesEngine(
            pa.schema([("offset", pa.string())]), None, (MESSAGES, InputRows()), is_filtered=False
        )


def test_subscribers_of_a_record_are_in_the_order_of_their_key_bytes() -> None:
    """This is the order of Kafka's prefix scan. The order of subscriptions does not matter."""
    keys = [f"k{number}" for number in np.random.default_rng(1).permutation(300)]
    chain = Chain("inner")
    chain.take([(LEFT, Arrived(key, 1, 0, n, "l>x", 1)) for n, key in enumerate(keys)])
    updates = chain.take([(RIGHT, Arrived("x", 1, 0, n, f"r{n}", 1)) for n in range(2)])
    assert updates["key"].to_pylist() == sorted(keys) * 2
