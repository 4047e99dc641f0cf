"""A store's table remembers each part of its definition, and a changed part is an error."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

from oriel import Consumed, EmitStrategy, JoinWindows, TimeWindows, count, sum
from oriel.pipeline.commit.differences import FIXED_FIELDS, differences, settled, store_definition
from oriel.pipeline.language import (
    Columns,
    Filter,
    FlatMapValues,
    Functions,
    MapValues,
    Peek,
    Source,
    Step,
    schema_text,
)
from oriel.pipeline.lowered import (
    AggregateUpdates,
    ExpiringRecords,
    ForeignKey,
    GraceBuffer,
    Input,
    LookupKey,
    MergedStreams,
    Responses,
    Store,
    StreamJoin,
    StreamTableJoin,
    Subscriptions,
    TableChanges,
    TableRows,
    TableUpdates,
    VersionedRecords,
)
from oriel.pipeline.windows import KeptAggregate, NoWindows, TableJoin
from oriel.storage import LONG, IncompatibleStore, StoreDefinition

SOURCE = Source("t", "v INT")
OTHER = Source("u", "w INT")


def side(source: Source, steps: tuple[Step, ...]) -> Input:
    """Return an input of a join."""
    return Input(source, steps, is_grouped=False)


LEFT = side(SOURCE, (Filter("v > 1"),))
RIGHT = side(OTHER, ())


def made() -> dict[str, Any]:
    """Return an empty aggregate, as an initializer."""
    return {}


def other_made() -> dict[str, Any]:
    """Return an empty aggregate, as another initializer."""
    return {}


def aggregated(_key: str, _value: Any, old: Any) -> Any:
    """Return the old aggregate, as an aggregator."""
    return old


def other_aggregator(_key: str, _value: Any, old: Any) -> Any:
    """Return the old aggregate, as another aggregator."""
    return old


def merged(_key: str, left: Any, _right: Any) -> Any:
    """Return the left aggregate, as a merger."""
    return left


FUNCTIONS = Functions(made, (aggregated,), merged, "n BIGINT", "aggregate")
COLUMNS = Columns(({"n": count()},))


def store(*inputs: Input, aggregation: Any = COLUMNS) -> Store:
    """Return a store of tumbling windows."""
    windows = TimeWindows.of_size_and_grace(10, 5)
    read = inputs or (Input(SOURCE, (), ()),)
    return Store("s", read, windows, aggregation, EmitStrategy.on_window_update(), None)


def joined(join: Any) -> Store:
    """Return a store of a join's results."""
    return store(Input(join.left.source, (), (), join))


STREAMS = StreamJoin(LEFT, RIGHT, "inner", JoinWindows.of_time_difference_and_grace(5, 0))
MERGED = MergedStreams((LEFT, RIGHT), 5)
LOOKUP = StreamTableJoin(LEFT, RIGHT, "inner")
BUFFER = GraceBuffer(LEFT, 5)
VERSIONS = VersionedRecords(LEFT, 5, newest_only=True)
UPDATES = TableUpdates((LEFT, RIGHT), TableJoin("inner", 0, 1))
CHANGED = TableChanges((LEFT, RIGHT), TableJoin("inner", 0, 1))
UPDATED = AggregateUpdates(LEFT, COLUMNS, NoWindows())
EXPIRING = ExpiringRecords(LEFT, 5)
SUBSCRIBED = Subscriptions(LEFT)
RESPONSES = Responses(LEFT, RIGHT)
OTHER_LEFT, OTHER_RIGHT = side(SOURCE, (Filter("v > 2"),)), side(OTHER, (Filter("w > 0"),))
OTHER_WINDOWS = JoinWindows.of_time_difference_and_grace(6, 0)
PLAIN = Input(SOURCE, (), ())


def _of_input(**changed: Any) -> tuple[Store, Store]:
    return store(PLAIN), store(replace(PLAIN, **changed))


def _of_source(**changed: Any) -> tuple[Store, Store]:
    return store(PLAIN), store(Input(replace(SOURCE, **changed), (), ()))


def _of_step(one: Any, other: Any) -> tuple[Store, Store]:
    return store(Input(SOURCE, (one,), ())), store(Input(SOURCE, (other,), ()))


