"""Random plain functions of users, as source, and random records for them."""

import importlib.util
import math
import warnings
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

#: The columns of the value, with the types that a schema can have.
VALUES = pa.schema([
    ("v", pa.float64()),
    ("i", pa.int64()),
    ("j", pa.int32()),
    ("s", pa.string()),
    ("b", pa.bool_()),
])  # fmt: skip
#: The columns of the aggregate.
TYPES = {"n": pa.int64(), "x": pa.float64(), "t": pa.string(), "f": pa.bool_()}

_NUMBERS = [
    *(f"value[{name!r}]" for name in ("v", "i", "j", "b")),
    *(f"aggregate[{name!r}]" for name in ("n", "x", "f")),
    "value.get('v')", "value.get('i', 3)",
    "0", "1", "-1", "2.5", "0.0", "-0.0", "True", "LIMIT", "FACTOR", "1e308", "2**62",
]  # fmt: skip
_OTHERS = ["None", "key", "value['s']", "aggregate['t']", "'a'", "'\\u00e9'", "'\\ud800'", "y", "z"]
#: Operators of numbers only, because a product with a string could become very long.
_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "&", "|", "^")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def _number(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(_ARITHMETIC), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds(
            "{}({})".format, st.sampled_from(["abs", "int", "float", "bool", "round"]), inner
        ),
        st.builds("(-{})".format, inner),
    )


_numbers = st.recursive(st.sampled_from(_NUMBERS), _number, max_leaves=4)


def _mixed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or", "+"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(_COMPARISONS), inner),
        st.builds("({} < {} <= {})".format, inner, inner, inner),
        st.builds("({} is {}None)".format, inner, st.sampled_from(["", "not "])),
        st.builds("({} {}in ({}, 1))".format, inner, st.sampled_from(["", "not "]), inner),
        st.builds("(not {})".format, inner),
        st.builds("({} if value and {} else {})".format, inner, inner, inner),
        st.builds("({} if not aggregate or not value else {})".format, inner, inner),
        st.builds("f'{{{}}}+{{{}!r}}'".format, st.sampled_from(["y", "z", "key"]), st.just("y")),
        st.builds("len({})".format, inner),
        st.builds("str({})".format, inner),
    )


_expressions = st.recursive(
    st.one_of(_numbers, st.sampled_from(_OTHERS)), _mixed, max_leaves=5
)  # fmt: skip


@st.composite
def _dicts(draw: st.DrawFn) -> str:
    """A dict of all columns of the aggregate, mostly with fitting types."""
    fitting = {
        "n": st.one_of(_numbers, st.just("aggregate['n'] + 1")),
        "x": st.one_of(_numbers, st.just("aggregate['x'] + value['v']")),
        "t": st.sampled_from(["key", "'b'", "value['s']", "aggregate['t']", "f'{value[\"s\"]}'"]),
        "f": st.sampled_from(["value['b']", "aggregate['n'] > LIMIT", "aggregate['f']", "False"]),
    }
    own = {
        name: draw(_expressions if draw(st.integers(0, 9)) == 0 else each)
        for name, each in fitting.items()
    }
    forms = ["literal", "spread", "repeated", "nested", "dict", "aggregate", "copy"]
    form = draw(st.sampled_from(forms))
    if form == "repeated":
        replaced = draw(_expressions)
        return f"{{'n': {replaced}, **aggregate, 'n': {own['n']}, 'x': {replaced}, 'x': 0.5}}"
    if form == "nested":
        return f"{{**aggregate, **dict(n={draw(_expressions)}), 'n': {own['n']}}}"
    if form == "spread":
        return f"{{**aggregate, 'n': {own['n']}, 'x': {own['x']}}}"
    if form == "dict":
        return f"dict(n={own['n']}, x={own['x']}, t={own['t']}, f={own['f']})"
    if form in {"aggregate", "copy"}:
        return "aggregate" if form == "aggregate" else "dict(aggregate)"
    return "{" + ", ".join(f"{name!r}: {text}" for name, text in own.items()) + "}"


