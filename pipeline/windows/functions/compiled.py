"""Functions of users that are compiled into one loop over columns.

Plain functions (see ``inlining``) are inlined into a loop over the records of *runs*. The records
of a run are added to one aggregate, in order. The loop has one variable per column instead of
dicts, and calls no function per record. If a function raises on a record or returns None, the loop
skips the run. The engine then computes the run with the functions themselves, so all errors and
removals are the same as without the loop.
"""

import ast
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, python_values
from oriel.pipeline.windows.functions.converters import converter
from oriel.pipeline.windows.functions.inlining import Inliner, Record, Result
from oriel.pipeline.windows.functions.sources import Bound, NotPlain
from oriel.pipeline.windows.functions.user_functions import Rejected, UserFunctions

#: The functions that add a record to an aggregate: the aggregator, or for sessions the merger and
#: then the aggregator.
Step = Literal["aggregate", "merge and aggregate"]


class Stop(Exception):
    """Raised by the loop if the functions themselves must compute a run."""


class RunAggregates(NamedTuple):
    """The aggregates of runs.

    Attributes:
        aggregates: The aggregate after each run.
        skipped: True for each run that the functions themselves must compute.
    """

    aggregates: pa.Table
    skipped: Flags


@dataclass(frozen=True)
class CompiledFunctions:
    """The loop of a ``UserFunctions``.

    Attributes:
        types: The columns of the aggregate.
        source: The source of the loop.
        columns: The columns of the value that the loop reads.
        reads_key: True if the loop reads the key.
        constants: The globals of the loop, which are constants of the functions.
        bound: The outer names of the functions whose values are compiled into the loop.
        initial: The aggregate of a new run, one value per column. None for a reduce.
    """

    types: Mapping[str, pa.DataType]
    source: str
    columns: tuple[str, ...]
    reads_key: bool
    constants: Mapping[str, Any]
    bound: tuple[Bound, ...]
    initial: tuple[Any, ...] | None

    def is_valid(self) -> bool:
        """Return whether no global and no outer variable of the functions has another value."""
        return all(name.is_unchanged() for name in self.bound)

    def folded(
        self,
        values: pa.Table,
        sizes: Ints,
        keys: pa.Array | pa.ChunkedArray,
        aggregates: pa.Table,
        start: Ints,
    ) -> RunAggregates:
        """Add the records of each run to its aggregate.

        Args:
            values: The values of the records, one run after the other. None of them is null.
            sizes: The number of records of each run, at least 1.
            keys: The key of each run.
            aggregates: Aggregates as columns.
            start: For each run, the row in ``aggregates`` that it continues, or -1 for a new one.
        """
        read = [_values(values[name]) for name in self.columns]
        is_new = (start < 0).tolist()
        rows = start.tolist()
        starts = []
        for number, name in enumerate(self.types):
            # A new run reads the entry with the index -1.
            own = _values(aggregates[name])
            own.append(None if self.initial is None else self.initial[number])
            starts.append([own[row] for row in rows])
        # The source names converters and initial values by the index of the column, because the
        # name of a column can be no valid name in Python.
        namespace = {**self.constants, "Stop": Stop, "islice": islice, "deque": deque}
        for number, (name, column_type) in enumerate(self.types.items()):
            namespace[f"c{number}"] = converter(column_type, name).convert
            namespace[f"i{number}"] = None if self.initial is None else self.initial[number]
        # The source has only expressions of the functions, which run in this process anyway.
        exec(_code(self.source), namespace)  # noqa: S102
        of_run = [sizes.tolist(), is_new, *starts]
        if self.reads_key:
            of_run.append(keys.to_pylist())
        results, skipped = namespace["loop"](range(len(values)), read, zip(*of_run, strict=True))
        is_skipped = np.zeros(len(sizes), dtype=np.bool_)
        is_skipped[skipped] = True
        # The loop returns None for each column of a skipped run, and the caller replaces the nulls.
        columns = [
            pa.array(column, column_type)
            for column, column_type in zip(results, self.types.values(), strict=True)
        ]
        return RunAggregates(pa.table(columns, schema=aggregates.schema), is_skipped)


@lru_cache(maxsize=100)
def _code(source: str) -> CodeType:
    # All batches execute the same source, so it is compiled once.
    with warnings.catch_warnings():
        # Python emitted these warnings when it compiled the functions themselves.
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(source, "<compiled fold>", "exec")


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the same values as ``python_values``. For numbers, numpy is faster."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return python_values(column)
    if not column.null_count:
        return list(column.to_numpy().tolist())
    # With a null, ``to_numpy`` would return doubles, which round 2**53 + 1 to 2**53.
    numbers: list[Any] = column.fill_null(0).to_numpy().tolist()
    for row in np.flatnonzero(column.is_null().to_numpy()).tolist():
        numbers[row] = None
    return numbers