def _of_join(join: Any, **changed: Any) -> tuple[Store, Store]:
    return joined(join), joined(replace(join, **changed))


def _of_functions(**changed: Any) -> tuple[Store, Store]:
    return store(aggregation=FUNCTIONS), store(aggregation=replace(FUNCTIONS, **changed))


TWO = (PLAIN, Input(OTHER, (), (), stream=1))
FLAT = {"v": "array(1)"}
TWO_COLUMNS = Columns(({"n": count()}, {"m": count()}))
#: Class and field -> two stores that differ only in that field.
CHANGES: dict[tuple[type, str], tuple[Store, Store]] = {
    (Store, "inputs"): (store(*TWO, aggregation=TWO_COLUMNS),
                        store(*TWO[::-1], aggregation=TWO_COLUMNS)),
    (Store, "windows"): (store(), replace(store(), windows=TimeWindows.of_size_and_grace(10, 6))),
    (Store, "aggregation"): (store(), store(aggregation=Columns(({"n": sum("v")},)))),
    (Store, "emit"): (store(), replace(store(), emit=EmitStrategy.on_window_close())),
    (Store, "row_steps"): (replace(store(), row_steps=(Filter("n > 1"),)),
                           replace(store(), row_steps=(Filter("n > 2"),))),
    (Store, "mergeable"): (store(), replace(store(), mergeable=True)),
    (Input, "source"): _of_input(source=OTHER),
    (Input, "steps"): _of_input(steps=(Filter("v > 0"),)),
    (Input, "group_by"): _of_input(group_by=("v",)),
    (Input, "join"): _of_input(join=STREAMS),
    (Input, "stream"): (store(PLAIN, PLAIN, replace(PLAIN, stream=1), aggregation=TWO_COLUMNS),
                        store(PLAIN, *[replace(PLAIN, stream=1)] * 2, aggregation=TWO_COLUMNS)),
    (Input, "key_type"): _of_input(key_type=LONG),
    (Source, "topic"): _of_source(topic="u"),
    (Source, "schema"): _of_source(schema="v INT, w INT"),
    (Source, "consumed"): _of_source(consumed=Consumed(headers={"x-trace": "trace"})),
    (Filter, "condition"): _of_step(Filter("v > 0"), Filter("v > 1")),
    (Filter, "is_negated"): _of_step(Filter("v > 0"), Filter("v > 0", is_negated=True)),
    (Filter, "of_table"): _of_step(Filter("v > 0"), Filter("v > 0", of_table=True)),
    (MapValues, "keep"): _of_step(MapValues(("v",), {}), MapValues(("*",), {})),
    (MapValues, "columns"): _of_step(MapValues((), {"v": "1"}), MapValues((), {"v": "2"})),
    (FlatMapValues, "keep"): _of_step(FlatMapValues(("v",), FLAT), FlatMapValues(("*",), FLAT)),
    (FlatMapValues, "columns"): _of_step(
        FlatMapValues((), FLAT), FlatMapValues((), {"v": "array(2)"})
    ),
    (LookupKey, "key"): _of_step(LookupKey("v"), LookupKey("v + 1")),
    (ForeignKey, "key"): _of_step(ForeignKey(("v",)), ForeignKey(("v", "v"))),
    (ForeignKey, "keeps_columns"): _of_step(ForeignKey(("v",)),
                                            ForeignKey(("v",), keeps_columns=True)),
    (MapValues, "key"): _of_step(MapValues(("*",), {}, ("v",)), MapValues(("*",), {}, ("v + 1",))),
    (StreamJoin, "left"): _of_join(STREAMS, left=OTHER_LEFT),
    (StreamJoin, "right"): _of_join(STREAMS, right=OTHER_RIGHT),
    (StreamJoin, "how"): _of_join(STREAMS, how="left"),
    (StreamJoin, "windows"): _of_join(STREAMS, windows=OTHER_WINDOWS),
    (MergedStreams, "streams"): _of_join(MERGED, streams=(LEFT, OTHER_RIGHT)),
    (MergedStreams, "allowed_lateness_ms"): _of_join(MERGED, allowed_lateness_ms=6),
    (StreamTableJoin, "left"): _of_join(LOOKUP, left=OTHER_LEFT),
    (StreamTableJoin, "right"): _of_join(LOOKUP, right=OTHER_RIGHT),
    (StreamTableJoin, "how"): _of_join(LOOKUP, how="left"),
    (StreamTableJoin, "history_ms"): _of_join(LOOKUP, history_ms=5),
    (GraceBuffer, "left"): _of_join(BUFFER, left=OTHER_LEFT),
    (GraceBuffer, "grace_ms"): _of_join(BUFFER, grace_ms=6),
    (VersionedRecords, "left"): _of_join(VERSIONS, left=OTHER_LEFT),
    (VersionedRecords, "history_ms"): _of_join(VERSIONS, history_ms=6),
    (VersionedRecords, "newest_only"): _of_join(VERSIONS, newest_only=False),
    (TableUpdates, "tables"): _of_join(UPDATES, tables=(LEFT, OTHER_RIGHT)),
    (TableUpdates, "rows"): _of_join(UPDATES, rows=TableJoin("left", 0, 1)),
    (TableUpdates, "row_steps"): _of_join(UPDATES, row_steps=(Filter("v > 0"),)),
    (TableUpdates, "by_foreign_key"): _of_join(UPDATES, by_foreign_key=True),
    (TableChanges, "tables"): _of_join(CHANGED, tables=(OTHER_LEFT, RIGHT)),
    (TableChanges, "rows"): _of_join(CHANGED, rows=TableJoin("left", 0, 1)),
    (AggregateUpdates, "left"): _of_join(UPDATED, left=OTHER_LEFT),
    (AggregateUpdates, "aggregation"): _of_join(UPDATED, aggregation=FUNCTIONS),
    (AggregateUpdates, "windows"): _of_join(
        UPDATED, windows=TimeWindows.of_size_and_grace(10, 5)
    ),
    (AggregateUpdates, "row_steps"): _of_join(UPDATED, row_steps=(Filter("v > 0"),)),
    (AggregateUpdates, "others"): _of_join(UPDATED, others=(OTHER_RIGHT,)),
    (AggregateUpdates, "streams"): _of_join(UPDATED, streams=(1,)),
    (ExpiringRecords, "left"): _of_join(EXPIRING, left=OTHER_LEFT),
    (ExpiringRecords, "ttl_ms"): _of_join(EXPIRING, ttl_ms=6),
    (ExpiringRecords, "of_table"): _of_join(EXPIRING, of_table=True),
    (Subscriptions, "left"): _of_join(SUBSCRIBED, left=OTHER_LEFT),
    (Subscriptions, "each"): _of_join(SUBSCRIBED, each=True),
    (Responses, "each"): _of_join(RESPONSES, each=True),
    (Responses, "left"): _of_join(RESPONSES, left=OTHER_LEFT),
    (Responses, "right"): _of_join(RESPONSES, right=OTHER_RIGHT),
    (Columns, "of_stream"): (store(*TWO, aggregation=TWO_COLUMNS),
                             store(*TWO, aggregation=Columns(({"n": count(), "m": count()}, {})))),
    (Functions, "initializer"): _of_functions(initializer=other_made),
    (Functions, "aggregators"): _of_functions(aggregators=(other_aggregator,)),
    (Functions, "merger"): _of_functions(merger=other_aggregator),
    (Functions, "schema"): _of_functions(schema="n INT"),
    (Functions, "step"): _of_functions(step="cogroup"),
    (Functions, "subtractor"): _of_functions(subtractor=other_aggregator),
    (TableRows, "join"): (store(*TWO, aggregation=TableRows(TableJoin("inner", 0, 1))),
                          store(*TWO, aggregation=TableRows(TableJoin("left", 0, 1)))),
}  # fmt: skip
#: Further changes of inputs of joins.
CHANGES_OF_SIDES = [
    _of_join(STREAMS, right=side(Source("x", "w INT"), ())),
    _of_join(STREAMS, left=OTHER_LEFT),
    _of_join(LOOKUP, left=replace(LEFT, join=LOOKUP)),
]
#: Fields that can change, because they do not influence the rows.
FREE = {(Store, name) for name in ("name", "retention_ms", "publications", "final_table")}


