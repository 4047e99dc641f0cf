"""A row-wise expression reads one record, is deterministic, and has a supported type."""

from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel import InvalidTopology, StreamsBuilder
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import lower_node
from oriel.pipeline.rows import RowSteps
from tests.pipeline.rows.decoded import decoded_columns

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "x DOUBLE, v STRING, a ARRAY<INT>"
EMPTY = decoded_columns(SCHEMA)
NOT_ROW_WISE = "is not row-wise"
CHANGES = "is not deterministic"

#: Each expression reads more than its own record.
SEVERAL = (
    "row_number() over (order by x) = 1",
    "sum(x) over () > 1",
    "lag(x) over (order by timestamp_ms) > 1",
    "sum(x) > 1",
    "count(*) > 1",
    "any(x > 1)",
    "x in (select 1)",
    "x = (select 1)",
    "exists(select 1)",
    "explode(a) > 1",
    "stack(2, true, false)",
    "window(timestamp_millis(timestamp_ms), '1 minute').start is null",
    "session_window(timestamp_millis(timestamp_ms), '1 minute').start is null",
)
#: Each expression can differ when the batch is read again or is cut differently.
UNSTEADY = (
    "rand() > .5",
    "rand(7) > .5",
    "uuid() > 'a'",
    "monotonically_increasing_id() > 1",
    "spark_partition_id() > 1",
    "input_file_name() > 'a'",
    "shuffle(a)[0] > 1",
    "exists(a, y -> y > rand())",
    "reflect('java.util.UUID', 'randomUUID') > 'a'",
    "timestamp_millis(timestamp_ms) > current_timestamp()",
    "timestamp_millis(timestamp_ms) > now() - interval 1 day",
    "timestamp_ms > unix_timestamp() * 1000",
    "localtimestamp() is null",
    "current_time() is null",
    "current_date > date'2020-01-01'",
    "date_add(curdate(), 1) is null",
    "v = current_user()",
    "timestamp_millis(timestamp_ms) > timestamp'now'",
    "timestamp_millis(timestamp_ms) > 'now'",
    "timestamp_millis(timestamp_ms) > DATE 'Today'",
    "to_date('yesterday') is null",
    "cast('tomorrow' as timestamp) is null",
)
#: Each expression depends on its record only.
ALLOWED = (
    "exists(transform(a, y -> y + 1), y -> y > 1)",
    "aggregate(filter(a, y -> y > 1), 0, (sum, y) -> sum + y) > 1",
    "xxhash64(v) % 10 = 1",
    "v = 'today'",
    "v in ('now', 'then')",
    "timestamp_millis(timestamp_ms) > timestamp'2020-01-01'",
    "hour(timestamp_millis(timestamp_ms)) < 12",
    "convert_timezone('Europe/Berlin', timestamp_ntz'2020-01-01 00:00:00') is null",
    "if(x is null, raise_error('no x'), true)",
)


@pytest.fixture
def build(spark: SparkSession) -> Callable[[KGroupedStream], RowSteps]:
    """Return a function that builds the steps of a stream into the store `s`."""
    empty = spark.createDataFrame([], EMPTY)
    return lambda grouped: RowSteps(empty, lower_node(grouped.origins[0]), "s")


def stream() -> KStream:
    """Return a stream of the test's topic in a new topology."""
    return StreamsBuilder().stream("t", SCHEMA)


def refused(build: Callable[[KGroupedStream], RowSteps], grouped: KGroupedStream) -> str:
    """Return the one line with which the steps are rejected."""
    with pytest.raises(InvalidTopology) as caught:
        build(grouped)
    message = str(caught.value)
    assert message == " ".join(message.split())
    return message


@pytest.mark.parametrize(
    ("condition", "problem"),
    [*((one, NOT_ROW_WISE) for one in SEVERAL), *((one, CHANGES) for one in UNSTEADY)],
)
def test_a_condition_depends_on_its_record_only(
    build: Callable[[KGroupedStream], RowSteps], condition: str, problem: str
) -> None:
    """An expression that reads anything more would depend on how batches are cut."""
    message = refused(build, stream().filter(condition).group_by_key())
    assert message.startswith(f"store 's', step filter({condition!r}): the condition {problem}")


@pytest.mark.parametrize("condition", ALLOWED)
def test_what_depends_on_the_record_is_allowed(
    build: Callable[[KGroupedStream], RowSteps], condition: str
) -> None:
    """Higher-order functions, hashes, time constants, and strings such as 'today' are allowed."""
    build(stream().filter(condition).group_by_key())


