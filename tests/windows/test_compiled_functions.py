"""Compiled functions of users have the results of the functions themselves, to the last bit."""

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.pipeline.windows.functions import NotPlain, Rejected, UserFunctions, compile_functions
from tests.windows.random_functions import (
    TYPES,
    VALUES,
    aggregates,
    module_of,
    records,
    sources,
)

#: A run: the aggregate that it continues, or None, and its records.
_runs = st.lists(
    st.tuples(st.one_of(st.none(), aggregates), st.lists(records, min_size=1, max_size=5)),
    min_size=1,
    max_size=4,
)
INITIAL = {"n": 0, "x": -0.0, "t": "", "f": None}
Run = tuple[Any, list[dict[str, Any]]]


def bits(value: Any) -> Any:
    """Return what distinguishes values: the type, and all bits of a double.

    Python itself does not determine the sign of NaN + NaN, so NaN has no sign here.
    """
    if isinstance(value, dict):
        return {name: bits(each) for name, each in value.items()}
    is_number = isinstance(value, float) and not math.isnan(value)
    return type(value), struct.pack("<d", value) if is_number else repr(value)


def called(fold: UserFunctions, run: Run) -> Any:
    """Return the result of the functions for a run, or None if one raises or removes the row."""
    aggregate, values = run
    try:
        for value in values:
            aggregate = fold.applied(0, "k", value, aggregate)
            if aggregate is None:
                return None
    except Rejected:
        return None
    return aggregate


