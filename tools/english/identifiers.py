"""Which identifiers of Python modules have words of the old vocabulary."""

import ast
import re
from collections.abc import Iterator

from tools.english.counting import ROOT, names

#: Words that an identifier must not have, from the table in CONTRIBUTING.md. The right words depend
#: on the subject, for example `emitted` or `logged` for `told`.
BANNED = frozenset(
    [
        "anew",
        "answer",
        "answered",
        "answers",
        "asked",
        "asks",
        "aside",
        "behind",
        "beside",
        "clocks",
        "covered",
        "covers",
        "decided",
        "door",
        "effect",
        "fault",
        "faults",
        "floor",
        "folder",
        "folders",
        "gone",
        "hearer",
        "hears",
        "heard",
        "hop",
        "house",
        "letters",
        "mend",
        "mended",
        "mends",
        "partner",
        "partners",
        "resumption",
        "room",
        "silent",
        "stamp",
        "stamped",
        "stamper",
        "suborder",
        "tell",
        "tells",
        "told",
        "touched",
        "upkeep",
        "who",
        "whoever",
    ]
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: These words are right after another word: `dead_letters`, `wall_clocks`.
_AFTER = {"letters": "dead", "clocks": "wall"}


def odd_identifiers(source: str) -> list[str]:
    """Return the identifiers that a module defines and that have a banned word, sorted."""
    return sorted({name for name in _defined(ast.parse(source)) if _is_odd(name)})


def identifier_totals() -> dict[str, int]:
    """Return how many odd identifiers each module of the project defines, without those of 0."""
    modules = [name for name in names() if name.endswith(".py")]
    found = {name: len(odd_identifiers((ROOT / name).read_text())) for name in modules}
    return {name: total for name, total in found.items() if total}


def _is_odd(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return any(
        word in BANNED and (word not in _AFTER or _AFTER[word] != before)
        for before, word in zip(["", *words], words, strict=False)
    )


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                # The name of a test is a sentence.
                if not name.startswith("test_"):
                    yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
