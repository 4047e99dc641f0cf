"""Updates of two joined tables: by example, against a slow model, and in a topology."""

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel import IllegalArgument, InvalidTopology, StreamsBuilder, TimeWindows
from oriel.pipeline.windows import LEFT, RIGHT, TableUpdatesEngine
from oriel.pipeline.windows.joins.sides import How
from oriel.testing import Record, TopologyTestDriver
from tests.slow_joins import Arrived, arrivals
from tests.windows.join_batches import batches, random_cuts, saved_and_loaded, to_table, whole
from tests.windows.test_table_join_properties import (
    CARRIED,
    LEFT_VALUES,
    RIGHT_VALUES,
    Case,
    random_case,
)

CASES = 120
#: Updates follow the batches; no clock holds them back.
CLOCKS = (0, 0)

#: Side, value, time; the key is always "A" and the partition 0.
Step = tuple[int, str | None, int]
#: One batch of the model: side and record of each.
Arrivals = Sequence[tuple[int, Arrived]]
#: Left value, right value, timestamp.
Update = tuple[str | None, str | None, int]

EXAMPLE: list[Step] = [(LEFT, "a", 10), (RIGHT, "b", 5), (LEFT, "c", 3), (RIGHT, "d", 20)]


def arrived(steps: Sequence[Step]) -> Arrivals:
    """Put steps behind the clocks of their sides."""
    logs: tuple[list[Any], list[Any]] = ([], [])
    for side, value, time in steps:
        logs[side].append(("A", time, value))
    coming = [iter(arrivals({0: log})) for log in logs]
    return [(side, next(coming[side])) for side, _, _ in steps]


def batch_of(engine: TableUpdatesEngine, given: Arrivals) -> pa.Table:
    """Records of both sides as a batch, in their order."""
    rows = [to_table(engine.record_schema, [one], "lr"[side], side=side) for side, one in given]
    return pa.concat_tables([engine.record_schema.empty_table(), *rows])


def engine_of(how: How) -> TableUpdatesEngine:
    """An engine with one value column a side, that carries the key group."""
    return TableUpdatesEngine(how, LEFT_VALUES, RIGHT_VALUES, CARRIED)


def updates_of(how: How, given: Sequence[Sequence[Step]]) -> list[list[Update]]:
    """The joined rows after the steps of each batch."""
    engine = engine_of(how)
    state = engine.empty_state()
    left = arrived([step for steps in given for step in steps])
    updates = []
    for steps in given:
        result = engine.process(state, batch_of(engine, left[: len(steps)]), CLOCKS)
        left, state = left[len(steps) :], result.state
        rows = result.results.to_pylist()
        assert result.filtered == len(steps) - len(rows)
        updates.append([(row["l"], row["r"], row["timestamp_ms"]) for row in rows])
    return updates


def test_each_record_tells_the_row_after_it_with_the_greater_time() -> None:
    """Semantics section 5, the first one without a partner; one batch tells every update, too."""
    updates = updates_of("inner", [[step] for step in EXAMPLE])
    assert updates == [[], [("a", "b", 10)], [("c", "b", 5)], [("c", "d", 20)]]
    assert updates_of("inner", [EXAMPLE]) == [[("a", "b", 10), ("c", "b", 5), ("c", "d", 20)]]


def test_a_left_and_an_outer_join_tell_rows_without_a_partner() -> None:
    """A left join tells of left rows alone, an outer join of right ones too."""
    steps: list[list[Step]] = [[(RIGHT, "b", 5)], [(LEFT, "a", 3)]]
    assert updates_of("left", steps) == [[], [("a", "b", 5)]]
    assert updates_of("outer", steps) == [[(None, "b", 5)], [("a", "b", 5)]]
    assert updates_of("left", steps[::-1]) == [[("a", None, 3)], [("a", "b", 5)]]


@pytest.mark.parametrize(
    ("how", "alone"), [("inner", []), ("left", [("a", None, 10)]), ("outer", [("a", None, 10)])]
)
def test_a_deletion_tells_what_is_left(how: How, alone: list[Update]) -> None:
    """Without a right value a left row goes on alone; after both nothing does."""
    both: list[Step] = [(LEFT, "a", 10), (RIGHT, "b", 5)]
    updates = updates_of(how, [both, [(RIGHT, None, 7)], [(LEFT, None, 8)]])
    assert (updates[0][-1], updates[1:]) == (("a", "b", 10), [alone, []])


