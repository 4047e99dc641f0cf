"""The syntax tree of a Python function, checked against its byte code, and its outer names."""

import ast
import builtins
import linecache
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any, NamedTuple

#: Functions with * or **, and functions whose call does not execute the body.
_SPECIAL = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


#: Values that nothing can change in place.
CONSTANTS = (bool, int, float, str, type(None))
_MISSING = object()


class NotPlain(Exception):
    """A function cannot be compiled. The message is the reason."""


@dataclass(frozen=True)
class Definition:
    """A function with positional parameters only."""

    function: FunctionType
    parameters: tuple[str, ...]
    body: list[ast.stmt]


class _File(NamedTuple):
    """The syntax tree of a file and the code objects of its functions."""

    tree: ast.Module
    codes: tuple[CodeType, ...]


def definition_of(function: Callable[..., Any]) -> Definition:
    """Return the definition of a function.

    The file can have changed after the import, and two lambdas can share a line. The file is
    therefore compiled again, and one of its functions must have the byte code of ``function``.

    Raises:
        NotPlain: ``function`` is not a Python function with positional parameters only, or its
            source is not available.
    """
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, FunctionType):
        message = f"{name} is not a function that is written in Python"
        raise NotPlain(message)
    code = function.__code__
    # A call can omit a parameter with a default, but the inliner needs an argument for each one.
    has_defaults = function.__defaults__ or function.__kwdefaults__ or code.co_kwonlyargcount
    if has_defaults or code.co_flags & _SPECIAL:
        message = f"{name} has default values, * or **, or it is a generator or a coroutine"
        raise NotPlain(message)
    # A file can change while the process runs.
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    file = _parsed("".join(lines), code.co_filename)
    node = None if file is None or code not in file.codes else _node(file.tree, code)
    if node is None:
        message = f"the source of {name} is not available, or it changed after the import"
        raise NotPlain(message)
    body = node.body if isinstance(node, ast.FunctionDef) else [_returned(node.body)]
    return Definition(function, code.co_varnames[: code.co_argcount], body)


def _returned(expression: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Return(expression), expression)


@lru_cache(maxsize=100)
def _parsed(source: str, name: str) -> _File | None:
    with warnings.catch_warnings():
        # Python emitted these warnings when it imported the file.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source, name)
            # ``dont_inherit`` excludes the ``__future__`` imports of this module. They would change
            # the code, which must equal the code of the imported function.
            return _File(tree, tuple(_codes(compile(source, name, "exec", dont_inherit=True))))
        except (SyntaxError, ValueError):
            return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _node(tree: ast.Module, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """Return the node from which ``code`` is compiled, or None if the node is ambiguous."""
    if code.co_name != "<lambda>":
        # The first line of a code object is the line of the first decorator, but the line of a node
        # is the line of ``def``.
        found = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name
            if min([node.lineno, *(each.lineno for each in node.decorator_list)])
            == code.co_firstlineno
        ]
        return found[0] if len(found) == 1 else None
    # Two lambdas can begin in one line, so the columns of the instructions decide. Instructions
    # without source text have an empty position.
    # The body of a lambda contains all of its instructions. If lambdas are nested, the innermost
    # one is the right one.
    positions: list[Any] = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if (line, column) != (end_line, end_column)
    ]
    # Python has no columns if it runs without debug ranges.
    if any(None in place for both in positions for place in both):
        return None
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    enclosing = [
        node
        for node in lambdas
        if all(
            (node.body.lineno, node.body.col_offset) <= start
            and end <= (node.body.end_lineno, node.body.end_col_offset)
            for start, end in positions
        )
    ]
    return max(enclosing, key=lambda node: (node.body.lineno, node.body.col_offset), default=None)


@dataclass(frozen=True)
class Bound:
    """A global or a variable of an outer scope, with the value that the statements use."""

    function: FunctionType
    name: str
    value: Any

    def is_unchanged(self) -> bool:
        """Return whether the name still has the same value."""
        now = looked_up(self.function, self.name)
        if isinstance(self.value, float):
            # The text distinguishes 0.0 and -0.0, and NaN equals itself.
            return type(now) is float and repr(now) == repr(self.value)
        # 1 equals True and 1.0, but expressions with them have results of other types.
        if isinstance(self.value, CONSTANTS):
            return type(now) is type(self.value) and bool(now == self.value)
        return now is self.value


def looked_up(function: FunctionType, name: str) -> Any:
    """Return the value of a name that a function does not assign, as Python looks it up."""
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        # The variable of the outer function has no value yet.
        except ValueError:
            return _MISSING
    # A global hides a builtin of the same name.
    return function.__globals__.get(name, getattr(builtins, name, _MISSING))
