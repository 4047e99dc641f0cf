"""Pages that are written out of the code are what the code says today."""

import re

from tests.tidy.project import ROOT, texts
from tools import configuration


def test_the_configuration_is_that_of_the_commands() -> None:
    """Each option of each command with its default, and each variable of the environment."""
    page = configuration.PAGE.read_text()
    assert page == configuration.page(), "run: python -m tools.configuration"


def test_the_variables_of_the_environment_are_those_of_the_code() -> None:
    """The table lists each variable of ours that the product names, and no others."""
    folders = ("app/", "client/", "pipeline/", "storage/", "demo/")
    named = {
        variable
        for name, text in texts()
        if name.endswith(".py") and name.startswith(folders)
        for variable in re.findall(r"\bORIEL_[A-Z_]+\b", text)
    }
    listed = {name for name in configuration.VARIABLES if name.startswith("ORIEL_")}
    assert listed == named


def test_every_command_has_a_section() -> None:
    """What `oriel` can do besides telling of itself is configured on the page."""
    sections = re.findall(r"^## oriel ([a-z-]+)", configuration.PAGE.read_text(), re.MULTILINE)
    assert list(dict.fromkeys(sections)) == list(configuration.COMMANDS)
    assert f"oriel {sections[0]} " in (ROOT / "README.md").read_text()
