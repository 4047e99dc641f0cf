"""Pages that are generated from the code are up to date."""

import re

import pytest

from tests.tidy.project import ROOT, texts
from tools import command_page

_HELP = (ROOT / "src" / "oriel" / "help.txt").read_text()


def test_the_page_of_commands_equals_the_parsers() -> None:
    """It has each argument of each command with its default, and each environment variable."""
    page = command_page.PAGE.read_text()
    assert page == command_page.page(), "run: python -m tools.command_page"


def test_the_environment_variables_are_those_of_the_code() -> None:
    """The table lists each variable of Oriel that the product names, and no others."""
    directories = ("app/", "client/", "pipeline/", "storage/", "demo/")
    named = {
        variable
        for name, text in texts()
        if name.endswith(".py") and name.startswith(directories)
        for variable in re.findall(r"\bORIEL_[A-Z_]+\b", text)
    }
    listed = {name for name in command_page.VARIABLES if name.startswith("ORIEL_")}
    assert listed == named


def test_the_page_has_the_groups_and_commands_of_the_help() -> None:
    """`oriel help` and the page list the same commands in the same groups, in the same order."""
    page = re.sub(
        r"^```.*?^```$", "", command_page.PAGE.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    shown = re.findall(r"^## (\w+(?: \w+)*)$|^### oriel ([a-z-]+)", page, re.MULTILINE)
    of_help = re.findall(r"^([A-Z].*)$|^[-+ ] oriel ([a-z-]+)(?= |$)", _HELP, re.MULTILINE)
    groups = [(group, command) for group, command in shown if group != "Environment variables"]
    assert list(dict.fromkeys(groups)) == [
        one for one in dict.fromkeys(of_help) if not one[1].startswith("--")
    ]


@pytest.mark.parametrize("command", [*command_page.COMMANDS, "dead-letters list"])
def test_no_help_text_repeats_its_default(command: str) -> None:
    """No text repeats its default in parentheses, because the page has a column for it."""
    parser = command_page.parser_of(command.split(maxsplit=1)[0])
    for action in parser._actions:
        assert "(default" not in (action.help or ""), action.dest
