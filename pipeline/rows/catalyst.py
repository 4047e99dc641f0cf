"""Translation of the expressions of a program from Spark's analyzed form to Arrow.

Spark parses the expressions of the topology, resolves names and adds casts. This module translates
them one by one for ``oriel.pipeline.arrow_steps``. The tables below contain only expressions for
which a test shows that Arrow and Spark return equal results for every value (decision 0021). Any
other expression raises ``NotInArrow``, and then Spark runs the program.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame

from oriel.pipeline.row_program import RowOperation, RowProgram
from oriel.pipeline.rows.plan_nodes import (
    BOOLEAN,
    FRACTIONS,
    INTEGERS,
    NUMBERS,
    SCALARS,
    TEXT,
    NotInArrow,
    arrow_type,
    base_type,
    constants,
    items,
    value_of,
)
from oriel.storage.expressions import Call, ColumnRef, Constant, Expression


class _Rule(NamedTuple):
    """The Arrow function for a Spark expression, and the types that its arguments can have.

    Attributes:
        function: The name of the function.
        types: The types. None: all types.
    """

    function: str
    types: frozenset[str] | None


#: Class of the Spark expression -> rule.
_RULES: Mapping[str, _Rule] = {
    "Abs": _Rule("abs", NUMBERS),
    "Add": _Rule("add", NUMBERS),
    "And": _Rule("and", BOOLEAN),
    "Ceil": _Rule("ceil", frozenset({"double", "bigint"})),
    "Coalesce": _Rule("coalesce", SCALARS),
    "Concat": _Rule("concat", TEXT),
    "Divide": _Rule("divide", FRACTIONS),
    "EqualNullSafe": _Rule("equal_null_safe", SCALARS),
    "EqualTo": _Rule("equal", SCALARS),
    "Floor": _Rule("floor", frozenset({"double", "bigint"})),
    "GreaterThan": _Rule("greater", SCALARS),
    "GreaterThanOrEqual": _Rule("greater_equal", SCALARS),
    "Greatest": _Rule("greatest", SCALARS),
    "In": _Rule("is_in", SCALARS),
    "IntegralDivide": _Rule("divide", INTEGERS),
    "IsNaN": _Rule("is_nan", FRACTIONS),
    "IsNotNull": _Rule("is_not_null", None),
    "IsNull": _Rule("is_null", None),
    "Least": _Rule("least", SCALARS),
    "Length": _Rule("length", TEXT),
    "LessThan": _Rule("less", SCALARS),
    "LessThanOrEqual": _Rule("less_equal", SCALARS),
    "Multiply": _Rule("multiply", NUMBERS),
    "Not": _Rule("not", BOOLEAN),
    "Or": _Rule("or", BOOLEAN),
    "Pmod": _Rule("positive_remainder", INTEGERS),
    "Remainder": _Rule("remainder", NUMBERS),
    "Subtract": _Rule("subtract", NUMBERS),
    "UnaryMinus": _Rule("negate", NUMBERS),
}
#: Expressions that handle a number that does not fit by a mode (``evalMode``) or by a flag
#: (``failOnError``).
_WITH_MODE = frozenset({
    "Add", "Cast", "Divide", "IntegralDivide", "Multiply", "Pmod", "Remainder", "Subtract",
})  # fmt: skip
_WITH_FLAG = frozenset({"Abs", "UnaryMinus"})
#: Expressions that trim spaces. With a second argument, they trim other characters.
_TRIMS = {"StringTrim": "trim", "StringTrimLeft": "trim_left", "StringTrimRight": "trim_right"}
#: Expressions that search a string for a constant string.
_SEARCHES = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}
#: Characters with a special meaning in a regular expression.
_REGULAR = re.compile(r"[\\^$.|?*+()\[\]{}]")
#: Type -> the types that it can be cast to. Spark parses more strings than Arrow, so a string can
#: only be cast to a string.
_CASTS = {
    **dict.fromkeys(NUMBERS, NUMBERS | BOOLEAN),
    **dict.fromkeys(INTEGERS, NUMBERS | BOOLEAN | TEXT),
    "boolean": NUMBERS | BOOLEAN | TEXT,
    "string": TEXT,
    "date": TEXT,
    "decimal": FRACTIONS | TEXT,
}


@dataclass(frozen=True)
class AnalyzedOperation:
    """An operation whose expressions Spark has analyzed.

    Attributes:
        operation: The operation.
        analyzed: The names of the columns at the end of its projection that are expressions. The
            first ones are the expressions of the operation, in order.
        columns: The names of the columns that expressions can read.
    """

    operation: RowOperation[Column]
    analyzed: tuple[str, ...]
    columns: tuple[str, ...]


def arrow_program(
    rows: DataFrame, operations: Sequence[AnalyzedOperation]
) -> RowProgram[Expression] | None:
    """Return a program with translated expressions, or None if Arrow cannot run all expressions.

    Args:
        rows: The rows after the last operation.
        operations: The operations.
    """
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - Spark has no other way
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - plans are the JVM's
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    try:
        # These rules replace functions by their definitions, and constant expressions by literals.
        # They also simplify casts as Spark does. For example, an INT that is cast to FLOAT and then
        # to DOUBLE keeps all its digits. The second cast can be around a CASE with the first cast
        # in one branch and constants in the others.
        rules = ("ConstantFolding", "PushFoldableIntoBranches", "SimplifyCasts")
        for rule in ("ReplaceExpressions", *rules, *rules):
            plan = getattr(optimizer, rule).apply(plan)
        translated: list[RowOperation[Expression]] = []
        for operation in reversed(operations):
            # The uppermost projection whose last column is the last expression.
            while operation.analyzed:
                if plan.nodeName() == "Project":
                    columns = plan.projectList()
                    if columns.apply(columns.size() - 1).name() == operation.analyzed[-1]:
                        break
                plan = plan.child()
            translated.append(_translated(operation, plan))
        return RowProgram(tuple(reversed(translated)))
    except (NotInArrow, PySparkException, Py4JJavaError):
        return None


def _translated(analyzed: AnalyzedOperation, projection: Any) -> RowOperation[Expression]:
    """Return an operation with its expressions for Arrow.

    Raises:
        NotInArrow: An expression is not in the tables.
    """
    operation, reader = analyzed.operation, _Reader(analyzed.columns)
    read = []
    for number, name in enumerate(operation.results):
        read.append(reader.read(_expression_at(projection, number - len(analyzed.analyzed))))
        reader.computed[name.lower()] = read[-1]
    return operation.with_expressions(read)


def _expression_at(projection: Any, place: int) -> Any:
    """Return the expression of a column of a projection. ``place`` counts from the end.

    If a column reads another column of the same step, Spark divides the projection. The lower part
    then has the expressions without such a column.
    """
    columns = projection.projectList()
    named = columns.apply(columns.size() + place)
    if named.getClass().getSimpleName() == "Alias":
        return named.child()
    wanted = named.exprId().id()
    below = items(projection.child().projectList())
    return next(each for each in below if each.exprId().id() == wanted).child()


class _Reader:
    """Translates the expressions of one operation.

    Attributes:
        columns: Name in lower case -> name, as Spark ignores the case of names.
        computed: Name in lower case -> translated expression of a column of the same operation. A
            later expression reads it if no other column has this name.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = {name.lower(): name for name in columns}
        self.computed: dict[str, Expression] = {}

    def read(self, node: Any) -> Expression:
        """Translate an expression.

        Raises:
            NotInArrow: It is not in the tables.
        """
        return self._expression(node, {})

    def _expression(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Translate an expression. ``named_expressions`` have names in an outer expression."""
        kind = node.getClass().getSimpleName()
        if kind in _READERS:
            return _READERS[kind](self, node, named_expressions)
        rule = _RULES.get(kind)
        if rule is None or not _is_legacy(node, kind):
            raise NotInArrow(kind)
        return self._call(rule.function, node, named_expressions, types=rule.types)

    def _call(
        self,
        function: str,
        node: Any,
        named_expressions: Mapping[Any, Expression],
        *,
        types: frozenset[str] | None,
        **options: Any,
    ) -> Expression:
        """Return a call whose arguments are the children of the node.

        With ``options``, the first child is the only argument, because the options replace the
        others.
        """
        children = items(node.children())
        arguments = children[: 1 if options else None]
        if types and any(base_type(child.dataType()) not in types for child in children):
            raise NotInArrow(function)
        read = tuple(self._expression(argument, named_expressions) for argument in arguments)
        return Call(function, read, options)

    def column(self, node: Any, _common: Mapping[Any, Expression]) -> Expression:
        """Return a column, or the expression of a column of the same step.

        Other columns raise ``NotInArrow``.
        """
        name = node.name().lower()
        if name in self.columns:
            return ColumnRef(self.columns[name])
        if name not in self.computed:
            raise NotInArrow(name)
        return self.computed[name]

    def constant(self, node: Any, _common: Mapping[Any, Expression]) -> Expression:
        """Return a literal. Constant expressions have become literals before."""
        value = value_of(node)
        if value is not None and base_type(node.dataType()) not in SCALARS:
            raise NotInArrow(node.sql())
        return Constant(pa.scalar(value, arrow_type(node.dataType())))

    def field(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a field of a struct, null if the struct is null."""
        record = self._expression(node.child(), named_expressions)
        return Call("field", (record,), {"index": node.ordinal()})

    def cast(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a cast, also to the type that the value already has."""
        read, to = node.child().dataType(), node.dataType()
        is_known = base_type(to) in _CASTS.get(base_type(read), ())
        if base_type(read) == base_type(to) == "decimal":
            # The type can have all digits of the other decimal.
            more_digits = to.scale() - read.scale()
            is_known |= 0 <= more_digits <= to.precision() - read.precision()
        if not is_known or not _is_legacy(node, "Cast"):
            raise NotInArrow(node.sql())
        return Call(
            "cast",
            (self._expression(node.child(), named_expressions),),
            {"to": arrow_type(node.dataType())},
        )

    def conditional(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return ``IF`` or ``CASE``, whose children are alternating conditions and values."""
        value_type = arrow_type(node.dataType())
        children = [self._expression(child, named_expressions) for child in items(node.children())]
        if len(children) % 2 == 0:
            children.append(Constant(pa.scalar(None, value_type)))
        options = {"array_type": value_type} if pa.types.is_list(value_type) else {}
        return Call("case_when", tuple(children), options)

    def with_named(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return an expression that names others, as BETWEEN names the value that it compares."""
        own = {
            one.id().toString(): self._expression(one.child(), named_expressions)
            for one in items(node.defs())
        }
        return self._expression(node.child(), {**named_expressions, **own})

    def named(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return an expression that an outer expression has named."""
        return named_expressions[node.id().toString()]

    def trimmed(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a string without leading spaces, trailing spaces, or both."""
        kind = node.getClass().getSimpleName()
        if node.children().size() > 1:
            raise NotInArrow(kind)
        return self._call(_TRIMS[kind], node, named_expressions, types=TEXT)

    def searched(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return whether a string contains, starts with or ends with a constant string."""
        (pattern,) = constants(node)
        function = _SEARCHES[node.getClass().getSimpleName()]
        return self._call(function, node, named_expressions, types=TEXT, pattern=pattern)

    def like(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Translate a pattern that is a plain string, with ``%`` at its ends or without it."""
        (pattern,) = constants(node)
        string = pattern.strip("%")
        if set(string) & {"%", "_", "\\", node.escapeChar()}:
            raise NotInArrow(pattern)
        if string == pattern:
            read = self._expression(node.children().apply(0), named_expressions)
            return Call("equal", (read, Constant(pa.scalar(string, pa.string()))))
        open_start, open_end = pattern.startswith("%"), pattern.endswith("%")
        function = (
            "contains" if open_start and open_end else "ends_with" if open_start else "starts_with"
        )
        return self._call(function, node, named_expressions, types=TEXT, pattern=string)

    def substring(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a substring from a constant position, counted from the start of the string."""
        position, length = constants(node)
        string = items(node.children())[0]
        if string.dataType().simpleString() not in TEXT or length < 0 or position < 0:
            raise NotInArrow(node.sql())
        start = max(position - 1, 0)
        read = self._expression(string, named_expressions)
        return Call("substring", (read,), {"start": start, "stop": start + length})

    def replaced(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a string in which a constant string is replaced by another constant string."""
        pattern, replacement = constants(node)
        return self._call(
            "replace", node, named_expressions, types=TEXT, pattern=pattern, replacement=replacement
        )

    def split(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return the parts of a string between separators without regular expression characters."""
        separator, limit = constants(node)
        string = items(node.children())[0]
        is_plain = separator and not _REGULAR.search(separator) and limit == -1
        if not is_plain or string.dataType().simpleString() not in TEXT:
            raise NotInArrow(node.sql())
        return Call("split", (self._expression(string, named_expressions),), {"pattern": separator})

    def array(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return an array of values of one type."""
        values = items(node.children())
        if not values or any(base_type(value.dataType()) not in SCALARS for value in values):
            raise NotInArrow(node.sql())
        read = tuple(self._expression(value, named_expressions) for value in values)
        return Call("array", read, {"has_nulls": node.dataType().containsNull()})

    def sliced(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return a constant number of elements from a constant position, counted from the start."""
        position, length = constants(node)
        # With other arguments, Spark raises an error or counts from the end of the array.
        if position < 1 or length < 0:
            raise NotInArrow(node.sql())
        read = self._expression(items(node.children())[0], named_expressions)
        return Call("slice", (read,), {"start": position - 1, "stop": position - 1 + length})

    def joined(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return ``concat_ws`` with a constant separator. Arrays raise ``NotInArrow``."""
        separator, *texts = items(node.children())
        if any(string.dataType().simpleString() not in TEXT for string in texts):
            raise NotInArrow(node.sql())
        (string,) = constants(node, [separator])
        read = tuple(self._expression(one, named_expressions) for one in texts)
        return Call("concat_with", read, {"separator": string})

    def valid_string(self, node: Any, named_expressions: Mapping[Any, Expression]) -> Expression:
        """Return the argument of the UTF-8 check of a key.

        Decoded strings are valid UTF-8, and all functions return valid UTF-8.
        """
        if node.functionName() != "tryValidateUTF8String":
            raise NotInArrow(node.functionName())
        return self._expression(node.children().apply(0), named_expressions)


#: Class of a Spark expression that needs more than a rule -> its reader.
_READERS: Mapping[str, Callable[[_Reader, Any, Mapping[Any, Expression]], Expression]] = {
    "AttributeReference": _Reader.column,
    "CaseWhen": _Reader.conditional,
    "Cast": _Reader.cast,
    "CommonExpressionRef": _Reader.named,
    "ConcatWs": _Reader.joined,
    "CreateArray": _Reader.array,
    "GetStructField": _Reader.field,
    "If": _Reader.conditional,
    "Like": _Reader.like,
    "Literal": _Reader.constant,
    "Slice": _Reader.sliced,
    "StaticInvoke": _Reader.valid_string,
    "StringReplace": _Reader.replaced,
    "StringSplit": _Reader.split,
    "Substring": _Reader.substring,
    "With": _Reader.with_named,
    **dict.fromkeys(_SEARCHES, _Reader.searched),
    **dict.fromkeys(_TRIMS, _Reader.trimmed),
}


def _is_legacy(node: Any, kind: str) -> bool:
    """Return whether a number that does not fit wraps or is truncated, as in Arrow's functions.

    In ANSI mode, Spark raises an error. Functions such as ``try_add`` return null.
    """
    if kind in _WITH_MODE:
        return bool(node.evalMode().toString() == "LEGACY")
    return kind not in _WITH_FLAG or not node.failOnError()
