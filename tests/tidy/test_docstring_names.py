"""Docstrings and comments name fields, exceptions and functions that exist."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from tests.tidy.project import ROOT, Module, modules, offenders

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Names of Kafka, Flink, Java, nginx and LMDB, an example of a column, and keywords of Python.
_EXTERNAL = {
    "BranchedKStream", "CogroupedKStream", "Double", "DoubleSerializer", "FloatSerializer",
    "IntegerSerializer", "KGroupedStream", "KTableAggregate", "KeyValueStore",
    "KeyedProcessFunction", "LongSerializer", "ProcessorContext", "ShortSerializer",
    "SubscriptionSendProcessorSupplier", "_1_delay", "as_", "mp_lower", "read_uncommitted",
    "split_clients",
}  # fmt: skip
#: Names in double backticks that only code has: snake_case and CamelCase. Not ``PLACEHOLDER``.
_NAME = re.compile(r"(?<![\w.\\-])(?:[a-z]*(?:_[a-z0-9]+)+_?|[A-Z]+[a-z]\w*)(?![\w-])")


def _docstrings(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in module.nodes:
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node, text


def _entries(text: str, section: str) -> list[str]:
    """Return the names that a section of a docstring explains."""
    found = re.search(rf"^{section}:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    lines = re.findall(r"^    (\w[\w., ]*):", found[1], re.MULTILINE) if found else []
    return [name.strip().split(".")[-1] for line in lines for name in line.split(",")]


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names and the words of strings in code."""
    docstrings: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from () if node in docstrings else re.findall(r"\w+", node.value)
        for name in ("id", "attr", "arg", "name", "asname"):
            if isinstance(value := getattr(node, name, None), str):
                yield from value.split(".")


def _unknown(module: Module, source: str, known: set[str]) -> Iterator[str]:
    prose = re.findall(r"#.*", source)
    for node, text in _docstrings(module):
        prose.append(text)
        for name in _entries(text, "Raises"):
            if name not in known and not hasattr(builtins, name):
                yield f"{module.name}: {name} (raised)"
        # A class without a base has all its attributes in its own body.
        is_plain_class = isinstance(node, ast.ClassDef) and not node.bases
        explained = _entries(text, "Attributes") if is_plain_class else _entries(text, "Args")
        if explained:
            own = set(_names(ast.walk(node)))
            yield from (
                f"{module.name}: {name} (explained)" for name in explained if name not in own
            )
    for quoted in (each for text in prose for each in re.findall(r"``([^`]+)``", text)):
        yield from (f"{module.name}: {name}" for name in _NAME.findall(quoted) if name not in known)


def test_docstrings_and_comments_name_what_exists() -> None:
    """After a name changes, no docstring and no comment has the old name."""
    known = _EXTERNAL.union(*(_names(module.nodes) for module in modules()))
    known |= {part for each in modules() for part in each.path.with_suffix("").parts}
    found = [name for each in modules() for name in _unknown(each, each.path.read_text(), known)]
    assert found == [], f"use the current name:{offenders(found)}"


def test_an_old_name_is_found() -> None:
    """Fields, arguments, exceptions and names in backticks are checked."""
    source = '''
class Record:
    """A record of ``other_module`` or ``old_module``.

    Attributes:
        offset: The offset.
        place: The offset, before it was renamed.
    """

    offset: int

    def read(self):
        """Read it. ``Reader`` and ``OldReader`` do.

        Args:
            size: The size, before the argument was removed.

        Raises:
            OSError, Failed: The file is damaged.
            OldFailed: The file is damaged.
        """
        # See ``Record.read`` and ``old_read``.
'''
    known = {"other_module", "Reader", "Record", "Failed", "read"}
    module = Module(ROOT / "m.py", ast.parse(source), len(source))
    assert sorted(_unknown(module, source, known)) == [
        "m.py: OldFailed (raised)",
        "m.py: OldReader",
        "m.py: old_module",
        "m.py: old_read",
        "m.py: place (explained)",
        "m.py: size (explained)",
    ]
