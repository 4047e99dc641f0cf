"""The text that people read in a file: prose of Markdown, docstrings, comments and messages."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

#: Blocks and spans of code, addresses of links, anchors and comments of HTML.
_NOT_PROSE = re.compile(
    r"^(```|~~~).*?^\1\s*$|<!--.*?-->|`[^`\n]*`|(?<=\])\([^)\s]*\)|^---\n.*?^---$|<[^>\n]+>",
    re.MULTILINE | re.DOTALL,
)
#: Marks of Markdown at the start of a line, and the borders of cells.
_MARKS = re.compile(r"^\s*(?:[#>*+-]+|\d+\.)\s+|[*_]{1,2}(?=\w)|(?<=\w)[*_]{1,2}", re.MULTILINE)
_CELL = re.compile(r"\s*\|\s*")
#: Comments for tools.
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|ruff:|mypy:|!|:?\s*$)")
#: Code in docstrings and comments.
_CODE = re.compile(r"``[^`]*``|`[^`]*`|^\s*(?:>>>|\.\.\.).*$|^ {4,}\S.*$", re.MULTILINE)
#: A string with fewer words is a name and no message.
_MESSAGE_WORDS = 4


def markdown(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a page."""
    prose = _NOT_PROSE.sub(" ", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*+-]|\d+\.|\||#)\s*)", prose):
        for cell in _CELL.split(block):
            plain = " ".join(_MARKS.sub("", cell).split())
            if plain.strip("-: "):
                yield plain


def python(text: str, *, messages: bool) -> Iterator[str]:
    """Yield the docstrings and comments of a module, and its messages if ``messages``."""
    yield from _comments(text)
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)) is not None:
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
            for paragraph in re.split(r"\n\s*\n", _CODE.sub(" x ", docstring)):
                yield " ".join(paragraph.split())
    if messages:
        yield from _messages(tree, docstrings)


def _comments(text: str) -> Iterator[str]:
    """Yield each comment; lines that follow each other are one."""
    lines: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        if token.start[0] != last + 1 and lines:
            yield _CODE.sub(" x ", " ".join(lines))
            lines = []
        lines.append(token.string.lstrip("#: "))
        last = token.start[0]
    if lines:
        yield _CODE.sub(" x ", " ".join(lines))


def _messages(tree: ast.Module, docstrings: set[int]) -> Iterator[str]:
    """Yield each string with several words, with ``x`` for the values in it."""
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in parts or id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            values = (getattr(part, "value", None) for part in node.values)
            found = "".join(value if isinstance(value, str) else "x" for value in values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = node.value
        else:
            continue
        if len(re.findall(r"[A-Za-z]{2,}", found)) >= _MESSAGE_WORDS:
            yield " ".join(_CODE.sub(" x ", found).split())


def of_file(root: Path, name: str) -> Iterator[str]:
    """Yield the texts of a file of the project."""
    text = (root / name).read_text(encoding="utf-8")
    if name.endswith(".md"):
        yield from markdown(text)
    else:
        # Strings of tests are records, keys and topologies.
        yield from python(text, messages=not name.startswith(("tests/", "benchmarks/")))
