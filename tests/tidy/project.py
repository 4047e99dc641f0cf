"""The project's files and its parsed modules, for the tidy tests."""

import ast
import gc
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from oriel.__main__ import main

ROOT = Path(__file__).resolve().parents[2]

#: Directories of code, in the order of allowed imports.
PRODUCT = ("storage", "pipeline", "app", "client")

_NOT_OURS = {".git", ".venv", ".oriel", ".pytest_cache", ".mypy_cache", ".ruff_cache",
             ".hypothesis", "__pycache__", "node_modules", "build"}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file of the project."""

    path: Path
    tree: ast.Module
    lines: int

    @property
    def name(self) -> str:
        """Return the path relative to the root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_test(self) -> bool:
        """Return whether pytest collects it."""
        return self.path.name.startswith("test_")

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all nodes of its tree, which all tests share."""
        return tuple(ast.walk(self.tree))

    def functions(self) -> Iterator[Function]:
        """Yield every function, including methods and nested functions."""
        for node in self.nodes:
            if isinstance(node, Function):
                yield node

    def imported(self) -> Iterator[tuple[str, int]]:
        """Yield the dotted name and the line of every import in the module."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node.lineno
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module, node.lineno


@cache
def files() -> tuple[Path, ...]:
    """Return every file of the project, without files that tools create."""
    return tuple(sorted(_walk(ROOT)))


@cache
def modules() -> tuple[Module, ...]:
    """Return every Python file, parsed.

    The trees are a million permanent objects. Garbage collection would check them repeatedly, and
    need four times as long as creating them.
    """
    found = []
    gc.disable()
    try:
        for path in files():
            if path.suffix == ".py":
                text = path.read_text(encoding="utf-8")
                found.append(Module(path, ast.parse(text, str(path)), len(text.splitlines())))
    finally:
        gc.freeze()
        gc.enable()
    return tuple(found)


def modules_of(*directories: str) -> list[Module]:
    """Return the modules below ``directories`` (paths from the root)."""
    return [
        m
        for m in modules()
        if m.name.startswith(tuple(f"{directory}/" for directory in directories))
    ]


def texts() -> Iterator[tuple[str, str]]:
    """Yield name and content of every text file that people write."""
    for path in files():
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@cache
def options_of(command: str) -> frozenset[str]:
    """Return the long options that ``oriel COMMAND --help`` lists."""
    with redirect_stdout(io.StringIO()) as output, pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    return frozenset(re.findall(r"^  (--[a-z][a-z-]*)", output.getvalue(), re.MULTILINE))


def offenders(found: list[str]) -> str:
    """Return the places that break a rule, formatted for the assert's message."""
    return "\n  " + "\n  ".join(found)


def _walk(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.name in _NOT_OURS or path.suffix == ".pyc" or path.is_symlink():
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path
