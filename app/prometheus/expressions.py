"""A PromQL expression as nodes, without the parts that have no meaning for windows.

``promql-parser`` checks syntax and types. This module rejects functions that need raw samples, and
names an alternative.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

from oriel.app.contract import QUERY_OPERATORS_MAX, InvalidParameter
from oriel.app.prometheus.matchers import Matcher
from oriel.app.prometheus.metrics import NAME

#: The characters of an expression. promql-parser needs more than linear time for some expressions.
_CHARACTERS_MAX = 65_536

#: Strings and comments, also without an end.
_TEXTS = re.compile(
    r""""(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z)|#[^\n]*+""",
    re.DOTALL,
)
_OPERATORS = re.compile(r"[-+*/%^(]|[=!<>]=?|\b(?:and|or|unless|atan2|offset)\b", re.IGNORECASE)

#: The text after ``offset`` and in brackets. The parser fails for some numbers without a unit.
_DURATIONS = re.compile(r"\boffset\b\s*[-+]?\s*([\w.]*)|\[([^\]]*)", re.IGNORECASE)
_DURATION = re.compile(
    r"\s*(?:\d{1,15}(?:ms|[smhdwy]))+\s*(?::\s*(?:\d{1,15}(?:ms|[smhdwy]))*\s*)?", re.ASCII
)

#: Parts of a regular expression with a large program.
_CLASSES = re.compile(r"\\[pPwWdDsSbB]|\[")
_REPETITIONS = re.compile(r"(\)?)\{(\d{1,9})(?:,(\d{0,9}))?\}", re.ASCII)
#: The greatest sum of the sizes of all regular expressions, about 0.1 s of the parser's time.
_PATTERN_SIZE_MAX = 100

ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^"})
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
AGGREGATIONS = frozenset({"sum", "avg", "min", "max", "count", "group"})
RANKINGS = frozenset({"topk", "bottomk"})
#: Functions of one vector, number by number.
ELEMENTWISE = frozenset({"abs", "ceil", "exp", "floor", "ln", "log10", "log2", "sgn", "sqrt"})
OTHER_FUNCTIONS = frozenset({
    "clamp", "clamp_max", "clamp_min", "round", "scalar", "sort", "sort_desc", "time", "vector",
})  # fmt: skip
FUNCTIONS = ELEMENTWISE | OTHER_FUNCTIONS

_WINDOWS = (
    "A sample is a window, which is already an aggregate of its records. Use the metric without "
    "the range, or define a store with the windows and aggregates that you need."
)


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True)
class Selector:
    """A selector of series. ``offset_ms`` is subtracted from the times of the query."""

    matchers: tuple[Matcher, ...]
    offset_ms: int = 0


@dataclass(frozen=True)
class Aggregation:
    """An aggregation of a vector.

    Attributes:
        operator: The name.
        operand: The vector.
        parameter: The number of ``topk`` and ``bottomk``.
        labels: The labels of ``by`` or ``without``.
        is_without: True for ``without``.
    """

    operator: str
    operand: "Node"
    parameter: "Node | None" = None
    labels: tuple[str, ...] = ()
    is_without: bool = False


@dataclass(frozen=True)
class Matching:
    """How the series of two vectors match: ``on`` or ``ignoring`` labels."""

    labels: tuple[str, ...] = ()
    is_on: bool = False


@dataclass(frozen=True)
class Binary:
    """An operator with two operands. ``is_bool`` is the modifier ``bool``."""

    operator: str
    left: "Node"
    right: "Node"
    matching: Matching = Matching()
    is_bool: bool = False


@dataclass(frozen=True)
class Negative:
    """A minus before an operand."""

    operand: "Node"


@dataclass(frozen=True)
class Call:
    """A call of a function."""

    function: str
    arguments: tuple["Node", ...]


Node = Number | Text | Selector | Aggregation | Binary | Negative | Call


def parse(text: str) -> Node:
    """Parse an expression.

    Raises:
        InvalidParameter: the text is not an expression, or a part of it has no meaning here.
    """
    if len(text) > _CHARACTERS_MAX:
        message = f"query: it must have at most {_CHARACTERS_MAX:,} characters. Use a shorter one."
        raise InvalidParameter(message)
    plain = _TEXTS.sub(" ", text)
    # promql-parser recurses, so a deep expression would end the process.
    if len(_OPERATORS.findall(plain)) > QUERY_OPERATORS_MAX:
        message = (
            f"query: it must have at most {QUERY_OPERATORS_MAX} operators, calls and parentheses. "
            "Use a shorter one."
        )
        raise InvalidParameter(message)
    if sum(map(_pattern_size, _TEXTS.findall(text))) > _PATTERN_SIZE_MAX:
        message = (
            "query: the regular expressions are too large. Remove character classes, or use "
            "smaller repetitions."
        )
        raise InvalidParameter(message)
    for places in _DURATIONS.findall(plain):
        duration = "".join(places)
        if not _DURATION.fullmatch(duration):
            message = (
                f"query: a duration must be like 5m, not {duration[:20]!r}. Correct the expression."
            )
            raise InvalidParameter(message)
    try:
        expression = promql.parse(text)
    except ValueError as error:
        message = f"query: {str(error)[:300]}. Correct the expression."
        raise InvalidParameter(message) from error
    return _node(expression)


def _pattern_size(text: str) -> float:
    """Return the approximate size of the program of a regular expression."""
    size, groups = len(_CLASSES.findall(text)) + len(text) / 500, 1
    for group, low, high in _REPETITIONS.findall(text):
        count = max(int(low), int(high or 0))
        if group:
            groups *= max(count, 1)
        else:
            size += count
    return size * groups