def test_a_deleted_row_lends_no_time() -> None:
    """After a deletion at 50 the left record's own time counts, 3."""
    steps: list[list[Step]] = [[(RIGHT, "b", 5)], [(RIGHT, None, 50)], [(LEFT, "a", 3)]]
    assert updates_of("outer", steps)[-1] == [("a", None, 3)]


def test_the_cut_of_both_topics_against_each_other_matters() -> None:
    """In one batch the deletion at 15 comes before the right record at 20, as the clocks say."""
    deletion: Step = (LEFT, None, 15)
    assert updates_of("inner", [[*EXAMPLE, deletion]]) == [[("a", "b", 10), ("c", "b", 5)]]
    assert updates_of("inner", [EXAMPLE, [deletion]])[0][-1] == ("c", "d", 20)


def test_a_result_has_the_place_of_its_record() -> None:
    """Partition, offset and stream time are the record's; its side tells equal places apart."""
    engine = engine_of("inner")
    first: Arrivals = [
        (RIGHT, Arrived("A", 5, 0, 7, "b", 40)),
        (LEFT, Arrived("A", 10, 2, 7, "a", 30)),
        (LEFT, Arrived("A", 3, 2, 8, "c", 50)),
    ]
    results = engine.process(engine.empty_state(), batch_of(engine, first), CLOCKS).results
    assert [tuple(row.values()) for row in results.to_pylist()] == [
        ("A", 10, 0, 7, RIGHT, 40, "a", "b"),
        ("A", 5, 2, 8, LEFT, 50, "c", "b"),
    ]


def test_names_and_kinds_are_checked() -> None:
    """A name that is taken is refused, and a kind that is unknown."""
    with pytest.raises(IllegalArgument, match="column 'side' is there twice"):
        TableUpdatesEngine("inner", LEFT_VALUES, pa.schema([("side", pa.string())]))
    with pytest.raises(IllegalArgument, match="one of inner, left, outer, not 'right'"):
        TableUpdatesEngine("right", LEFT_VALUES, RIGHT_VALUES)  # type: ignore[arg-type]


class Model:
    """The slow model: two dicts, record by record."""

    def __init__(self, how: str, wrong: str = "") -> None:
        """Begin with empty tables; ``wrong`` names a rule to break, for the canary."""
        self.how, self.wrong = how, wrong
        self.tables: tuple[dict[str, Arrived], dict[str, Arrived]] = ({}, {})
        self.marks: set[str] = set()

    def process(self, given: Arrivals) -> list[Any]:
        """Return the results of one batch."""
        results = []
        for side, record in sorted(given, key=self._place):
            self._take(side, record)
            rows = [table.get(record.key) for table in self.tables]
            values = [None if row is None else row.value for row in rows]
            has_row = {"inner": None not in values, "left": values[0], "outer": any(values)}
            if has_row[self.how]:
                place = (record.partition, record.offset, side, record.stream_time)
                results.append((record.key, self._time(side, record), *place, *values))
                self.marks |= {f"{self.how}: no {'lr'[n]}" for n in (0, 1) if values[n] is None}
                if record.value is None:
                    self.marks.add(f"{self.how}: told after a deletion")
        return results

    def _place(self, one: tuple[int, Arrived]) -> tuple[int, int, int, int]:
        side, record = one
        time = record.time if self.wrong == "order" else record.stream_time
        return time, side, record.partition, record.offset

    def _take(self, side: int, record: Arrived) -> None:
        table = self.tables[side]
        had = table.get(record.key)
        if had is not None and had.time > record.time:
            self.marks.add("a newer record with an earlier time")
        if had is not None and had.partition != record.partition:
            self.marks.add("a key of several partitions")
        if record.value is not None:
            table[record.key] = record
        elif self.wrong != "deletion" and table.pop(record.key, None) is None:
            self.marks.add("a deletion of nothing")

    def _time(self, side: int, record: Arrived) -> int:
        other = self.tables[1 - side].get(record.key)
        if other is None or self.wrong == "time":
            return record.time
        self.marks.add("the other's time" if record.time < other.time else "the record's time")
        return max(record.time, other.time)

    def state(self) -> set[tuple[Any, ...]]:
        """Side, key, value, time of every row."""
        sides = enumerate(self.tables)
        return {(side, *row) for side, table in sides for row in map(_row, table.values())}


def _row(record: Arrived) -> tuple[Any, ...]:
    return record.key, record.value, record.time


def arrivals_of(case: Case, random: Random, *, cut: bool) -> list[Arrivals]:
    """The case's records batch by batch, either side first within a batch."""
    cuts = random_cuts(case.sides, random) if cut else whole(case.sides)
    return [
        [(side, record) for side in random.sample((LEFT, RIGHT), 2) for record in batch.new[side]]
        for batch in batches(case.sides, cuts)
    ]