@st.composite
def _ends(draw: st.DrawFn) -> list[str]:
    """The last statement of a block, or none."""
    last = draw(st.integers(0, 9))
    if last < 6:
        return [f"return {draw(_dicts())}"]
    if last == 6:
        condition, left, right = draw(_expressions), draw(_dicts()), draw(_dicts())
        return [f"return {left} if {condition} else {right}"]
    if last == 7:
        return [f"return helper(value, {draw(_expressions)}, aggregate)"]
    if last == 8:
        return [draw(st.sampled_from(["return None", "raise ValueError(key)", "return"]))]
    return []


@st.composite
def _blocks(draw: st.DrawFn, depth: int = 2) -> list[str]:
    """Draw some statements. The last one is not always a return statement."""
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        kinds = ["y", "z", "y+", "n+", "x", "t", "pair", "if", "if", "assert", "unused", "unread"]
        kind = draw(st.sampled_from(kinds))
        value = draw(_expressions)
        if kind == "if" and not depth:
            lines.append("pass")
        elif kind == "if":
            lines += [f"if {value}:", *_indented(draw(_blocks(depth - 1)))]
            if draw(st.booleans()):
                lines += ["else:", *_indented(draw(_blocks(depth - 1)))]
        elif kind == "assert":
            lines.append(f"assert {value}, 'it is not'")
        elif kind == "unread":
            lines.append(f"unread = {draw(_dicts())}")
        elif kind == "pair":
            lines.append(f"y, z = z, {value}")
        else:
            fields = {"n+": "aggregate['n'] +=", "x": "aggregate['x'] =", "t": "aggregate['t'] ="}
            number = draw(_numbers)
            own = value if kind in {"y", "z", "t", "unused"} else number
            lines.append(f"{fields.get(kind, {'y+': 'y +='}.get(kind, f'{kind} ='))} {own}")
    return [*lines, *draw(_ends())]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines or ["pass"]]


#: A module with an aggregator of ``TYPES`` and of ``VALUES``.
sources = _blocks().map(
    lambda lines: "\n".join([
        "LIMIT, FACTOR = 3, -0.5",
        "def helper(value, unused, aggregate):",
        "    return {**aggregate, 'x': value['v']}",
        "def aggregator(key, value, aggregate):",
        "    y, z = aggregate['n'], value['v']",
        *_indented(lines),
        "    return {**aggregate, 'n': aggregate['n'] + 1}",
        "",
    ])
)  # fmt: skip


def _rarely_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda chance: values if chance else st.none())


floats = st.sampled_from(
    [0.0, -0.0, 1.5, -2.25, 1e308, -1e308, 5e-324, math.nan, -math.nan, math.inf, -math.inf]
)
integers = st.sampled_from([0, 1, -1, 2, 7, 8, 9, 2**62, 2**63 - 1, -(2**63), 2**53 + 1])
#: A record of ``VALUES``.
records = st.fixed_dictionaries({
    "v": _rarely_none(floats),
    "i": _rarely_none(integers),
    "j": _rarely_none(st.sampled_from([0, 1, -3, 2**31 - 1])),
    "s": _rarely_none(st.sampled_from(["", "a", "\u00e9", "zz"])),
    "b": _rarely_none(st.booleans()),
})  # fmt: skip
#: An aggregate of ``TYPES``.
aggregates = st.fixed_dictionaries({
    "n": _rarely_none(integers),
    "x": _rarely_none(floats),
    "t": _rarely_none(st.sampled_from(["", "b", "\u00fc"])),
    "f": _rarely_none(st.booleans()),
})  # fmt: skip

_numbered = count()


def module_of(source: str, directory: Path) -> ModuleType:
    """Import ``source`` from a file of its own, so that its functions have a source."""
    name = f"random_functions_{next(_numbered)}"
    path = directory / f"{name}.py"
    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        # Of comparisons of constants, for example.
        warnings.simplefilter("ignore", SyntaxWarning)
        spec.loader.exec_module(module)
    return module


def uncompiled(function: Any) -> Any:
    """Return a function that does the same and is not compiled."""

    class Called:
        def __call__(self, *arguments: Any) -> Any:
            return function(*arguments)

    return Called()