def check(fold: UserFunctions, runs: list[Run], values: pa.Schema = VALUES) -> None:
    """Compare the compiled loop with calls."""
    compiled = compile_functions(fold, values)
    held = [aggregate for aggregate, _ in runs if aggregate is not None]
    start, number = [], 0
    for aggregate, _ in runs:
        start.append(-1 if aggregate is None else number)
        number += aggregate is not None
    rows = [value for _, own in runs for value in own]
    schema = pa.schema(fold.types)
    folded = compiled.folded(
        pa.Table.from_pylist(rows, schema=values),
        np.array([len(own) for _, own in runs]),
        pa.array(["k"] * len(runs)),
        pa.table(fold.columns(held), schema=schema),
        np.array(start),
    )
    found = fold.read(folded.aggregates)
    for run, own, skipped in zip(runs, found, folded.skipped.tolist(), strict=True):
        expected = called(fold, run)
        assert skipped == (expected is None), run
        assert skipped or bits(own) == bits(expected), run


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory for the modules of the functions."""
    return tmp_path_factory.mktemp("functions")


def fold_of(
    aggregator: Any, initializer: Any = lambda: {"n": 0, "x": -0.0, "t": "", "f": None}
) -> UserFunctions:
    """Return an aggregation with the columns ``TYPES``."""
    return UserFunctions(initializer, (aggregator,), None, TYPES, "step")


@settings(max_examples=settings().max_examples * 4)
@given(sources, _runs)
def test_random_functions_have_the_same_results(
    directory: Path, source: str, runs: list[Run]
) -> None:
    """Types, NaN, signed zeros, overflow, nulls and errors are those of the calls."""
    check(fold_of(module_of(source, directory).aggregator), runs)


@settings(max_examples=settings().max_examples * 2)
@given(_runs)
def test_a_reduce_stores_the_first_value_without_a_call(runs: list[Run]) -> None:
    """The columns of the value are those of the aggregate, in the wide types."""
    types = {"v": pa.float64(), "i": pa.int64(), "j": pa.int64(), "s": pa.string(), "b": pa.bool_()}
    reducer = UserFunctions(None, (greater,), None, types, "step", unwraps_single_column=False)
    check(reducer, [(None, values) for _, values in runs])


def greater(_key: str, value: Any, kept: Any) -> Any:
    """Return the value with the greater number."""
    return value if value["v"] > kept["v"] else kept


BARE = {
    "total": ("0.0", "return total + value['v']", pa.float64()),
    "initial of another type": ("0", "return total + value['v']", pa.float64()),
    "single": ("0.1", "return total + value['v']", pa.float32()),
    "too large": ("0.5", "return value['j'] and 10**310", pa.float64()),
    "greatest": ("None or -1.5", "return max(total, value['v'])", pa.float64()),
    "named": ("0", "return {'result': total + value['i']}", pa.int64()),
    "if": ("0", "if value['i'] > total:\n        total = value['i']\n    return total", pa.int64()),
    "narrow": ("0", "total += value['j']\n    return total", pa.int32()),
    "removed": ("0", "return total + 1 if value['b'] else None", pa.int64()),
    "no value": ("0", "return 5 if value is None else total + 1", pa.int64()),
    "text": ("''", "return f'{total}{value[\"s\"]}'", pa.string()),
    "key": ("''", "return total + key", pa.string()),
    "raises": ("0", "if not value['b']:\n        raise ValueError\n    return 1", pa.int64()),
    "pair": ("0", "a, b = value['j'], total\n    a, b = b, a\n    return a + b", pa.int64()),
    "chain": (
        "0",
        "\n    ".join(
            ["if total < 0:\n        return 0"]
            + [f"elif total == {n}:\n        total += value['j']" for n in range(200)]
            + ["else:\n        return 1\n    return total"]
        ),
        pa.int64(),
    ),
    "else": (
        "0",
        (
            "if value['b']:\n        total += 1\n    else:\n        if value['j']:\n"
            "            total += 2\n        else:\n            total -= 1\n"
            "        total += 5\n    return total"
        ),
        pa.int64(),
    ),
    "choices": (
        "0",
        "return 1 if value['b'] else 2 if value['j'] else 3 if total else 4",
        pa.int64(),
    ),
    "helper": ("0", "return helper(value, total)", pa.int64()),
}


@pytest.mark.parametrize("name", BARE)
@given(runs=_runs)
@settings(max_examples=settings().max_examples // 2)
def test_functions_of_one_column_have_the_same_results(
    directory: Path, name: str, runs: list[Run]
) -> None:
    """An aggregate of one column is its value."""
    initial, body, column_type = BARE[name]
    module = module_of(
        "def helper(row, old):\n    return old + row['j']\n"
        f"def initializer():\n    return {initial}\n"
        f"def aggregator(key, value, total):\n    {body}\n",
        directory,
    )
    fold = UserFunctions(
        module.initializer, (module.aggregator,), None, {"result": column_type}, "step"
    )
    check(fold, [(None, values) for _, values in runs])


#: Results with an expression that Python computes, although its value is not used.
UNUSED = {
    "a repeated key": "return {'n': 1 // value['i'], 'n': 1}",
    "a spread dict": "return {**{'n': 1 // value['i']}, 'n': 1}",
    "a spread call": "return {**dict(n=1 // value['i']), **aggregate}",
    "two replaced values": "return {'n': 1, 'n': 1 // value['i'], 'n': 2 // value['i'], 'n': 1}",
    "a variable": "unused = 1 // value['i']\n    return aggregate",
    "a dict": "unused = {'n': 1 // value['i']}\n    return aggregate",
    "an argument": "return helper(1 // value['i'], aggregate)",
}


@pytest.mark.parametrize("name", UNUSED)
def test_unused_expressions_are_computed(directory: Path, name: str) -> None:
    """A compiled function also raises if only a value raises that is not used."""
    module = module_of(
        "def helper(unused, aggregate):\n    return aggregate\n"
        f"def aggregator(key, value, aggregate):\n    {UNUSED[name]}\n",
        directory,
    )
    types = {"n": pa.int64()}
    fold = UserFunctions(
        lambda: {"n": 0}, (module.aggregator,), None, types, "step", unwraps_single_column=False
    )
    values = pa.schema([("i", pa.int64())])
    check(fold, [(None, [{"i": 0}]), (None, [{"i": 2}]), ({"n": 7}, [{"i": 2}, {"i": 0}])], values)


REFUSED = {
    "a loop": "for x in (1, 2):\n        aggregate['n'] += x\n    return aggregate",
    "try": "try:\n        return aggregate\n    except ValueError:\n        return None",
    "an unknown function": "return unknown(aggregate)",
    "print": "print(key)\n    return aggregate",
    "an attribute": "return {**aggregate, 't': value['s'].upper()}",
    "a module": "return {**aggregate, 'x': math.sqrt(value['v'])}",
    "a comprehension": "return {name: aggregate[name] for name in aggregate}",
    "a generator": "yield aggregate",
    "a change of the value": "value['v'] = 1.0\n    return aggregate",
    "another column of the value": "return {**aggregate, 'x': value['w']}",
    "another column of the aggregate": "return {**aggregate, 'w': 1}",
    "a new key": "aggregate['w'] = 1\n    return aggregate",
    "a computed key": "return {**aggregate, 'n': aggregate[key]}",
    "a missing column": "return {'n': 1}",
    "a scalar": "return 1",
    "a name without a value": "if value['b']:\n        y = 1\n    return {**aggregate, 'n': y}",
    "a global": "global COUNTER\n    COUNTER = COUNTER + 1\n    return aggregate",
    "a global that is a list": "return {**aggregate, 'n': len(LIST)}",
    "a global counter": "global COUNTER\n    COUNTER += 1\n    return aggregate",
    "a dict of two names": "y = {**aggregate}\n    z = y\n    y = {**aggregate}\n    return z",
    "a dict of one branch": "if value['b']:\n        aggregate = {**aggregate}\n"
    "    return aggregate",
    "identity": "return {**aggregate, 'f': aggregate['n'] is value['i']}",
    "a dict that is compared": "return {**aggregate, 'f': {'n': 1 // value['i']} is None}",
    "a call that is compared": "return {**aggregate, 'f': dict(n=1 // value['i']) is not None}",
    "a walrus": "return {**aggregate, 'n': (y := 1)}",
    "a lambda": "return {**aggregate, 'n': (lambda: 1)()}",
    "a matrix product": "return {**aggregate, 'x': aggregate['x'] @ value['v']}",
    "max of a keyword": "return {**aggregate, 'n': max(1, 2, key=str)}",
    "itself": "return aggregator(key, value, aggregate)",
    "an import": "import math\n    return aggregate",
    "a deletion": "del key\n    return aggregate",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_functions_are_not_compiled(directory: Path, name: str) -> None:
    """The reason names the line or the columns."""
    source = (
        "import math\nCOUNTER, LIST = 0, []\ndef unknown(x):\n    return LIST or x\n"
        f"def aggregator(key, value, aggregate):\n    {REFUSED[name]}\n"
    )
    with pytest.raises(NotPlain, match=r"line \d+ of|instead of|generator|calls itself"):
        compile_functions(fold_of(module_of(source, directory).aggregator), VALUES)


def test_functions_with_other_parameters_are_not_compiled(directory: Path) -> None:
    """Default values, *, callable objects and functions without a source are called."""
    module = module_of(
        "from functools import partial\n"
        "def defaults(key, value, aggregate, n=1):\n    return aggregate\n"
        "def star(*arguments):\n    return arguments[2]\n"
        "partly = partial(defaults, n=2)\n"
        "exec('def sourceless(key, value, aggregate):\\n    return aggregate\\n')\n"
        "class Called:\n"
        "    def __call__(self, key, value, aggregate):\n        return aggregate\n"
        "called = Called()\n"
        "method = called.__call__\n",
        directory,
    )
    for name in ("defaults", "star", "partly", "sourceless", "called", "method"):
        with pytest.raises(NotPlain, match=r"is not a function|has default values|the source of"):
            compile_functions(fold_of(getattr(module, name)), VALUES)


def test_lambdas_on_one_line_are_not_mixed_up(directory: Path) -> None:
    """The byte code of a lambda has its position."""
    module = module_of(
        "plus, minus = lambda k, v, a: a + v['i'], lambda k, v, a: a - v['i']\n"
        "def made(n):\n    return lambda k, v, a: a + n\n"
        "one, two = made(1), made(2)\n",
        directory,
    )
    names = {"plus": 7, "minus": -7, "one": 1, "two": 2}
    for name, expected in names.items():
        fold = UserFunctions(int, (getattr(module, name),), None, {"n": pa.int64()}, "step")
        compiled = compile_functions(fold, VALUES)
        values = pa.Table.from_pylist([{"i": 7}], schema=VALUES)
        none = pa.table({"n": pa.array([], pa.int64())})
        folded = compiled.folded(values, np.array([1]), pa.array(["k"]), none, np.array([-1]))
        assert folded.aggregates["n"].to_pylist() == [expected]


def test_a_changed_source_is_not_compiled(directory: Path) -> None:
    """After the import, the file can have another function at the same place."""
    module = module_of("def f(key, value, total):\n    return total + 1\n", directory)
    Path(str(module.__file__)).write_text("def f(key, value, total):\n    return total + 2\n")
    fold = UserFunctions(int, (module.f,), None, {"n": pa.int64()}, "step")
    with pytest.raises(NotPlain, match="changed after the import"):
        compile_functions(fold, VALUES)


def test_a_compiled_constant_that_changes_is_noticed(directory: Path) -> None:
    """A global or an outer variable can be bound again, and a builtin can be hidden."""
    module = module_of(
        "STEP = 1.0\n"
        "def aggregator(key, value, total):\n    return max(total, STEP)\n"
        "def outer():\n"
        "    n = 1\n"
        "    def own(key, value, total):\n        return total + n\n"
        "    def change():\n        nonlocal n\n        n = 2\n"
        "    return own, change\n"
        "own, change = outer()\n",
        directory,
    )
    types = {"x": pa.float64()}
    compiled = compile_functions(
        UserFunctions(float, (module.aggregator,), None, types, "s"), VALUES
    )
    assert compiled.is_valid()
    vars(module)["STEP"] = 1
    assert not compiled.is_valid()
    vars(module)["STEP"] = 1.0
    assert compiled.is_valid()
    vars(module)["max"] = min
    assert not compiled.is_valid()
    compiled = compile_functions(UserFunctions(float, (module.own,), None, types, "s"), VALUES)
    assert compiled.is_valid()
    module.change()
    assert not compiled.is_valid()


def test_columns_that_can_change_in_place_are_not_compiled() -> None:
    """A list in a value or an aggregate is passed to the functions themselves."""
    lists = pa.list_(pa.int64())
    values = pa.schema([("v", pa.float64()), ("l", lists)])

    def counted(_key: str, value: Any, total: Any) -> Any:
        return total + (1 if value["l"] is None else 2)

    with pytest.raises(NotPlain, match="'l' of the value is of the type list"):
        compile_functions(UserFunctions(int, (counted,), None, {"n": pa.int64()}, "s"), values)
    with pytest.raises(NotPlain, match="'n' of the aggregate is of the type list"):
        compile_functions(UserFunctions(list, (counted,), None, {"n": lists}, "s"), VALUES)