def defined(of: Store) -> StoreDefinition:
    """Return the definition that the table of a store has."""
    names = of.aggregation.columns if isinstance(of.aggregation, Columns) else ["n"]
    types = dict.fromkeys(names, pa.int64())
    kept = [KeptAggregate("n", "count", None, None, (), has_lineage=False)] * of.mergeable
    return store_definition(of, types, "app", 64, kept=kept)


@pytest.mark.parametrize(
    "change",
    [*CHANGES.values(), *CHANGES_OF_SIDES],
    ids=[
        *(f"{of.__name__}.{name}" for of, name in CHANGES),
        "side source",
        "side steps",
        "side join",
    ],
)
def test_each_change_is_refused_with_the_difference(change: tuple[Store, Store]) -> None:
    """The message has both texts and the solution."""
    before, after = map(defined, change)
    recorded = StoreDefinition.from_json(before.to_json())
    assert settled(recorded, before) == before
    found = differences(recorded, after)
    assert found
    with pytest.raises(IncompatibleStore, match="oriel rebuild s") as refused:
        settled(recorded, after)
    assert [line for line in found if line not in str(refused.value)] == []


def test_no_field_is_forgotten() -> None:
    """Each field of a store, a step or a join is remembered, or is listed here as free."""
    classes = {owner for owner, _ in CHANGES}
    of_classes = {(one, each.name) for one in classes for each in fields(one) if each.compare}
    assert of_classes == CHANGES.keys() | FREE