def test_the_column_at_fault_is_named(build: Callable[[KGroupedStream], RowSteps]) -> None:
    """The error names the wrong column among several steps and columns."""
    steps = stream().filter("x > 1").map_values("*", y="x + 1", id="uuid()").filter("y > 1")
    message = refused(build, steps.group_by_key())
    assert message.startswith(
        "store 's', step map_values('*', y='x + 1', id='uuid()'): column 'id' "
    )
    assert CHANGES in message


@pytest.mark.parametrize(
    ("key", "problem"),
    [("rand()", CHANGES), ("max(v)", NOT_ROW_WISE), ("explode(a)", NOT_ROW_WISE)],
)
def test_a_key_depends_on_its_record_only(
    build: Callable[[KGroupedStream], RowSteps], key: str, problem: str
) -> None:
    """The error has the number of the wrong component of the key."""
    message = refused(build, stream().group_by("v", key))
    assert message.startswith(f"store 's', step group_by(v, {key}): the key 2 {problem}")


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (lambda: F.rand() > F.lit(1), CHANGES),
        (lambda: F.col("x") > F.max("x"), NOT_ROW_WISE),
        (lambda: F.to_timestamp(F.lit("now")).isNull(), CHANGES),
        (lambda: F.expr("timestamp'now' is null"), CHANGES),
        (lambda: F.udf(lambda v: v > "b", "boolean").asNondeterministic()(F.col("v")), CHANGES),
    ],
    ids=["rand", "max", "to_timestamp", "timestamp", "udf"],
)
def test_columns_are_looked_at_like_text(
    build: Callable[[KGroupedStream], RowSteps], condition: Callable[[], Column], problem: str
) -> None:
    """A Spark Column is checked as SQL text is, and so is a nondeterministic function."""
    message = refused(build, stream().filter(condition()).group_by_key())
    assert message.startswith("store 's', step filter(")
    assert f"the condition {problem}" in message