def state_rows(state: pa.Table) -> set[tuple[Any, ...]]:
    """The state as the model has it."""
    rows = state.to_pylist()
    assert all(row["key_group"] == len(row["key"]) and not row["null_value"] for row in rows)
    assert all(row["rl"[row["side"]]] is None for row in rows), "a row has its own side's values"
    return {(r["side"], r["key"], r["lr"[r["side"]]], r["timestamp_ms"]) for r in rows}


def check_case(case: Case, *, cut: bool, restart: bool, wrong: str = "") -> set[str]:
    """Compare one case with the model, batch by batch; return the rare branches it reached."""
    engine, model = engine_of(case.how), Model(case.how, wrong)
    state = engine.empty_state()
    for given in arrivals_of(case, Random(case.seed + 1), cut=cut):
        result = engine.process(state, batch_of(engine, given), CLOCKS)
        state = saved_and_loaded(result.state) if restart else result.state
        results = [tuple(row.values()) for row in result.results.to_pylist()]
        assert results == model.process(given)
        assert result.filtered == len(given) - len(results)
        assert state_rows(state) == model.state()
        assert len(state) == len(model.state())
    return model.marks


ALL_MARKS = {
    "a newer record with an earlier time", "a key of several partitions", "a deletion of nothing",
    "the other's time", "the record's time", "left: no r", "outer: no l", "outer: no r",
    "left: told after a deletion", "outer: told after a deletion",
}  # fmt: skip


def test_the_engine_equals_the_model_on_random_logs() -> None:
    """Results, their order, drops and state are the model's after each batch, across restarts."""
    reached: set[str] = set()
    for seed in range(CASES):
        try:
            for cut, restart in ((False, False), (True, False), (True, True)):
                reached |= check_case(random_case(seed), cut=cut, restart=restart)
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


@pytest.mark.parametrize("wrong", ["order", "deletion", "time"])
def test_a_wrong_model_is_noticed(wrong: str) -> None:
    """The canary: a model with another rule disagrees with the engine, so the alarm works."""
    for seed in range(100):
        try:
            check_case(random_case(seed), cut=True, restart=False, wrong=wrong)
        except AssertionError:
            return
    pytest.fail(f"a hundred cases did not notice a wrong {wrong}")


def keyed(case: Case) -> list[Arrivals]:
    """The records of each side, a key's all in one partition, as a producer would place them."""
    records: list[Arrivals] = []
    for side, logs in enumerate(case.sides):
        log = [record for given in logs.values() for record in given]
        keys = sorted({key for key, _, _ in log})
        placed = {p: [entry for entry in log if entry[0] == key] for p, key in enumerate(keys)}
        records.append([(side, record) for record in arrivals(placed)])
    return records


def pieces(random: Random, records: Arrivals, most: int) -> list[Arrivals]:
    """Cut records into pieces."""
    ends = [0]
    while ends[-1] < len(records):
        ends.append(ends[-1] + random.randint(1, most))
    return [records[start:end] for start, end in itertools.pairwise(ends)]


def results_of(how: How, batches_given: Sequence[Arrivals]) -> list[tuple[Any, ...]]:
    """All results, by place: batches of several partitions have no order between them."""
    engine = engine_of(how)
    state, results = engine.empty_state(), []
    for given in batches_given:
        result = engine.process(state, batch_of(engine, given), CLOCKS)
        state = saved_and_loaded(result.state)
        results += [tuple(row.values()) for row in result.results.to_pylist()]
    return sorted(results, key=lambda row: (row[4], *row[2:4]))


def test_any_cut_of_one_sides_records_gives_the_same_results() -> None:
    """Between the same records of the other side, batch cuts and restarts don't matter."""
    compared = 0
    for seed in range(60):
        case, random = random_case(seed), Random(seed)
        left, right = (pieces(random, records, 6) for records in keyed(case))
        turns = sorted([*left, *right], key=lambda _: random.random())
        recut = [piece for turn in turns for piece in pieces(random, turn, 3)]
        once = results_of(case.how, turns)
        assert results_of(case.how, recut) == once, f"seed {seed}"
        compared += len(once)
    assert compared > 500, "too few results to compare"


def driver_of(how: str) -> TopologyTestDriver:
    """Windows of 10 ms that count the updates of two joined tables."""
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "price INT"), builder.table("stock", "pieces INT")
    kinds = {"inner": prices.join, "left": prices.left_join, "outer": prices.outer_join}
    grouped = kinds[how](stock).to_stream().group_by_key()
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5)).count().materialize("updates")
    return TopologyTestDriver(builder.build())


