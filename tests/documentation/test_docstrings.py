"""Public names have docstrings with arguments, results, errors and an example that runs.

``tests/client/test_docstring_examples.py`` runs the examples of ``oriel.client``.

The other examples use the names of ``oriel``, the classes of ``oriel.testing``, ``Path`` and
``mkdtemp``. They also use a builder ``builder``, a stream ``flights`` (key: airport, value:
``carrier STRING, delay INT, distance INT``) and a table ``airlines`` (key: carrier, value: ``name
STRING, country STRING``).
"""

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import oriel
import oriel.client
import oriel.testing
from oriel import StreamsBuilder
from oriel.storage.files import Files
from tools.site_docstrings import INTERNAL


def _public() -> Iterator[tuple[str, Any]]:
    """Yield each public function, class and method with its name."""
    for module in (oriel, oriel.client, oriel.testing):
        for name in module.__all__:
            thing = getattr(module, name)
            # Types of arguments have no docstring that users can read.
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                yield from _methods(f"{module.__name__}.{name}", thing)


def _methods(owner: str, thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods that a class and its bases in Oriel define, without tests of a suite."""
    for base in reversed(thing.__mro__):
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            if type(member).__module__ == "oriel.client.stores":
                # A descriptor, whose method has the docstring of a read.
                function = getattr(thing, name)
            # The contract documents the methods of failing files.
            is_contract = issubclass(thing, oriel.testing.HookedFiles) and hasattr(Files, name)
            is_public = not name.startswith(("_", "test_")) and not is_contract
            if is_public and base.__module__.startswith("oriel.") and inspect.isfunction(function):
                yield f"{owner}.{name}", function


_PUBLIC = {name: thing for name, thing in _public() if name.removeprefix("oriel.") not in INTERNAL}
#: The class has the example for the methods of the test driver and its stores.
_WITH_EXAMPLE = [
    name
    for name in _PUBLIC
    if not (name.startswith("oriel.testing.") and name.count(".") > 2)
    and not name.startswith("oriel.client.")
]


def _arguments(function: Any) -> list[str]:
    """Return the names of the arguments of a function, without ``self`` and a store's address."""
    if inspect.isclass(function):
        return []
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in {"self", "cls", "address"}]


@pytest.mark.parametrize("name", _PUBLIC)
def test_a_public_name_has_a_complete_docstring(name: str) -> None:
    """Each argument is described, and the first line is a sentence."""
    docstring = inspect.getdoc(_PUBLIC[name]) or ""
    sections = re.split(r"^(Args|Returns|Raises|Example):$", docstring, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    missing = [
        argument
        for argument in _arguments(_PUBLIC[name])
        if not re.search(rf"^    \*{{0,2}}{argument}:", found.get("Args", ""), re.MULTILINE)
    ]
    assert missing == []
    assert re.match(r"[^\n]+\.(\n|$)", docstring), "the first line must be one sentence"


@pytest.mark.parametrize("name", _WITH_EXAMPLE)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    """The example shows what it prints."""
    builder = StreamsBuilder()
    scope = {each: getattr(oriel, each) for each in oriel.__all__}
    scope |= {each: getattr(oriel.testing, each) for each in oriel.testing.__all__}
    scope |= {
        "Path": Path,
        "mkdtemp": mkdtemp,
        "builder": builder,
        "flights": builder.stream("flights", schema="carrier STRING, delay INT, distance INT"),
        "airlines": builder.table("airlines", schema="name STRING, country STRING"),
    }
    docstring = inspect.getdoc(_PUBLIC[name]) or ""
    example = doctest.DocTestParser().get_doctest(docstring, scope, name, None, None)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert example.examples, "add an Example section"
    failures = runner.run(example, out=printed.append).failed
    assert failures == 0, "".join(printed)
