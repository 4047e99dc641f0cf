"""Parse the text of ``where`` into an expression that Arrow evaluates.

sqlglot parses the text as an expression of Spark SQL. Only the nodes in ``_RULES`` are accepted, so
the language is closed: it has no subqueries, no aggregates and nothing that depends on the time.
Names are resolved and casts are added here, as Spark's analysis does without ANSI mode. So
``oriel.storage.expressions`` returns what Spark returns for the same expression in a topology.

A literal with a fraction is a double, not a decimal as in Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from oriel.app.contract import InvalidParameter
from oriel.storage.expressions import Call, ColumnRef, Constant, Expression

#: The maximum number of characters of a condition, and of the nodes of its tree below each other.
TEXT_MAX = 4_000
_DEPTH_MAX = 100

_LONG, _DOUBLE, _STRING, _BOOLEAN, _NULL = (
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.null(),
)
_NUMBERS = (_LONG, _DOUBLE)
_TYPE_NAMES = {_LONG: "a number", _DOUBLE: "a number", _STRING: "a string", _BOOLEAN: "a boolean"}
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


class _Dialect(Spark):  # type: ignore[misc]  # sqlglot does not type its dialects
    """Spark 4: a quote in a string is escaped by another quote, or by a backslash."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES: ClassVar = ["'", "\\"]


class _Typed(NamedTuple):
    """An expression and its type. The type of the literal NULL is ``pa.null()``."""

    expression: Expression
    type: pa.DataType


class _NotValid(ValueError):
    """The text is not a condition of this store. The message says what is wrong."""


def parse(text: str, columns: pa.Schema) -> Expression:
    """See ``oriel.app.selection.parse_condition``."""
    try:
        condition = _translated(_tree(text), columns, 0)
        return _as_type(condition, _BOOLEAN, "the condition").expression
    except _NotValid as error:
        message = f"where: {error}. For example: revenue > 100 AND key LIKE 'E%'."
        raise InvalidParameter(message) from error


def _tree(text: str) -> exp.Expr:
    if len(text) > TEXT_MAX:
        message = f"it has {len(text)} characters, and at most {TEXT_MAX} are possible"
        raise _NotValid(message)
    try:
        return sqlglot.parse_one(text, read=_Dialect)
    except SqlglotError as error:
        # The descriptions of sqlglot name its own classes, so only the place is used.
        places = getattr(error, "errors", None) or [{}]
        near, column = places[0].get("highlight") or text[:40], places[0].get("col") or 1
        message = f"it is not a condition of SQL near {near[:40]!r}, at character {column}"
        raise _NotValid(message) from error
    except RecursionError as error:
        message = "it has more levels of parentheses than are possible"
        raise _NotValid(message) from error


def _translated(node: exp.Expr, columns: pa.Schema, depth: int) -> _Typed:
    if depth > _DEPTH_MAX:
        message = f"it has more levels of operators than {_DEPTH_MAX}"
        raise _NotValid(message)
    if isinstance(node, exp.Column):
        return _column(node, columns)
    rule = _RULES.get(type(node))
    # A node can have further parts, for example ESCAPE. The rule would ignore them.
    parts = {name for name, value in node.args.items() if value not in (None, [], False)}
    if rule is None or not parts <= {*rule.operands, *rule.ignored}:
        message = f"{_shown(node)} is not possible in a condition"
        raise _NotValid(message)
    operands = [
        _translated(operand, columns, depth + 1)
        for name in rule.operands
        for operand in _listed(node.args.get(name))
    ]
    return rule.translate(node, operands)


def _column(node: exp.Column, columns: pa.Schema) -> _Typed:
    if node.table or node.name not in columns.names:
        known = ", ".join(columns.names)
        message = f"column {_shown(node)} does not exist. Use one of: {known}"
        raise _NotValid(message)
    column_type = columns.field(node.name).type
    return _Typed(ColumnRef(node.name), column_type)


def _listed(value: object) -> list[exp.Expr]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, exp.Expr)]


def _shown(node: exp.Expr) -> str:
    return repr(node.sql("spark")[:80])


