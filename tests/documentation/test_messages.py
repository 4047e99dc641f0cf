"""The messages of docs/troubleshooting/messages.md are in the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.tidy.project import ROOT, texts

_PAGE = ROOT / "docs" / "troubleshooting" / "messages.md"
_MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_DIRECTORIES = ("app/", "client/", "demo/", "pipeline/", "storage/")
#: The text for a value in a message, on the page and in the strings of the code.
_VALUE = "..."


def _written(node: ast.expr) -> Iterator[str]:
    """Return the strings of an expression, with ``...`` for each value of an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else _VALUE for part in node.values)
        yield "".join(map(str, parts))


@cache
def _strings() -> str:
    """Return the strings of the product, one per line."""
    trees = (
        ast.parse(text)
        for name, text in texts()
        if name.endswith(".py") and name.startswith(_DIRECTORIES)
    )
    written = (
        string
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        for string in _written(node)
    )
    # A message of Python's logging has %s for a value.
    return "\n".join(re.sub(r"%[sd]", _VALUE, " ".join(string.split())) for string in written)


def _parts(message: str) -> str:
    """Return a pattern of the fixed parts of a message, in order and in one string."""
    parts = (re.escape(part.strip()) for part in message.split(_VALUE))
    return ".*".join(part for part in parts if part)


@pytest.mark.parametrize("message", _MESSAGE.findall(_PAGE.read_text()))
def test_the_fixed_parts_of_a_message_are_in_the_code(message: str) -> None:
    """A message of the page is a string of the product, with ``...`` for each value."""
    assert re.search(_parts(message), _strings()), "write the message as the code has it"


def test_the_page_has_messages_of_each_program() -> None:
    """The page has at least 50 different messages, each once."""
    messages = _MESSAGE.findall(_PAGE.read_text())
    assert len(messages) >= 50
    assert len(set(messages)) == len(messages)