def test_functions_of_python_are_allowed(build: Callable[[KGroupedStream], RowSteps]) -> None:
    """Functions per record and per batch are allowed without a declaration."""

    @F.pandas_udf("string")  # type: ignore[call-overload, untyped-decorator]
    def upper(texts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for text in texts:
            yield text.str.upper()

    lower = F.udf(str.lower, "string")
    steps = stream().filter(lower("v") != F.lit("b")).map_values(v=upper("v"))
    build(steps.group_by(lower("v")))


def test_a_column_of_the_same_step_may_be_used(
    build: Callable[[KGroupedStream], RowSteps],
) -> None:
    """Spark computes the columns of a step one after the other, and still from one record."""
    steps = build(stream().map_values(y="x + 1", z="y * 2").group_by_key())
    schema = steps.values  # noqa: PD011 - no pandas
    assert schema.names == ["y", "z"]
    message = refused(build, stream().map_values(y="rand()", z="y * 2").group_by_key())
    assert f"column 'y' {CHANGES}" in message


@pytest.mark.parametrize(
    ("expression", "type_name", "way_out"),
    [
        ("timestamp_millis(timestamp_ms)", "TIMESTAMP", "unix_millis"),
        ("array(timestamp_millis(timestamp_ms))", "ARRAY<TIMESTAMP>", "Cast it"),
        ("array()", "ARRAY<VOID>", "Cast it"),
        ("map()", "MAP<VOID,VOID>", "Cast it"),
        ("make_interval(1)", "INTERVAL", "Cast it"),
    ],
)
def test_a_column_that_can_not_go_on_is_named(
    build: Callable[[KGroupedStream], RowSteps], expression: str, type_name: str, way_out: str
) -> None:
    """The error has store, step, column, type and solution, although more steps follow."""
    steps = stream().map_values("x", t=expression).filter("x > 1").map_values("*", y="x")
    message = refused(build, steps.group_by_key())
    step = f"map_values('x', t={expression!r})"
    assert message.startswith(
        f"store 's', step {step}: column 't' cannot have the type {type_name}. "
    )
    assert way_out in message


def test_a_column_of_the_schema_that_can_not_go_on_is_named(spark: SparkSession) -> None:
    """The error names the stream."""
    grouped = StreamsBuilder().stream("t", "at TIMESTAMP").group_by_key()
    empty = spark.createDataFrame([], EMPTY.replace(SCHEMA, "at TIMESTAMP"))
    message = refused(lambda grouped: RowSteps(empty, lower_node(grouped.origins[0]), "s"), grouped)
    assert message.startswith(
        "store 's', stream('t'): column 'at' cannot have the type TIMESTAMP. "
    )


def test_a_time_may_be_computed_with(build: Callable[[KGroupedStream], RowSteps]) -> None:
    """Only the columns after the last step need a supported type."""
    steps = stream().map_values(t="timestamp_millis(timestamp_ms)").filter("hour(t) < 12")
    built = build(steps.map_values(t="unix_millis(t)", y="null").group_by("t"))
    schema = built.values  # noqa: PD011 - no pandas
    assert schema == pa.schema([("t", pa.int64()), ("y", pa.null())])


#: Invalid SQL -> the message.
BROKEN = {
    "x >": "Syntax error at or near end of input. (line 1, pos 3)",
    "v = 'a": "Syntax error at or near '''. (line 1, pos 4)",
    "(x > 1": "Syntax error at or near end of input. (line 1, pos 6)",
    "x > 1 && v == 'a'": "Syntax error at or near '&'. (line 1, pos 7)",
    "": "Syntax error, unexpected empty statement. (line 1, pos 0)",
    "upper(v": "Syntax error at or near end of input: missing ')'. (line 1, pos 7)",
    "\nx >\n": "Syntax error at or near end of input. (line 3, pos 0)",
    "cast(x as nope)": 'Unsupported data type "NOPE".',
    "nope(x)": (
        "Cannot resolve routine `nope` on search path [`system`.`builtin`, `system`.`session`, "
        "`spark_catalog`.`default`]. (line 1, pos 0)"
    ),
    "y > 1": (
        "A column, variable, or function parameter with name `y` cannot be resolved. Did you mean "
        "one of the following? [`a`, `v`, `x`, `key`]. (line 1, pos 0)"
    ),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.items())
def test_the_error_for_invalid_sql_is_readable(
    build: Callable[[KGroupedStream], RowSteps], text: str, said: str
) -> None:
    """The message has Spark's text and position, without codes, internal columns or line breaks."""
    message = refused(build, stream().filter(text).group_by_key())
    assert message == f"store 's', step filter({text!r}): {said}"
    message = refused(build, stream().map_values(c=text).group_by_key())
    assert message == f"store 's', step map_values(c={text!r}): {said}"
    message = refused(build, stream().group_by(text))
    assert message == f"store 's', step group_by({' '.join(text.split())}): {said}"


@pytest.mark.parametrize(
    ("stepped", "said"),
    [
        (
            lambda s: s.filter("x + 1"),
            r"step filter\('x \+ 1'\): the condition must be BOOLEAN",
        ),
        (lambda s: s.filter_not("v"), r"step filter_not\('v'\): the condition must be BOOLEAN"),
        (
            lambda s: s.split().branch("v").default_branch()["1"],
            r"filter\('v'\): the condition must be ",
        ),
        (lambda s: s.select_key("v", "a"), r"select_key\(v, a\): the key 2 cannot be ARRAY<INT>"),
        (lambda s: s.map("map(v, x)", "v"), r"the key cannot be MAP<STRING,DOUBLE>. Use its f"),
    ],
)
def test_what_spark_would_cast_is_refused(
    build: Callable[[KGroupedStream], RowSteps], stepped: Callable[[KStream], KStream], said: str
) -> None:
    """A condition must be BOOLEAN, and a key must not be an array or a map."""
    with pytest.raises(InvalidTopology, match=said):
        build(stepped(stream()).group_by_key())


def test_a_null_is_a_condition(build: Callable[[KGroupedStream], RowSteps]) -> None:
    """`null` has no type, and no record passes it."""
    build(stream().filter("null").group_by_key())


@pytest.mark.parametrize("key", ["a", "struct(x, v)"])
def test_a_struct_is_no_group(build: Callable[[KGroupedStream], RowSteps], key: str) -> None:
    """A key cannot be an array or a struct, but it can be their JSON."""
    with pytest.raises(InvalidTopology, match=r"the key cannot be .*to_json\(\.\.\.\)"):
        build(stream().group_by(key))
    build(stream().group_by(f"to_json({key})"))


def test_a_computed_column_needs_a_name(build: Callable[[KGroupedStream], RowSteps]) -> None:
    """An expression among the columns to keep is rejected."""
    message = refused(build, stream().map_values("x * 2").group_by_key())
    assert message == "map_values('x * 2'): a computed column needs a name, like x='x * 2'"