def compile_functions(
    functions: UserFunctions, values: pa.Schema, step: Step = "aggregate"
) -> CompiledFunctions:
    """Compile the functions of a ``UserFunctions``.

    Args:
        functions: The functions.
        values: The columns of the values.
        step: The functions that add a record to an aggregate.

    Raises:
        NotPlain: A function cannot be compiled. The message is the reason.
    """
    if functions.subtractor is not None:
        message = "an aggregation of a table also subtracts rows"
        raise NotPlain(message)
    if any(each is not functions.aggregators[0] for each in functions.aggregators):
        message = "a cogroup has several aggregators"
        raise NotPlain(message)
    for name, column_type in functions.types.items():
        _reject_nested(f"the column {name!r} of the aggregate", column_type)
    try:
        compiled = _Loop(functions, values, step).compiled()
        # If Python rejects the source, the functions are called. The check is here because an error
        # in a batch would stop the query.
        _code(compiled.source)
    except (RecursionError, SyntaxError, ValueError) as error:
        # For example, Python cannot convert an integer with many digits to text.
        raise NotPlain(str(error)) from error
    return compiled


def _reject_nested(column: str, column_type: pa.DataType) -> None:
    if pa.types.is_nested(column_type):
        message = f"{column} is of the type {column_type}, which functions can change in place"
        raise NotPlain(message)


