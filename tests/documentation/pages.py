"""The blocks of code of the pages, and who runs them.

| language | |
|---|---|
| `python` | runs as it stands, a page from top to bottom (`test_python_blocks.py`) |
| `sh`, `py` | run beside a service (`tests/system/documentation/test_documented_commands.py`) |
| `java` | is compiled against Kafka Streams (`tests/system/documentation/test_peers_code.py`) |
| `diff` | fits the code (`tests/tidy/test_documentation.py`) |
| `json`, `toml` | can be read (`test_blocks.py`) |
| `nginx` | is what `tests/system/operations/test_routing.py` runs |
| `text` | is output, or a drawing |

A comment before a block says otherwise: `<!-- in a Spark session -->` (`test_peers_code.py`),
`<!-- over a table -->` (`test_table_queries.py`), `<!-- run by tests/...py -->` (that test runs
it), or `<!-- not run: REASON -->`. After such a comment, the block can be of any language.
A block that begins with `# NAME.py` (or another ending) is that file, for the blocks behind it.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tidy.project import ROOT, files

#: Languages that somebody runs, reads or compares.
CHECKED = {"python", "sh", "py", "java", "diff", "json", "toml", "nginx", "text"}
IN_SPARK = "in a Spark session"
OVER_A_TABLE = "over a table"
NOT_RUN = "not run: "
RUN_BY = "run by "

_BLOCK = re.compile(
    r"(?:^<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A fenced block: the line of its fence, counted from 1; the comment before it, or ''."""

    page: Path
    line: int
    note: str
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """The file that it is, if its first line says so."""
        match = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return match[1] if match else None

    @property
    def is_run(self) -> bool:
        """Whether the tests of this directory, or of all pages, run it."""
        return not self.note.startswith((NOT_RUN, RUN_BY))

    @property
    def place(self) -> str:
        """Page and line, as a failed test tells them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """Every page for people: README.md and its like, and docs/ without the decisions."""
    return tuple(
        page for page in files() if page.suffix == ".md" and page.parent.name != "decisions"
    )


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """The blocks of a page, in order."""
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