def parse_selector(text: str) -> Selector:
    """Parse a selector, as ``match[]`` has it.

    Raises:
        InvalidParameter: the text is not a selector.
    """
    node = parse(text)
    if isinstance(node, Selector) and not node.offset_ms:
        return node
    message = f"match[] must be a selector like departures_count{{key='EWR'}}, not {text[:80]!r}"
    raise InvalidParameter(message)


def selectors_of(node: Node) -> Sequence[Selector]:
    """Return the distinct selectors of an expression."""
    found: dict[Selector, None] = {}
    pending: list[Node | None] = [node]
    while pending:
        match pending.pop():
            case Selector() as selector:
                found[selector] = None
            case Aggregation(operand=operand, parameter=parameter):
                pending += [operand, parameter]
            case Binary(left=left, right=right):
                pending += [left, right]
            case Negative(operand=operand):
                pending.append(operand)
            case Call(arguments=arguments):
                pending += arguments
            case _:
                pass
    return list(found)


def _node(expression: object) -> Node:
    convert = _CONVERSIONS.get(type(expression))
    if convert is not None:
        return convert(expression)
    message = f"query: a range like [5m] is not supported. {_WINDOWS}"
    raise InvalidParameter(message)


def _selector(expression: promql.VectorSelector) -> Selector:
    if expression.at is not None:
        message = "query: @ is not supported. Send the time as the parameter time."
        raise InvalidParameter(message)
    if expression.matchers.or_matchers:
        message = "query: or between matchers is not supported. Use =~ with |."
        raise InvalidParameter(message)
    matchers = [_matcher(each) for each in expression.matchers.matchers]
    if expression.name is not None:
        matchers.insert(0, Matcher(NAME, expression.name, is_regex=False, is_negated=False))
    if all(bool(each.mask([""])[0]) for each in matchers):
        message = (
            "query: a selector must have a metric, or a matcher that the empty string does not "
            "match. Add the name of a metric."
        )
        raise InvalidParameter(message)
    offset = expression.offset
    offset_ms = 0 if offset is None else round(offset.total_seconds() * 1000)
    return Selector(tuple(matchers), offset_ms)


def _matcher(matcher: promql.Matcher) -> Matcher:
    # The operators are not hashable, so a table cannot have them.
    operator = matcher.op
    return Matcher(
        matcher.name,
        matcher.value,
        is_regex=operator in (promql.MatchOp.Re, promql.MatchOp.NotRe),
        is_negated=operator in (promql.MatchOp.NotEqual, promql.MatchOp.NotRe),
    )


def _aggregation(expression: promql.AggregateExpr) -> Aggregation:
    operator = str(expression.op)
    if operator not in AGGREGATIONS | RANKINGS:
        known = ", ".join(sorted(AGGREGATIONS | RANKINGS))
        message = f"query: the aggregation {operator} is not supported. Use one of: {known}."
        raise InvalidParameter(message)
    modifier = expression.modifier
    return Aggregation(
        operator,
        _node(expression.expr),
        None if expression.param is None else _node(expression.param),
        () if modifier is None else tuple(modifier.labels),
        modifier is not None and modifier.type == promql.AggModifierType.Without,
    )


def _binary(expression: promql.BinaryExpr) -> Binary:
    operator, modifier = str(expression.op), expression.modifier
    if operator not in ARITHMETIC | COMPARISONS:
        message = (
            f"query: the operator {operator} is not supported. Use arithmetic or comparisons, or "
            "several queries in one panel."
        )
        raise InvalidParameter(message)
    left, right = _node(expression.lhs), _node(expression.rhs)
    if modifier is None:
        return Binary(operator, left, right)
    if modifier.card in (
        promql.VectorMatchCardinality.ManyToOne,
        promql.VectorMatchCardinality.OneToMany,
    ):
        message = (
            "query: group_left and group_right are not supported. For a share of a total, use "
            "scalar(), for example m / scalar(sum(m))."
        )
        raise InvalidParameter(message)
    matching = modifier.matching
    if matching is None:
        return Binary(operator, left, right, is_bool=modifier.return_bool)
    is_on = matching.type == promql.LabelModifierType.Include
    return Binary(
        operator, left, right, Matching(tuple(matching.labels), is_on), modifier.return_bool
    )


def _call(expression: promql.Call) -> Call:
    name = expression.func.name
    ranges = (promql.MatrixSelector, promql.SubqueryExpr)
    if any(isinstance(each, ranges) for each in expression.args):
        message = f"query: {name}() of a range is not supported. {_WINDOWS}"
        raise InvalidParameter(message)
    if name not in FUNCTIONS:
        known = ", ".join(sorted(FUNCTIONS))
        message = f"query: the function {name} is not supported. Use one of: {known}."
        raise InvalidParameter(message)
    return Call(name, tuple(map(_node, expression.args)))


_CONVERSIONS: Mapping[type, Callable[[Any], Node]] = {
    promql.NumberLiteral: lambda expression: Number(expression.val),
    promql.StringLiteral: lambda expression: Text(expression.val),
    promql.ParenExpr: lambda expression: _node(expression.expr),
    promql.UnaryExpr: lambda expression: Negative(_node(expression.expr)),
    promql.VectorSelector: _selector,
    promql.AggregateExpr: _aggregation,
    promql.BinaryExpr: _binary,
    promql.Call: _call,
}