class _Loop:
    """Generates the source of the loop.

    The variables v0, v1, ... are the columns of the value, and a0, a1, ... of the aggregate.
    """

    def __init__(self, functions: UserFunctions, values: pa.Schema, step: Step) -> None:
        self._fold, self._values = functions, values
        # A reduce has no initial aggregate. Its merge of nothing and one session is this session,
        # so the merger is not called.
        self._merges = step == "merge and aggregate" and functions.initializer is not None
        self._inliner = Inliner()
        self._names = list(functions.types)

    def compiled(self) -> CompiledFunctions:
        """Return the compiled functions."""
        initial = self._initial()
        body = self._body()
        # A column that no expression reads is not converted to Python values. A reduce stores the
        # first value, so it reads all columns. No variable of a function begins with ``v``.
        nodes = ast.walk(ast.parse("\n".join(body)))
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        numbers = [n for n in range(len(self._values)) if f"v{n}" in read or initial is None]
        for number in numbers:
            field = self._values.field(number)
            _reject_nested(f"the column {field.name!r} of the value", field.type)
        return CompiledFunctions(
            types=dict(self._fold.types),
            source="\n".join(self._source(body, numbers, reads_key="key" in read)),
            columns=tuple(self._values.names[number] for number in numbers),
            reads_key="key" in read,
            constants=self._inliner.constants,
            bound=tuple(self._inliner.bound),
            initial=initial,
        )

    def _initial(self) -> tuple[Any, ...] | None:
        """Return the aggregate of a new run. A plain initializer always returns the same one."""
        initializer = self._fold.initializer
        if initializer is None:
            return None
        # The statements are not used. The call rejects an initializer that is not plain, and binds
        # the outer names that it reads, so one result is valid for all runs. The four types have no
        # source and always return the same value.
        if initializer not in (int, float, str, bool):
            self._inliner.inline(initializer, (), lambda _: [])
        try:
            initial = self._fold.initial()
        except Rejected as error:
            message = f"the initializer raises: {error}"
            raise NotPlain(message) from error
        if initial is None:
            message = "the initializer returns None"
            raise NotPlain(message)
        return tuple(initial.values()) if self._fold.has_dicts else (initial,)

    def _source(self, body: list[str], columns: list[int], *, reads_key: bool) -> list[str]:
        values = ", ".join(f"v{number}" for number in columns) or "_"
        numbers = range(len(self._names))
        of_run = ["size", "fresh", *(f"a{n}" for n in numbers), *(["key"] if reads_key else [])]
        # All runs share one iterator, from which ``islice`` reads the records of one run. So no
        # column is copied per run.
        records = {0: "iter(rows)", 1: "iter(columns[0])"}.get(len(columns), "zip(*columns)")
        first = []
        if self._fold.initializer is None:
            # A reduce stores the first value without a call.
            values_of = {name: f"v{n}" for n, name in enumerate(self._values.names)}
            first = ["if fresh:", f"    {values} = next(run)"]
            first += [f"    {line}" for line in self._set("a", values_of)]
        # If a run is skipped, ``deque`` reads its remaining records. Otherwise, the next run would
        # begin with them.
        return [
            "def loop(rows, columns, runs):",
            *(f"    o{n} = []" for n in numbers),
            "    skipped = []",
            f"    records = {records}",
            f"    for number, ({', '.join(of_run)},) in enumerate(runs):",
            "        run = islice(records, size)",
            "        try:",
            *(f"            {line}" for line in first),
            f"            for {values} in run:",
            *(f"                {line}" for line in body),
            "        except Exception:",
            "            skipped.append(number)",
            "            deque(run, 0)",
            *(f"            a{n} = None" for n in numbers),
            *(f"        o{n}.append(a{n})" for n in numbers),
            f"    return ({''.join(f'o{n}, ' for n in numbers)}), skipped",
        ]

    def _body(self) -> list[str]:
        """Return the statements that add a record."""
        value = Record({name: f"v{number}" for number, name in enumerate(self._values.names)})

        # A ``return`` of the aggregator ends the record, so it becomes ``continue`` of the loop
        # over the records.
        def aggregated(result: Result) -> list[str]:
            return [*self._set("a", result), "continue"]

        if not self._merges:
            return self._inliner.inline(
                self._fold.aggregators[0], ("key", value, self._aggregate("a")), aggregated
            )
        if self._fold.merger is None:
            message = "the aggregation has no merger"
            raise NotPlain(message)

        # A ``return`` of the merger jumps to the aggregator. Python has no such jump, so the merger
        # is in a loop that runs once, and the ``return`` becomes ``break``.
        def merged(result: Result) -> list[str]:
            return [*self._set("m", result), "break"]

        # The first record of a new session joins no session, so the merger is not called for it.
        # Kafka Streams calls the merger also for one session, with a new aggregate as the left one.
        merge = self._inliner.inline(
            self._fold.merger, ("key", self._aggregate("i"), self._aggregate("a")), merged
        )
        variables = range(len(self._names))
        return [
            "if fresh:",
            "    fresh = False",
            *(f"    m{n} = a{n}" for n in variables),
            "else:",
            "    while True:",
            *(f"        {line}" for line in merge),
            *self._inliner.inline(
                self._fold.aggregators[0], ("key", value, self._aggregate("m")), aggregated
            ),
        ]

    def _aggregate(self, prefix: str) -> Record | str:
        """Return the variables of an aggregate, as one value or as a record of the functions."""
        if not self._fold.has_dicts:
            return f"{prefix}0"
        fields = {name: f"{prefix}{number}" for number, name in enumerate(self._names)}
        return Record(fields, writable=True)

    def _set(self, prefix: str, result: Result) -> list[str]:
        """Return the statements that set an aggregate to a result, in the declared types."""
        if isinstance(result, str):
            result = {self._names[0]: result}
            if self._fold.has_dicts:
                message = f"a function returns one value instead of {sorted(self._names)}"
                raise NotPlain(message)
        if result.keys() != self._fold.types.keys():
            message = f"a function returns {sorted(result)} instead of {sorted(self._names)}"
            raise NotPlain(message)
        lines, after = [], []
        for number, name in enumerate(self._names):
            variable = f"{prefix}{number}"
            # A column that keeps its variable already has the declared type.
            if result[name] == variable:
                continue
            # All results are computed from the previous aggregate.
            own = variable if len(self._names) == 1 else f"x{number}"
            lines += [f"{own} = {result[name]}", *self._converted(own, number, name)]
            after += [] if own == variable else [f"{variable} = {own}"]
        return lines + after

    def _converted(self, variable: str, number: int, name: str) -> list[str]:
        """Return the statements that convert a variable in the same way as ``converters``."""
        column_type = self._fold.types[name]
        types = pa.types
        exact, _ = converter(column_type)
        # ``type`` is exact, because True is an int for ``isinstance``, but an integer column needs
        # 1. A string that is not ASCII can contain half a surrogate pair, which the converter
        # rejects.
        if exact is not None:
            mismatch = f"type({variable}) is not {exact.__name__}"
        elif types.is_integer(column_type):
            half = 2 ** (column_type.bit_width - 1)
            mismatch = f"type({variable}) is not int or not {-half} <= {variable} <= {half - 1}"
        elif types.is_string(column_type):
            mismatch = f"type({variable}) is not str or not {variable}.isascii()"
        else:
            mismatch = "True"
        # None fails the test of the type, so other results need no test for None.
        # A function that returns None removes the row. A column of a dict can be None.
        is_none = [] if self._fold.has_dicts else [f"    if {variable} is None: raise Stop"]
        return [f"if {mismatch}:", *is_none, f"    {variable} = c{number}({variable})"]


def skipped_runs(functions: UserFunctions, count: int) -> RunAggregates:
    """Return ``count`` runs that the functions themselves must compute."""
    nulls = [pa.nulls(count, column_type) for column_type in functions.types.values()]
    aggregates = pa.table(nulls, schema=pa.schema(functions.types))
    return RunAggregates(aggregates, np.ones(count, dtype=np.bool_))


@dataclass(frozen=True)
class Compilation:
    """Compiled functions, or the reason why Oriel calls the functions for each record."""

    compiled: CompiledFunctions | None
    reason: str | None = None

    @classmethod
    def of(
        cls, functions: UserFunctions, values: pa.Schema, step: Step = "aggregate"
    ) -> "Compilation":
        """Compile functions if that is possible. See ``compile_functions``."""
        try:
            return cls(compile_functions(functions, values, step))
        except NotPlain as error:
            return cls(None, str(error))

    @property
    def current(self) -> CompiledFunctions | None:
        """The compiled functions, unless a name that they use has another value now."""
        # The loop contains the values of globals and outer variables, which can change between two
        # batches.
        return self.compiled if self.compiled and self.compiled.is_valid() else None

    def __str__(self) -> str:
        if self.reason is None:
            return "compiled"
        return f"called for each record, because {self.reason}"
