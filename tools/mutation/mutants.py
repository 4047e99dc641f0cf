"""The mutants of a module, made by the operators of cosmic-ray."""

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

#: Operators that need arguments, and one whose mutants only differ for numbers with a sign.
_LEFT_OUT = ("VariableReplacer", "VariableInserter", "NoOp", "ReplaceUnaryOperator_UAdd")

_Position = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """A change of one file: the operator, and which of its occurrences."""

    file: str
    line: int
    operator: str
    occurrence: int

    def mutated(self, code: str) -> str | None:
        """Return the changed code, or None if its bytecode is unchanged."""
        changed = mutate_code(code, get_operator(self.operator)(), self.occurrence)
        return None if changed is None or _dump(changed) == _dump(code) else changed

    def changed_lines(self, code: str) -> tuple[str, str]:
        """Return the lines that differ, before and after, without their indentation."""
        diff = [*difflib.ndiff(code.splitlines(), (self.mutated(code) or code).splitlines())]
        before, after = (
            "\n".join(line[2:].strip() for line in diff if line.startswith(mark))
            for mark in ("- ", "+ ")
        )
        return before, after


def mutants_of(root: Path, module: str) -> list[Mutant]:
    """Return all mutants of a module, in a fixed order, without those of annotations.

    Annotations do not run, or fail at import, so their mutants say nothing about tests.
    """
    path = root / module
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    found = []
    for file in files:
        code = file.read_text(encoding="utf-8")
        spans = [*_annotations(code)]
        tree = get_ast(code)
        for name in sorted(operator_names()):
            if any(left_out in name for left_out in _LEFT_OUT):
                continue
            operator: Any = get_operator(name)()
            starts = (
                start
                for node in ast_nodes(tree)
                for start, _end in operator.mutation_positions(node)
            )
            found += [
                Mutant(file.relative_to(root).as_posix(), start[0], name, occurrence)
                for occurrence, start in enumerate(starts)
                if not any(first <= start < last for first, last in spans)
            ]
    return found


def digest(root: Path, paths: tuple[str, ...]) -> str:
    """Return a digest of files, by which a later run knows that they are the same."""
    found = sha256()
    for path in paths:
        found.update((root / path).read_bytes())
    return found.hexdigest()[:16]


def _dump(code: str) -> str:
    try:
        return ast.dump(ast.parse(code))
    except SyntaxError:
        return ""


def _annotations(code: str) -> Iterator[tuple[_Position, _Position]]:
    """Yield where annotations are: their first position, and the one after their last."""
    for node in ast.walk(ast.parse(code)):
        for field in ("annotation", "returns"):
            found = getattr(node, field, None)
            if isinstance(found, ast.expr):
                assert found.end_lineno is not None
                assert found.end_col_offset is not None
                yield (
                    (found.lineno, found.col_offset),
                    (found.end_lineno, found.end_col_offset),
                )