def _as_type(operand: _Typed, wanted: pa.DataType, name: str) -> _Typed:
    """Return an operand with a type. Only NULL and integers are converted.

    Raises:
        _NotValid: the operand has another type.
    """
    if operand.type == wanted:
        return operand
    if operand.type == _NULL:
        return _Typed(Constant(pa.scalar(None, wanted)), wanted)
    if operand.type == _LONG and wanted == _DOUBLE:
        return _Typed(Call("cast", (operand.expression,), {"to": _DOUBLE}), _DOUBLE)
    message = f"{name} must be {_type_name(wanted)}, but it is {_type_name(operand.type)}"
    raise _NotValid(message)


def _type_name(of_type: pa.DataType) -> str:
    return _TYPE_NAMES.get(of_type, "a list")


def _of_one_type(operands: Sequence[_Typed], name: str) -> tuple[list[Expression], pa.DataType]:
    """Return operands with a common type: integers become doubles if one operand is a double."""
    types = {operand.type for operand in operands} - {_NULL}
    if types == {*_NUMBERS}:
        types = {_DOUBLE}
    if len(types) > 1 or not types <= {*_TYPE_NAMES}:
        found = " and ".join(sorted({_type_name(each) for each in types}))
        message = f"{name} needs operands of one type, but it has {found}"
        raise _NotValid(message)
    common = types.pop() if types else _LONG
    return [_as_type(each, common, name).expression for each in operands], common


_Translate = Callable[[exp.Expr, list[_Typed]], _Typed]


class _Rule(NamedTuple):
    """How a node is translated.

    Attributes:
        translate: A function of the node and its operands.
        operands: The parts of the node that are operands, in order.
        ignored: The parts that have no effect.
    """

    translate: _Translate
    operands: tuple[str, ...] = ("this", "expression")
    ignored: tuple[str, ...] = ()


def _name(node: exp.Expr) -> str:
    return node.key.upper() if isinstance(node, exp.Func) else _shown(node)


def _compare(function: str, *, negated: bool = False) -> _Translate:
    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        arguments, _ = _of_one_type(operands, _name(node))
        call: Expression = Call(function, tuple(arguments))
        return _Typed(Call("not", (call,)) if negated else call, _BOOLEAN)

    return translate


def _logic(function: str) -> _Translate:
    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        arguments = [_as_type(each, _BOOLEAN, _name(node)).expression for each in operands]
        return _Typed(Call(function, tuple(arguments)), _BOOLEAN)

    return translate


def _arithmetic(function: str, of_type: pa.DataType | None = None) -> _Translate:
    """Return a rule of numbers. ``of_type`` is the type of the result if it is always the same."""

    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        arguments, common = _of_one_type(operands, _name(node))
        if common not in _NUMBERS:
            message = f"{_name(node)} needs numbers, but it has {_type_name(common)}"
            raise _NotValid(message)
        if of_type is not None and of_type != common:
            typed = (_as_type(_Typed(each, common), of_type, _name(node)) for each in arguments)
            arguments, common = [each.expression for each in typed], of_type
        return _Typed(Call(function, tuple(arguments)), common)

    return translate


def _rounded(function: str) -> _Translate:
    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        return _Typed(_arithmetic(function)(node, operands).expression, _LONG)

    return translate


def _choice(function: str) -> _Translate:
    """Return a rule whose operands and result have one type, for example COALESCE."""

    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        if len(operands) == 1:
            return operands[0]
        arguments, common = _of_one_type(operands, _name(node))
        return _Typed(Call(function, tuple(arguments)), common)

    return translate


def _text(function: str) -> _Translate:
    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        arguments = [_as_type(each, _STRING, _name(node)).expression for each in operands]
        return _Typed(Call(function, tuple(arguments)), _STRING)

    return translate


def _search(function: str, pattern: str = "expression") -> _Translate:
    """Return a rule for a search in a string. Arrow needs a constant pattern."""

    def translate(node: exp.Expr, operands: list[_Typed]) -> _Typed:
        text = _as_type(operands[0], _STRING, _name(node)).expression
        options = {"pattern": _literal_text(node.args[pattern], _name(node))}
        return _Typed(Call(function, (text,), options), _BOOLEAN)

    return translate


def _literal_text(node: exp.Expr, name: str) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    message = f"the pattern of {name} must be a string in quotes"
    raise _NotValid(message)


