"""From the plan that Spark has analysed to a program for Arrow: names resolved, casts explicit.

Spark reads the topology's expressions and says what they mean; here they are only written down for
``oriel.pipeline.arrow_steps``. Decision 0021: only what a test has shown to be equal for every
value is in the tables below. Whatever is not makes ``NotInArrow``, and Spark runs the steps.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from oriel.pipeline.arrow_steps import (
    Call,
    ColumnRef,
    Compute,
    Constant,
    Delete,
    Explode,
    Expression,
    Keep,
    Program,
    ProgramStep,
)
from oriel.pipeline.hops import FIRST_ELEMENT
from oriel.pipeline.language import OWN_KEY, SCOPE
from oriel.pipeline.rows.plan_nodes import (
    BOOLEAN,
    FRACTIONS,
    INTEGERS,
    NUMBERS,
    SCALARS,
    TEXT,
    NotInArrow,
    arrow_type,
    constants,
    items,
    value_of,
)
from oriel.pipeline.windows import LEAVES, SUBSCRIBED, SUBSCRIBER

#: Of the pipeline's own columns these go through steps like a value's.
_THROUGH_STEPS = frozenset({OWN_KEY, SUBSCRIBED.name, SUBSCRIBER.name, LEAVES.name})


class _Rule(NamedTuple):
    """Arrow's function for an expression of Spark's, and the types of arguments."""

    function: str
    types: frozenset[str]


#: By the class of the expression.
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
    "IsNotNull": _Rule("is_not_null", SCALARS),
    "IsNull": _Rule("is_null", SCALARS),
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
#: Expressions that say in two ways what becomes of a number that does not fit.
_WITH_MODE = frozenset({
    "Add", "Cast", "Divide", "IntegralDivide", "Multiply", "Pmod", "Remainder", "Subtract",
})  # fmt: skip
_WITH_FLAG = frozenset({"Abs", "UnaryMinus"})
#: These cut one text; with a second argument they cut other characters than spaces.
_TRIMS = {"StringTrim": "trim", "StringTrimLeft": "trim_left", "StringTrimRight": "trim_right"}
#: These look in a text for one that is constant.
_SEARCHES = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}
#: Characters that a regular expression does not take for themselves.
_REGULAR = re.compile(r"[\\^$.|?*+()\[\]{}]")
#: What may be cast to what; of texts, Spark reads more than Arrow.
_CASTS = {
    **dict.fromkeys(NUMBERS, NUMBERS | BOOLEAN),
    **dict.fromkeys(INTEGERS, SCALARS),
    "boolean": SCALARS,
    "string": TEXT,
}


def arrow_program(rows: DataFrame, records: DataFrame) -> Program | None:
    """What leads from ``records`` to ``rows``, projections only; None if Arrow can't run it."""
    plan, base = (frame._jdf.queryExecution().analyzed() for frame in (rows, records))  # noqa: SLF001
    projections, below = 0, plan
    while not below.fastEquals(base):
        projections, below = projections + 1, below.child()
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - plans are the JVM's
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    try:
        # What functions stand for, constants as literals, and casts as Spark does them: an INT
        # that is cast to FLOAT and then to DOUBLE keeps all its digits, also where the second cast
        # is around a CASE of which the first one is a branch, and the others are constants.
        rules = ("ConstantFolding", "PushFoldableIntoBranches", "SimplifyCasts")
        for rule in ("ReplaceExpressions", *rules, *rules):
            plan = getattr(optimizer, rule).apply(plan)
        return _program(plan, projections)
    except (NotInArrow, PySparkException, Py4JJavaError):
        return None


def _program(plan: Any, projections: int) -> Program:
    """What the uppermost ``projections`` of a plan do, in Arrow's terms.

    The lowest of them unpacks the records, those above it are the steps and the key, as
    ``RowSteps`` builds them.

    Raises:
        NotInArrow: an expression is not in the tables.
    """
    found = [plan]
    while len(found) < projections:
        found.insert(0, found[0].child())
    reader = _Reader(_sources(found[0]))
    for projection in found[1:]:
        reader.read(projection)
    outputs = {
        attribute.name(): reader.columns[attribute.exprId().id()]
        for attribute in items(plan.output())
        if attribute.exprId().id() in reader.columns and attribute.name() not in SCOPE
    }
    assert reader.key is not None
    return Program(tuple(reader.steps), outputs, reader.key)