def price(value: int | None, time_ms: int, key: str = "A") -> Record:
    """One record of prices; None deletes."""
    return Record(key, None if value is None else {"price": value}, time_ms)


def pieces_of(value: int | None, time_ms: int, key: str = "A") -> Record:
    """One record of the stock; None deletes."""
    return Record(key, None if value is None else {"pieces": value}, time_ms)


def counts(driver: TopologyTestDriver) -> dict[tuple[str, int], int]:
    """The counts by key and window start."""
    rows = driver.window_store("updates").all()
    return {(row.key, row.window_start_ms): row.value["count"] for row in rows}


@pytest.mark.parametrize(
    ("how", "counted"),
    [
        ("inner", {("A", 0): 1, ("A", 10): 1, ("A", 20): 1}),
        ("left", {("A", 0): 2, ("A", 10): 1, ("A", 20): 2}),
        ("outer", {("A", 0): 2, ("A", 10): 1, ("A", 20): 2, ("B", 10): 1}),
    ],
)
def test_updates_of_joined_tables_are_counted_in_windows(
    how: str, counted: dict[tuple[str, int], int]
) -> None:
    """Updates of both, a right row alone and two deletions; without a row: filtered."""
    driver = driver_of(how)
    driver.pipe_input("prices", price(1, 6))
    driver.pipe_input("stock", [pieces_of(4, 5), pieces_of(5, 10)])
    driver.pipe_input("prices", price(2, 20))
    # The deletion tells of the left row alone, which is of 20.
    driver.pipe_input("stock", [pieces_of(None, 11), pieces_of(7, 12, "B")])
    driver.pipe_input("prices", price(None, 21))
    assert counts(driver) == counted
    counters, applied = driver.counters("updates"), sum(counted.values())
    assert (counters.applied, counters.filtered) == (applied, 7 - applied)
    assert (counters.input, counters.dropped, counters.late) == (7, 0, 0)


def test_a_window_is_final_when_both_topics_are_past_it() -> None:
    """A count up to 10 with grace 5 waits for both clocks; an update of it is late then."""
    driver = driver_of("outer")
    driver.pipe_input("prices", [price(1, 5), price(1, 100, "Z")])
    driver.pipe_input("stock", pieces_of(1, 5, "B"))
    assert not any(row.final for row in driver.window_store("updates").fetch_all(0, 0))
    driver.pipe_input("stock", pieces_of(1, 6))
    assert counts(driver)["A", 0] == 2
    driver.pipe_input("stock", [pieces_of(1, 100, "Z"), pieces_of(1, 7)])
    assert all(row.final for row in driver.window_store("updates").fetch_all(0, 0))
    assert counts(driver)["A", 0] == 2


def test_an_updates_value_has_the_columns_of_both_tables() -> None:
    """Updates are grouped by a column of either table, with or without a partner."""
    builder = StreamsBuilder()
    prices = builder.table("prices", "price INT, shop STRING")
    updates = prices.left_join(builder.table("stock", "pieces INT")).to_stream()
    updates.group_by("shop").reduce(lambda _, new: new).materialize("newest")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", Record("A", {"price": 1, "shop": "x"}, 3))
    driver.pipe_input("stock", pieces_of(4, 9))
    row = driver.key_value_store("newest").get("x")
    assert row is not None
    assert (row.value, row.timestamp_ms) == ({"price": 1, "shop": "x", "pieces": 4}, 9)


def test_a_table_of_one_topic_gives_its_records() -> None:
    """Without a join to_stream is the plain stream; a deletion is a record without a value."""
    builder = StreamsBuilder()
    table = builder.table("prices", "price INT")
    table.to_stream().group_by_key().count().materialize("all")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", [price(1, 3), price(2, 2), price(None, 4)])
    rows = driver.key_value_store("all").all()
    assert [(row.key, row.value) for row in rows] == [("A", {"count": 2})]
    assert [letter["reason"] for letter in driver.dead_letters("all")] == ["null-value"]


def test_what_can_not_be_joined_is_told_with_a_way_out() -> None:
    """A column that both have is renamed."""
    builder = StreamsBuilder()
    left, right = builder.table("a", "v INT"), builder.table("b", "v INT")
    updates = left.outer_join(right).to_stream()
    step = r"outer_join\(table 'b'\).to_stream\(\)"
    updates.group_by_key().count().materialize("s")
    with pytest.raises(
        InvalidTopology, match=rf"'s', {step}: column 'v' .*rename columns with map"
    ):
        TopologyTestDriver(builder.build())
