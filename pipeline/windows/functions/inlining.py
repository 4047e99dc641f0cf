"""Generated statements that compute the result of a plain function, without calls and dicts.

A *record* is a dict with known keys: the value, an aggregate, or a dict that the function creates.
It becomes one variable per key. All other values are numbers, strings, booleans or None, which
nothing can change in place. The statements compute the same expressions with the same operators as
the function, so they have the same results, or they raise.
"""

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from oriel.pipeline.windows.functions.sources import (
    CONSTANTS,
    Bound,
    Definition,
    NotPlain,
    definition_of,
    looked_up,
)

#: Functions of Python without side effects, whose results for plain values are plain values.
_BUILTINS = ("abs", "bool", "float", "int", "len", "max", "min", "round", "str")


@dataclass(frozen=True)
class Record:
    """A dict with known keys.

    Attributes:
        fields: The variable of each key.
        writable: True if the function can change the dict.
    """

    fields: Mapping[str, str]
    writable: bool = False


#: The value of a name of the function: a variable with a plain value, or a record.
Binding = str | Record
#: The result of a function: an expression, or one expression per key of a dict.
Result = str | dict[str, str]
_Scope = dict[str, Binding]


@dataclass
class Inliner:
    """Inlines functions into one generated function, which has ``constants`` as globals."""

    constants: dict[str, Any] = field(default_factory=dict)
    bound: list[Bound] = field(default_factory=list)
    _scopes: int = 0

    def inline(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Binding],
        returned: Callable[[Result], list[str]],
        callers: tuple[FunctionType, ...] = (),
    ) -> list[str]:
        """Return the statements of a function. They raise ``Stop`` if the function returns None.

        Args:
            function: The function.
            arguments: The variable or the record of each parameter.
            returned: Returns the statements for a result. They must end with a jump, for example
                ``continue`` or ``break``.
            callers: The functions that call this one, outermost first.

        Raises:
            NotPlain: The function uses something that cannot be compiled.
        """
        definition = definition_of(function)
        if len(definition.parameters) != len(arguments):
            message = f"{function.__name__} does not have {len(arguments)} parameters"
            raise NotPlain(message)
        # A function that calls itself would be inlined without an end.
        if definition.function in callers:
            message = f"{function.__name__} calls itself"
            raise NotPlain(message)
        # Each inlined call has an index of its own in the names of its variables. Two calls of one
        # function therefore have different variables.
        self._scopes += 1
        body = _Body(self, definition, self._scopes, returned, callers)
        return body.statements(arguments)