def test_no_field_of_a_definition_is_forgotten() -> None:
    """Each field of a definition is compared, or is listed here as free."""
    free = {"name", "key_groups", "retention_ms", "application", "format", "generation"}
    assert {each.name for each in fields(StoreDefinition)} == FIXED_FIELDS.keys() | free


@pytest.mark.parametrize("old_format", [1, 2])
def test_what_an_older_format_does_not_say_is_no_difference(old_format: int) -> None:
    """Fields that an older format lacks are filled in."""
    definition = defined(store(Input(SOURCE, (Filter("v > 0"),), ())))
    older = replace(definition, format=old_format, sources=None, steps=None, functions=None)
    assert settled(older, definition) == definition


def test_who_is_shown_records_may_come_and_go() -> None:
    """`peek` changes no row, so it is not a difference at any place of a chain."""

    def peeked(*peeks: Step) -> Store:
        left, right = side(SOURCE, (*peeks, Filter("v > 1"))), side(OTHER, peeks)
        lookup = StreamTableJoin(left, right, "inner")
        return store(Input(SOURCE, (*peeks, MapValues(("v",), {}), *peeks), (), lookup))

    first, then = defined(peeked()), defined(peeked(Peek(print)))
    assert differences(first, then) == differences(then, first) == []


def test_what_the_table_knows_best_stays() -> None:
    """The key groups and the generation of the table stay."""
    definition = defined(store())
    recorded = replace(definition, key_groups=7, generation=3, retention_ms=5)
    assert settled(recorded, definition) == replace(definition, key_groups=7, generation=3)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a  long,b: array< integer >", "a BIGINT, b ARRAY<INT>"),
        ("`a b` string", "`a b` STRING"),
        ("A struct<Bb: byte>, m map<string,real>", "A STRUCT<Bb TINYINT>, m MAP<STRING, FLOAT>"),
    ],
)
def test_one_schema_has_one_text(written: str, text: str) -> None:
    """Spaces, colons and aliases of types do not change the text of a schema. Column names do."""
    assert schema_text(written) == schema_text(text) == text


def _lambda() -> Callable[..., Any]:
    return lambda _key, _value, old: old


class Caller:
    """A callable object."""

    def __call__(self, *_given: Any) -> None:
        """Do nothing."""


def test_any_function_has_a_name() -> None:
    """Lambdas and callable objects have a name in a definition."""
    functions = replace(FUNCTIONS, aggregators=(_lambda(), Caller()), merger=None)
    assert defined(store(aggregation=functions)).functions == (
        "initializer made", "aggregator _lambda.<locals>.<lambda>", "aggregator Caller",
        "schema n BIGINT",
    )  # fmt: skip
