"""The blocks of code of the pages, and the tests that run them, by language.

- `python`: A page runs from top to bottom, in `test_python_blocks.py`.
- `sh`, `py`: Run with a service, in `tests/system/documentation/test_documented_commands.py`.
- `java`: Compiled with Kafka Streams, in `tests/system/documentation/test_peers_code.py`.
- `diff`: Applied to the code, in `tests/tidy/test_documentation.py`.
- `ts`: Compiled and run with node, in `tests/system/typescript/test_typescript_client.py`.
- `json`, `toml`: Parsed, in `test_blocks.py`.
- `nginx`: Run in `tests/system/operations/test_routing.py`.
- `text`: Output or a drawing, which no test runs.

A comment before a block overrides this: `<!-- in a Spark session -->` (`test_peers_code.py`),
`<!-- over a table -->` (`test_table_queries.py`), `<!-- run by tests/...py -->` (that test runs
it), or `<!-- not run: REASON -->`. After such a comment, the block can be of any language.
A block that begins with `# NAME.py` (or another suffix) is a file that later blocks can use.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tidy.project import ROOT, files

#: Languages that a test runs, reads or compares.
CHECKED = {"python", "sh", "py", "java", "ts", "diff", "json", "toml", "nginx", "text"}
IN_SPARK = "in a Spark session"
OVER_A_TABLE = "over a table"
NOT_RUN = "not run: "
RUN_BY = "run by "

_BLOCK = re.compile(
    r"(?:^<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A fenced block. Lines count from 1. ``note`` is the comment before the block, or ''."""

    page: Path
    line: int
    note: str
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """The name of the file in the first line, or None."""
        match = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return match[1] if match else None

    @property
    def is_run(self) -> bool:
        """True if a test of all pages runs the block."""
        return not self.note.startswith((NOT_RUN, RUN_BY))

    @property
    def place(self) -> str:
        """Page and line for the message of a failed test."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """Return all pages for readers: README.md, similar files, and docs/ without decisions."""
    return tuple(
        page for page in files() if page.suffix == ".md" and page.parent.name != "decisions"
    )


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return tuple(
        Block(page, text.count("\n", 0, match.start(2)) + 1, match[1] or "", match[2], match[3])
        for match in _BLOCK.finditer(text)
    )


def typed_pages() -> list[Path]:
    """Return the pages with blocks that a reader types: commands and requests."""
    return [
        page
        for page in pages()
        if any(block.language in {"sh", "py"} and block.is_run for block in blocks(page))
    ]