class _Reader:
    """Reads projections from below: the steps so far, and the columns by Spark's number."""

    def __init__(self, columns: dict[int, str]) -> None:
        self.columns = columns
        self.steps: list[ProgramStep] = []
        self.key: Expression | None = None

    def read(self, projection: Any) -> None:
        """Add what one projection computes; a column that it passes on keeps its number."""
        if projection.nodeName() == "Generate":
            self._explode(projection)
            return
        computed = []
        for named in items(projection.projectList()):
            if named.getClass().getSimpleName() != "Alias":
                continue
            number, name = named.exprId().id(), named.name()
            if name == FIRST_ELEMENT.name:
                # The explosion makes it.
                continue
            if name == "__null_value":
                # CASE WHEN in use THEN it is OR the row is deleted ELSE it is.
                deleted = named.child().children().apply(1).children().apply(1)
                self.steps.append(Delete(self._expression(deleted, {}), self._key_of(projection)))
            elif name == "__keep":
                # CASE WHEN in use THEN the condition ELSE false; or that it has elements, which
                # the explosion sees to.
                if projection.child().nodeName() != "Generate":
                    self.steps.append(Keep(self._within(named.child())))
            elif name == "__key":
                self.key = self._within(named.child())
            else:
                # No column of a record begins like this.
                computed.append((number, Compute(f"__{number}", self._within(named.child()))))
        for number, step in computed:
            self.columns[number] = step.name
            self.steps.append(step)

    def _key_of(self, projection: Any) -> str:
        """The column that is the key of rows which a projection passes on."""
        (key,) = (each for each in items(projection.projectList()) if each.name() == "key")
        return self.columns[key.exprId().id()]

    def _explode(self, generate: Any) -> None:
        """Add the rows of an array's elements: a generator's output is their place and value."""
        _, element = items(generate.generatorOutput())
        (elements,) = items(generate.generator().children())
        read = self.column(elements, {})
        number = element.exprId().id()
        self.columns[number] = f"__{number}"
        self.steps.append(Explode(f"__{number}", read.name))

    def _within(self, guarded: Any) -> Expression:
        """What is computed for rows in use: CASE WHEN in use THEN it."""
        if guarded.getClass().getSimpleName() != "CaseWhen":
            raise NotInArrow(guarded.nodeName())
        return self._expression(guarded.children().apply(1), {})

    def _expression(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """An expression in Arrow's terms; ``common`` has those that are named within it."""
        kind = node.getClass().getSimpleName()
        if kind in _READERS:
            return _READERS[kind](self, node, common)
        rule = _RULES.get(kind)
        if rule is None or not _is_legacy(node, kind):
            raise NotInArrow(kind)
        return self._call(rule.function, node, common, types=rule.types)

    def _call(
        self,
        function: str,
        node: Any,
        common: Mapping[Any, Expression],
        *,
        types: frozenset[str],
        **options: Any,
    ) -> Expression:
        """A call with as many of the node's children as there are without those in options."""
        children = items(node.children())
        arguments = children[: 1 if options else None]
        if any(child.dataType().simpleString() not in types for child in children):
            raise NotInArrow(function)
        read = tuple(self._expression(argument, common) for argument in arguments)
        return Call(function, read, options)

    def column(self, node: Any, _common: Mapping[Any, Expression]) -> ColumnRef:
        """A column of the record's, or one that a step made; not those of the pipeline's own."""
        number = node.exprId().id()
        if number not in self.columns:
            raise NotInArrow(node.name())
        return ColumnRef(self.columns[number])

    def constant(self, node: Any, _common: Mapping[Any, Expression]) -> Expression:
        """A literal; constant expressions became literals before."""
        value = value_of(node)
        if value is not None and node.dataType().simpleString() not in SCALARS:
            raise NotInArrow(node.sql())
        return Constant(pa.scalar(value, arrow_type(node.dataType())))

    def field(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """A field of a struct, null where that is null."""
        record = self._expression(node.child(), common)
        return Call("field", (record,), {"index": node.ordinal()})

    def cast(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """A cast, also one to the type that is there already."""
        read = node.child().dataType().simpleString()
        if node.dataType().simpleString() not in _CASTS.get(read, ()) or not _is_legacy(
            node, "Cast"
        ):
            raise NotInArrow(node.sql())
        return Call(
            "cast", (self._expression(node.child(), common),), {"to": arrow_type(node.dataType())}
        )

    def conditional(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """``IF`` and ``CASE``, whose children are conditions and values in turn."""
        value_type = arrow_type(node.dataType())
        children = [self._expression(child, common) for child in items(node.children())]
        if len(children) % 2 == 0:
            children.append(Constant(pa.scalar(None, value_type)))
        options = {"array_type": value_type} if pa.types.is_list(value_type) else {}
        return Call("case_when", tuple(children), options)

    def with_named(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """An expression that names others, as BETWEEN names what it compares."""
        own = {
            one.id().toString(): self._expression(one.child(), common) for one in items(node.defs())
        }
        return self._expression(node.child(), {**common, **own})

    def named(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """What an expression around this one has named."""
        return common[node.id().toString()]

    def trimmed(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """A text without the spaces around it."""
        kind = node.getClass().getSimpleName()
        if node.children().size() > 1:
            raise NotInArrow(kind)
        return self._call(_TRIMS[kind], node, common, types=TEXT)

    def searched(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """Whether a text has a constant one in it."""
        (pattern,) = constants(node)
        function = _SEARCHES[node.getClass().getSimpleName()]
        return self._call(function, node, common, types=TEXT, pattern=pattern)

    def like(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """Patterns that are a text with ``%`` before or behind it, or both."""
        (pattern,) = constants(node)
        text = pattern.strip("%")
        if set(text) & {"%", "_", "\\", node.escapeChar()}:
            raise NotInArrow(pattern)
        if text == pattern:
            read = self._expression(node.children().apply(0), common)
            return Call("equal", (read, Constant(pa.scalar(text, pa.string()))))
        before, behind = pattern.startswith("%"), pattern.endswith("%")
        function = "contains" if before and behind else "ends_with" if before else "starts_with"
        return self._call(function, node, common, types=TEXT, pattern=text)

    def substring(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """From a constant place on, counted from the text's beginning."""
        place, length = constants(node)
        text = items(node.children())[0]
        if text.dataType().simpleString() not in TEXT or length < 0 or place < 0:
            raise NotInArrow(node.sql())
        start = max(place - 1, 0)
        read = self._expression(text, common)
        return Call("substring", (read,), {"start": start, "stop": start + length})

    def replaced(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """A text with one constant text for another."""
        pattern, replacement = constants(node)
        return self._call(
            "replace", node, common, types=TEXT, pattern=pattern, replacement=replacement
        )

    def split(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """A text between separators that no regular expression reads as more than themselves."""
        separator, limit = constants(node)
        text = items(node.children())[0]
        is_plain = separator and not _REGULAR.search(separator) and limit == -1
        if not is_plain or text.dataType().simpleString() not in TEXT:
            raise NotInArrow(node.sql())
        return Call("split", (self._expression(text, common),), {"pattern": separator})

    def array(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """An array of values of one type."""
        values = items(node.children())
        if not values or any(value.dataType().simpleString() not in SCALARS for value in values):
            raise NotInArrow(node.sql())
        read = tuple(self._expression(value, common) for value in values)
        return Call("array", read, {"has_nulls": node.dataType().containsNull()})

    def sliced(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """So many elements of an array from a constant place on, counted from its beginning."""
        place, length = constants(node)
        # Others make Spark raise, or count from the array's end.
        if place < 1 or length < 0:
            raise NotInArrow(node.sql())
        read = self._expression(items(node.children())[0], common)
        return Call("slice", (read,), {"start": place - 1, "stop": place - 1 + length})

    def joined(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """``concat_ws`` with a constant separator; it also takes arrays of texts."""
        separator, *texts = items(node.children())
        if any(text.dataType().simpleString() not in TEXT for text in texts):
            raise NotInArrow(node.sql())
        (text,) = constants(node, [separator])
        read = tuple(self._expression(one, common) for one in texts)
        return Call("concat_with", read, {"separator": text})

    def valid_text(self, node: Any, common: Mapping[Any, Expression]) -> Expression:
        """The check of a key's bytes: decoded texts are valid, and all functions keep them so."""
        if node.functionName() != "tryValidateUTF8String":
            raise NotInArrow(node.functionName())
        return self._expression(node.children().apply(0), common)


#: Expressions that need more than a rule, by their class.
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
    "StaticInvoke": _Reader.valid_text,
    "StringReplace": _Reader.replaced,
    "StringSplit": _Reader.split,
    "Substring": _Reader.substring,
    "With": _Reader.with_named,
    **dict.fromkeys(_SEARCHES, _Reader.searched),
    **dict.fromkeys(_TRIMS, _Reader.trimmed),
}


def _sources(unpacked: Any) -> dict[int, str]:
    """The record's columns by Spark's number: the value's fields, or a join's columns."""
    columns = {}
    for named in items(unpacked.projectList()):
        name = named.name()
        if not name.startswith("__") or name in _THROUGH_STEPS:
            columns[named.exprId().id()] = name
    return columns


def _is_legacy(node: Any, kind: str) -> bool:
    """Whether a computation that does not fit is cut, as Arrow's functions do it.

    In ANSI mode it raises; ``try_add`` and the like give null.
    """
    if kind in _WITH_MODE:
        return bool(node.evalMode().toString() == "LEGACY")
    return kind not in _WITH_FLAG or not node.failOnError()