def _like(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    """Translate LIKE with % only at the begin and the end. A backslash escapes % and _."""
    text = _as_type(operands[0], _STRING, "LIKE").expression
    pattern = _literal_text(node.args["expression"], "LIKE")
    pieces: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        escaped = next(characters, "\\") if character == "\\" else None
        pieces.append(escaped or (None if character == "%" else character))
        if character == "_":
            message = "LIKE with _ is not possible. Use % at the begin or the end of the pattern"
            raise _NotValid(message)
    inner = pieces[1 if pieces[:1] == [None] else 0 : -1 if pieces[1:] and not pieces[-1] else None]
    plain = "".join(piece for piece in inner if piece is not None)
    if len(plain) != len(inner):
        message = "LIKE with % inside the pattern is not possible. Use it at the begin or the end"
        raise _NotValid(message)
    functions = {
        (False, False): None, (False, True): "starts_with",
        (True, False): "ends_with", (True, True): "contains",
    }  # fmt: skip
    is_open = pieces[:1] == [None], bool(pieces) and pieces[-1] is None
    function = functions[is_open]
    call: Expression = (
        Call("equal", (text, Constant(pa.scalar(plain, _STRING))))
        if function is None
        else Call(function, (text,), {"pattern": plain})
    )
    return _Typed(Call("not", (call,)) if node.args.get("negate") else call, _BOOLEAN)


def _is(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    """Translate IS NULL, IS TRUE and IS FALSE."""
    expected = node.args["expression"]
    if isinstance(expected, exp.Null):
        if operands[0].type == _NULL:
            return _Typed(Constant(pa.scalar(value=True)), _BOOLEAN)
        return _Typed(Call("is_null", (operands[0].expression,)), _BOOLEAN)
    if not isinstance(expected, exp.Boolean):
        message = f"{_shown(node)} is not possible. Use IS NULL, IS TRUE or IS FALSE"
        raise _NotValid(message)
    return _compare("equal_null_safe")(node, operands)


def _in(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    return _compare("is_in")(node, operands)


def _between(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    (value, low, high), _ = _of_one_type(operands, _name(node))
    bounds = Call("greater_equal", (value, low)), Call("less_equal", (value, high))
    return _Typed(Call("and", bounds), _BOOLEAN)


def _negated(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    # The least integer has no positive literal.
    of = node.args["this"]
    if isinstance(of, exp.Literal) and not of.is_string:
        return _number(f"-{of.this}")
    return _arithmetic("negate")(node, operands)


def _literal(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    del operands
    assert isinstance(node, exp.Literal)
    if node.is_string:
        return _Typed(Constant(pa.scalar(node.this, _STRING)), _STRING)
    # The minus of the least integer is the parent of this node.
    is_least = node.this == str(-_LONG_MIN) and isinstance(node.parent, exp.Neg)
    return _number("0" if is_least else node.this)


def _number(text: str) -> _Typed:
    try:
        number = int(text)
    except ValueError:
        return _Typed(Constant(pa.scalar(float(text), _DOUBLE)), _DOUBLE)
    if not _LONG_MIN <= number <= _LONG_MAX:
        message = f"{text[:40]} is not a 64-bit integer. Write {text[:40]}.0 for a double"
        raise _NotValid(message)
    return _Typed(Constant(pa.scalar(number, _LONG)), _LONG)


def _boolean(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    del operands
    return _Typed(Constant(pa.scalar(bool(node.this), _BOOLEAN)), _BOOLEAN)


def _null(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    del node, operands
    return _Typed(Constant(pa.scalar(None)), _NULL)


def _same(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    del node
    return operands[0]


def _if(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    """Translate IF. Without a third operand, the result is null if the condition is not true."""
    del node
    condition, *values = operands
    if len(values) == 1:
        values.append(_Typed(Constant(pa.scalar(None)), _NULL))
    test = _as_type(condition, _BOOLEAN, "the condition of IF")
    arguments, common = _of_one_type(values, "IF")
    return _Typed(Call("case_when", (test.expression, *arguments)), common)


def _length(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    # Arrow counts with 32 bits.
    length = _text("length")(node, operands).expression
    return _Typed(Call("cast", (length,), {"to": _LONG}), _LONG)


def _substring(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    text = _as_type(operands[0], _STRING, "SUBSTRING").expression
    bounds = [node.args.get(name) for name in ("start", "length")]
    start, length = map(_count, bounds)
    if not start or (length is None and bounds[1] is not None):
        message = "SUBSTRING needs a start from 1 and a length from 0, as integers"
        raise _NotValid(message)
    stop = None if length is None else start - 1 + length
    return _Typed(Call("substring", (text,), {"start": start - 1, "stop": stop}), _STRING)


def _count(node: exp.Expr | None) -> int | None:
    is_count = isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal()
    return int(node.this) if node is not None and is_count else None


def _cast(node: exp.Expr, operands: list[_Typed]) -> _Typed:
    target = _CASTS.get(node.args["to"].sql("spark").upper())
    (operand,) = operands
    if target is None or (operand.type == _STRING and target != _STRING):
        message = f"{_shown(node)} is not possible. A number can be cast to BIGINT or DOUBLE"
        raise _NotValid(message)
    if operand.type == _NULL:
        return _as_type(operand, target, "CAST")
    if operand.type not in _NUMBERS or target not in _NUMBERS:
        return _as_type(operand, target, "CAST")
    return _Typed(Call("cast", (operand.expression,), {"to": target}), target)


_CASTS: Mapping[str, pa.DataType] = {"BIGINT": _LONG, "DOUBLE": _DOUBLE, "STRING": _STRING}

#: The nodes of a condition, by their class in sqlglot.
_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Paren: _Rule(_same, ("this",)),
    exp.Literal: _Rule(_literal, (), ("this", "is_string")),
    exp.Boolean: _Rule(_boolean, (), ("this",)),
    exp.Null: _Rule(_null, ()),
    exp.EQ: _Rule(_compare("equal")),
    exp.NEQ: _Rule(_compare("equal", negated=True)),
    exp.LT: _Rule(_compare("less")),
    exp.LTE: _Rule(_compare("less_equal")),
    exp.GT: _Rule(_compare("greater")),
    exp.GTE: _Rule(_compare("greater_equal")),
    exp.NullSafeEQ: _Rule(_compare("equal_null_safe")),
    exp.And: _Rule(_logic("and")),
    exp.Or: _Rule(_logic("or")),
    exp.Not: _Rule(_logic("not"), ("this",)),
    exp.Is: _Rule(_is),
    exp.In: _Rule(_in, ("this", "expressions")),
    exp.Between: _Rule(_between, ("this", "low", "high")),
    exp.Like: _Rule(_like, ("this",), ("expression", "negate")),
    exp.Neg: _Rule(_negated, ("this",)),
    exp.Add: _Rule(_arithmetic("add")),
    exp.Sub: _Rule(_arithmetic("subtract")),
    exp.Mul: _Rule(_arithmetic("multiply")),
    # Spark divides integers as doubles. DIV is the division of integers.
    exp.Div: _Rule(_arithmetic("divide", _DOUBLE), ignored=("typed", "safe")),
    exp.IntDiv: _Rule(_arithmetic("divide", _LONG)),
    exp.Mod: _Rule(_arithmetic("remainder")),
    exp.Abs: _Rule(_arithmetic("abs"), ("this",)),
    exp.Ceil: _Rule(_rounded("ceil"), ("this",)),
    exp.Floor: _Rule(_rounded("floor"), ("this",)),
    exp.Greatest: _Rule(_choice("greatest"), ("this", "expressions"), ("ignore_nulls",)),
    exp.Least: _Rule(_choice("least"), ("this", "expressions"), ("ignore_nulls",)),
    exp.Coalesce: _Rule(_choice("coalesce"), ("this", "expressions")),
    exp.If: _Rule(_if, ("this", "true", "false")),
    exp.TryCast: _Rule(_cast, ("this",), ("to",)),
    exp.Length: _Rule(_length, ("this",)),
    exp.Substring: _Rule(_substring, ("this",), ("start", "length")),
    exp.Trim: _Rule(_text("trim"), ("this",)),
    exp.Concat: _Rule(_text("concat"), ("expressions",), ("safe",)),
    exp.DPipe: _Rule(_text("concat"), ignored=("safe",)),
    exp.StartsWith: _Rule(_search("starts_with"), ("this",), ("expression",)),
    exp.EndsWith: _Rule(_search("ends_with"), ("this",), ("expression",)),
    exp.Contains: _Rule(_search("contains"), ("this",), ("expression",)),
}