class _Body:
    """The statements of one function."""

    def __init__(
        self,
        inliner: Inliner,
        definition: Definition,
        scope: int,
        returned: Callable[[Result], list[str]],
        callers: tuple[FunctionType, ...],
    ) -> None:
        self._inliner, self._definition, self._number = inliner, definition, scope
        self._function = definition.function
        self._returned = returned
        self._callers = (*callers, definition.function)
        code = self._function.__code__
        # As in Python, a name that is assigned anywhere in the function is local in all of it.
        self._locals = {*code.co_varnames, *code.co_cellvars}

    def statements(self, arguments: Sequence[Binding]) -> list[str]:
        """Return the statements with ``arguments`` as parameters."""
        lines: list[str] = []
        scope: _Scope = {}
        nodes = [node for each in self._definition.body for node in ast.walk(each)]
        assigned = {node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)}
        changes_records = any(isinstance(n, ast.Subscript) and _is_stored(n) for n in nodes)
        for name, binding in zip(self._definition.parameters, arguments, strict=True):
            # The argument can be a variable of the caller, which keeps its value. A parameter that
            # the function assigns is therefore a variable of its own.
            if isinstance(binding, str) and name in assigned:
                scope[name] = self._local(name)
                lines.append(f"{scope[name]} = {binding}")
            # The variables of an aggregate can belong to all runs, such as the initial aggregate.
            # Also, a result in the variable of its own column counts as unchanged, so it is not
            # converted. The function therefore changes copies. Calls are only inlined in a
            # ``return``, so the caller does not read its dict again.
            elif isinstance(binding, Record) and binding.writable and changes_records:
                own, copies = self._record_of(name, dict(binding.fields))
                lines += copies
                scope[name] = own
            else:
                scope[name] = binding
        own_lines, continues = self._block(self._definition.body, scope)
        # A function that ends without a return statement returns None.
        return [*lines, *own_lines, *(["raise Stop"] if continues else [])]

    def _record_of(self, name: str, fields: Mapping[str, str]) -> tuple[Record, list[str]]:
        """Return the record that ``name`` is bound to, and the statement that sets it."""
        own = {key: f"r{self._number}_{n}_{name}" for n, key in enumerate(sorted(fields))}
        if not own:
            return Record(own, writable=True), []
        # One assignment of a tuple reads all values before it sets a variable. A dict can therefore
        # be computed from the previous dict of the same name, for example with two exchanged
        # values.
        targets = ", ".join(own.values())
        values = ", ".join(fields[key] for key in own)
        return Record(own, writable=True), [f"{targets} = {values}"]

    def _block(self, statements: Sequence[ast.stmt], scope: _Scope) -> tuple[list[str], bool]:
        """Return statements, and whether execution can reach the statement after them."""
        lines: list[str] = []
        for statement in statements:
            own, continues = self._statement(statement, scope)
            lines += own
            # The statements after a ``return`` are never executed, so they need not be plain.
            if not continues:
                return lines, False
        return lines, True

    def _statement(self, node: ast.stmt, scope: _Scope) -> tuple[list[str], bool]:
        match node:
            case ast.Return(value=value):
                return self._return(value, scope), False
            case ast.If(test=test, body=body, orelse=orelse):
                return self._if(test, body, orelse, scope)
            # The functions themselves compute a skipped run and raise the error, so its expression
            # is not needed.
            case ast.Raise():
                return ["raise Stop"], False
        return self._simple_statement(node, scope), True

    def _simple_statement(self, node: ast.stmt, scope: _Scope) -> list[str]:
        match node:
            case ast.Assert(test=test):
                return [f"assert {self._condition(test, scope)}"]
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return []
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                return self._assign(target, value, scope)
            # Plain values cannot change in place, so an assignment with an operator only sets the
            # variable.
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                if scope.get(name) == self._local(name):
                    return [
                        f"{self._local(name)} {_operator_text(node)} {self._text(value, scope)}"
                    ]
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                field, text = self._field(target, scope), self._text(value, scope)
                return [f"{field} {_operator_text(node)} {text}"]
        raise self._not_plain(node)

    def _if(
        self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], scope: _Scope
    ) -> tuple[list[str], bool]:
        condition = self._condition(test, scope)
        scopes = dict(scope), dict(scope)
        then_lines, then_continues = self._block(body, scopes[0])
        else_lines, else_continues = self._block(orelse, scopes[1])
        continuing_scopes = [
            own
            for own, continues in zip(scopes, (then_continues, else_continues), strict=True)
            if continues
        ]
        # A branch that ends the function has no influence on the statements after the condition.
        if continuing_scopes:
            # A name that has no value or another record in one branch must not be read later.
            first, last = continuing_scopes[0], continuing_scopes[-1]
            scope.clear()
            scope.update({name: own for name, own in first.items() if last.get(name) == own})
        return _if_statement(condition, then_lines, else_lines), then_continues or else_continues

    def _return(self, value: ast.expr | None, scope: _Scope) -> list[str]:
        match value:
            case None | ast.Constant(value=None):
                # None removes the aggregate. The loop has no removed aggregates, so it skips the
                # run.
                return ["raise Stop"]
            # Each branch can be a dict, a call or None, which an expression of the loop cannot be.
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self._condition(test, scope)
                return _if_statement(
                    condition, self._return(body, scope), self._return(orelse, scope)
                )
            # The result of this call is the result of the function, so ``returned`` is also right
            # for the called function. Anywhere else, its ``return`` would need a jump into an
            # expression.
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                called = looked_up(self._function, name)
                if name not in self._locals and isinstance(called, FunctionType):
                    self._bind(name, called)
                    lines, bindings = self._arguments(arguments, scope)
                    return lines + self._inliner.inline(
                        called, bindings, self._returned, self._callers
                    )
        fields = self._fields(value, scope)
        return self._returned(self._text(value, scope) if fields is None else fields)

    def _arguments(
        self, arguments: Sequence[ast.expr], scope: _Scope
    ) -> tuple[list[str], list[Binding]]:
        """Return the arguments of a call, and the statements that compute them."""
        lines: list[str] = []
        bindings: list[Binding] = []
        for number, argument in enumerate(arguments):
            binding = scope.get(argument.id) if isinstance(argument, ast.Name) else None
            if binding is None:
                # The argument is computed once, before the call, as in Python.
                binding = f"t{self._number}_{number}"
                lines.append(f"{binding} = {self._text(argument, scope)}")
            elif isinstance(binding, Record) and binding in bindings:
                # A change of one argument would change both.
                raise self._not_plain(argument)
            bindings.append(binding)
        return lines, bindings

    def _assign(self, target: ast.expr, value: ast.expr, scope: _Scope) -> list[str]:
        match target, value:
            case ast.Name(id=name), _:
                if name not in self._locals:
                    # The name is declared global or nonlocal.
                    raise self._not_plain(target)
                fields = self._fields(value, scope)
                if fields is None:
                    text = self._text(value, scope)
                    scope[name] = self._local(name)
                    return [f"{scope[name]} = {text}"]
                if isinstance(value, ast.Name):
                    # Both names refer to the same dict.
                    scope[name] = scope[value.id]
                    return []
                record, lines = self._record_of(name, fields)
                if any(
                    isinstance(own, Record) and {*own.fields.values()} & {*record.fields.values()}
                    for other, own in scope.items()
                    if other != name
                ):
                    # Another name still refers to the old dict of this name.
                    raise self._not_plain(target)
                scope[name] = record
                return lines
            case ast.Subscript(), _:
                return [f"{self._field(target, scope)} = {self._text(value, scope)}"]
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                # All values are computed first, as in Python: ``a, b = b, a``.
                texts = [self._text(each, scope) for each in values]
                targets = []
                for each in names:
                    if not isinstance(each, ast.Name) or each.id not in self._locals:
                        raise self._not_plain(target)
                    scope[each.id] = self._local(each.id)
                    targets.append(self._local(each.id))
                return [f"{', '.join(targets)} = {', '.join(texts)}"]
        raise self._not_plain(target)

    def _field(self, node: ast.Subscript, scope: _Scope) -> str:
        """Return the variable of a key that the function sets."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)):
                record = scope.get(name)
                if isinstance(record, Record) and record.writable and key in record.fields:
                    return record.fields[key]
        raise self._not_plain(node)

    def _fields(self, node: ast.expr, scope: _Scope) -> dict[str, str] | None:
        """Return the expressions of a dict, or None if ``node`` is not a dict."""
        match node:
            case ast.Name(id=name):
                binding = scope.get(name)
                return dict(binding.fields) if isinstance(binding, Record) else None
            # The values of a record cannot change in place, so a shallow copy is a complete copy.
            case ast.Call(func=ast.Name(id="dict"), args=[argument], keywords=[]):
                if self._is_builtin("dict"):
                    return self._fields(argument, scope)
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                if self._is_builtin("dict") and all(each.arg for each in keywords):
                    return {str(own.arg): self._text(own.value, scope) for own in keywords}
            case ast.Dict():
                return self._display_fields(node, scope)
        return None

    def _display_fields(self, node: ast.Dict, scope: _Scope) -> dict[str, str]:
        """Return the expressions of a dict that is written with braces."""
        fields: dict[str, str] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            match key:
                case None:
                    own = self._fields(value, scope)
                case ast.Constant(value=str() as name):
                    own = {name: self._text(value, scope)}
                case _:
                    own = None
            if own is None:
                raise self._not_plain(node)
            # As in Python, a later value of a key replaces an earlier one.
            fields |= {name: _replaced(fields.get(name), text) for name, text in own.items()}
        return fields

    def _text(self, node: ast.expr, scope: _Scope) -> str:
        """Return an expression with a plain value."""
        return self._unparsed(self._expression(node, scope))

    def _expression(self, node: ast.expr, scope: _Scope) -> ast.expr:
        match node:
            case ast.Constant(value=value) if isinstance(value, CONSTANTS):
                return node
            case ast.Name(id=name):
                return ast.Name(self._variable(node, name, scope), ast.Load())
            case ast.Compare():
                return self._comparison(node, scope)
            case ast.Subscript() | ast.Call(func=ast.Attribute()):
                return self._read_field(node, scope)
            case ast.Call(func=ast.Name(id=name) as called, args=arguments, keywords=[]):
                if name in _BUILTINS and self._is_builtin(name):
                    return ast.Call(called, [self._expression(a, scope) for a in arguments], [])
            # No plain value has this operator.
            case ast.BinOp(op=ast.MatMult()):
                pass
            case (
                ast.BinOp()
                | ast.UnaryOp()
                | ast.BoolOp()
                | ast.IfExp()
                | ast.JoinedStr()
                | ast.FormattedValue()
            ):
                return self._with_operands(node, scope)
        raise self._not_plain(node)

    def _read_field(self, node: ast.expr, scope: _Scope) -> ast.expr:
        """Return the variable of ``record["key"]`` or ``record.get("key")``."""
        match node:
            case (
                ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key))
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                    args=[ast.Constant(value=str() as key)]
                    | [ast.Constant(value=str() as key), ast.Constant()],
                    keywords=[],
                )
            ):
                record = scope.get(name)
                # The record has the key, so the default of ``get`` is not used.
                if isinstance(record, Record) and key in record.fields:
                    return ast.Name(record.fields[key], ast.Load())
        raise self._not_plain(node)

    def _condition(self, node: ast.expr, scope: _Scope) -> str:
        """Return an expression that is only tested for its truth."""
        return self._unparsed(self._truth(node, scope))

    def _unparsed(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        # If ``ast.unparse`` returned a text with another meaning, the loop would have other results
        # than the function. The text is therefore parsed again.
        if ast.dump(ast.parse(text, mode="eval").body) != ast.dump(node):
            raise self._not_plain(node)
        return text

    def _truth(self, node: ast.expr, scope: _Scope) -> ast.expr:
        """Return an expression with the truth value of ``node``. A record with keys is true."""
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self._truth(each, scope) for each in node.values])
        # An empty dict is false, so only a record with keys is replaced.
        if isinstance(node, ast.Name) and self._fields(node, scope):
            return ast.Constant(value=True)
        return self._expression(node, scope)

    def _with_operands(self, node: ast.expr, scope: _Scope) -> ast.expr:
        """Return an operator with its operands as expressions."""
        operands: dict[str, Any] = {}
        # ``and`` and ``or`` return one of their operands, so their operands must be plain values.
        # ``not`` and the test of a conditional expression only use the truth of theirs.
        is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        tested = {"test", "operand"} if is_not else {"test"}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and name in tested:
                operands[name] = self._truth(value, scope)
            elif isinstance(value, ast.expr):
                operands[name] = self._expression(value, scope)
            elif isinstance(value, list):
                operands[name] = [self._expression(each, scope) for each in value]
            else:
                operands[name] = value
        return type(node)(**operands)

    def _comparison(self, node: ast.Compare, scope: _Scope) -> ast.expr:
        """Return a comparison. A record is never None, and identity is compared with None only."""
        # The identity of numbers and strings depends on what Python caches, and the loop does not
        # create the same objects as the function.
        if any(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
            match node:
                case ast.Compare(ops=[operator], comparators=[ast.Constant(value=None)]):
                    # The expressions of another dict would not be computed, and they can raise.
                    is_name = isinstance(node.left, ast.Name)
                    if is_name and self._fields(node.left, scope) is not None:
                        return ast.Constant(isinstance(operator, ast.IsNot))
                case _:
                    raise self._not_plain(node)
        # A list after ``in`` is only searched, so a tuple of the same items has the same result.
        compared = [
            ast.Tuple([self._expression(item, scope) for item in each.elts], ast.Load())
            if isinstance(operator, ast.In | ast.NotIn) and isinstance(each, ast.Tuple | ast.List)
            else self._expression(each, scope)
            for operator, each in zip(node.ops, node.comparators, strict=True)
        ]
        return ast.Compare(self._expression(node.left, scope), node.ops, compared)

    def _variable(self, node: ast.expr, name: str, scope: _Scope) -> str:
        """Return the variable of a name with a plain value."""
        if name in self._locals:
            binding = scope.get(name)
            if isinstance(binding, str):
                return binding
            raise self._not_plain(node)
        value = looked_up(self._function, name)
        # A subclass of int or str can have operators of its own and can change in place.
        if type(value) not in CONSTANTS:
            raise self._not_plain(node)
        # The value is a global of the loop, and ``Bound`` compares it before each batch.
        self._bind(name, value)
        variable = f"g{len(self._inliner.constants)}"
        self._inliner.constants[variable] = value
        return variable

    def _local(self, name: str) -> str:
        """Return the variable of a name with a plain value that the function assigns."""
        return f"l{self._number}_{name}"

    def _is_builtin(self, name: str) -> bool:
        value = looked_up(self._function, name)
        # A module can define a name such as ``max`` itself.
        if name in self._locals or value is not getattr(builtins, name):
            return False
        self._bind(name, value)
        return True

    def _bind(self, name: str, value: Any) -> None:
        self._inliner.bound.append(Bound(self._function, name, value))

    def _not_plain(self, node: ast.AST) -> NotPlain:
        line = getattr(node, "lineno", 0)
        text = ast.unparse(node).splitlines()[0]
        return NotPlain(f"line {line} of {self._function.__name__} has {text!r}")


def _is_stored(node: ast.Name | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Store)


def _replaced(previous: str | None, text: str) -> str:
    """Return the expression of a key whose previous expression in the same dict is ``previous``."""
    # Python also computes a value that a later one replaces, and this can raise. A variable cannot.
    if previous is None or previous.isidentifier():
        return text
    return f"({previous}, {text})[1]"


def _operator_text(node: ast.AugAssign) -> str:
    """Return the sign of an assignment with an operator, for example ``+=``."""
    statement = ast.AugAssign(ast.Name("x", ast.Store()), node.op, ast.Constant(0))
    return ast.unparse(statement).split()[1]


def _if_statement(condition: str, then_lines: list[str], else_lines: list[str]) -> list[str]:
    """Return a conditional statement. A chain of conditions uses ``elif`` instead of nesting."""
    lines = [f"if {condition}:", *_indented(then_lines)]
    outer = [line for line in else_lines if not line.startswith(" ")]
    # Python rejects source with 100 levels of indentation. In a syntax tree, each ``elif`` is one
    # level deeper than the previous condition.
    is_one_if = all(line.startswith(("elif ", "else:")) for line in outer[1:])
    if outer and outer[0].startswith("if ") and is_one_if:
        return [*lines, f"el{else_lines[0]}", *else_lines[1:]]
    return [*lines, "else:", *_indented(else_lines)] if else_lines else lines


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines or ["pass"]]
