"""Every block of code on the pages is run by a test, or marked as output or with a reason."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.pages import CHECKED, IN_SPARK, NOT_RUN, RUN_BY, Block, blocks, pages
from tests.tidy.project import ROOT, offenders
from tools.command_page import COMMANDS, parser_of

_ALL = [block for page in pages() for block in blocks(page)]
_NOT_RUN = [block for block in _ALL if block.note.startswith(NOT_RUN)]
_RUN_ELSEWHERE = [block for block in _ALL if block.note.startswith(RUN_BY)]
#: What ends a command in a line of the shell.
_OPERATORS = {">", ">>", "|", "&&"}
#: Commands of the checkout's script alone.
_OF_THE_SCRIPT = {"bench", "docs", "help", "lock", "test", "topology"}


def test_every_block_is_run_or_marked() -> None:
    """A test runs the language of the block, or a comment says why no test runs it."""
    unmarked = [
        block.place
        for block in _ALL
        if block.note != IN_SPARK and block.is_run and block.language not in CHECKED
    ]
    assert not unmarked, f"give these a language of pages.py, or a reason:{offenders(unmarked)}"


def test_code_stands_between_fences() -> None:
    """Neither an indented block nor an indented fence hides from the tests."""
    hidden = []
    for page in pages():
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        in_list = False
        for line, before in zip(outside.splitlines()[1:], outside.splitlines(), strict=False):
            if line and not line.startswith(" "):
                in_list = bool(re.match(r"[-*] |\d+\. ", line))
            indented = line.startswith("    ") and not before and not in_list
            if indented or line.lstrip().startswith("```"):
                hidden.append(f"{page.relative_to(ROOT)}: {line}")
    assert not hidden, f"put these between fences:{offenders(hidden)}"


def test_a_reason_names_tests_that_are_there() -> None:
    """A comment of a block that no test runs has the reason, and only names existing tests."""
    missing = [
        f"{block.place}: {path}"
        for block in _NOT_RUN
        for path in re.findall(r"tests/[\w/]+\.py", block.note)
        if not (ROOT / path).exists()
    ]
    assert not missing, f"no such tests:{offenders(missing)}"
    assert _NOT_RUN
    bare = [block.place for block in _NOT_RUN if not block.note.removeprefix(NOT_RUN).strip()]
    assert bare == [], f"say why these are not run:{offenders(bare)}"


def test_a_block_names_the_test_that_runs_it() -> None:
    """The module exists and names the page."""
    wrong = [
        block.place
        for block in _RUN_ELSEWHERE
        if not _names(ROOT / block.note.removeprefix(RUN_BY), block.page.name)
    ]
    assert wrong == [], f"these tests do not run the page:{offenders(wrong)}"


def _names(module: Path, page: str) -> bool:
    return module.exists() and page in module.read_text()


@pytest.mark.parametrize(
    "block",
    [b for b in _NOT_RUN + _RUN_ELSEWHERE if b.language == "sh"],
    ids=lambda block: block.place,
)
def test_commands_of_other_tests_are_understood(block: Block) -> None:
    """Each `oriel` command has a name and options that exist, also where nobody runs it."""
    for command, options in _commands(block.text):
        if command not in _OF_THE_SCRIPT:
            assert command in COMMANDS, block.place
            # It ends the process where an option is unknown or missing.
            parser_of(command).parse_args(options)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The `oriel` commands of a shell's lines, with their arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        words = words[: next((words.index(one) for one in words if one in _OPERATORS), None)]
        # Not an assignment like DIRECTORY=/etc/oriel.
        if words and words[0].split("/")[-1] == "oriel" and "=" not in words[0]:
            yield words[1], words[2:]


@pytest.mark.parametrize("language", ["json", "toml"])
def test_data_can_be_read(language: str) -> None:
    """Each block of JSON and TOML is that."""
    read = {"json": json.loads, "toml": tomllib.loads}[language]
    of_it = [block for block in _ALL if block.language == language]
    assert of_it
    for block in of_it:
        for part in [block.text] if language == "toml" else _documents(block.text):
            assert read(part), block.place


def _documents(text: str) -> list[str]:
    """The JSON documents of a block: one, or a line each."""
    lines = text.splitlines()
    return lines if all(line.startswith("{") for line in lines) else [text]
