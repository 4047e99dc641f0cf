"""CHANGELOG.md has the newest changes by kind, and one list of capabilities for each version."""

import re

from tests.tidy.project import ROOT

_CHANGELOG = ROOT / "CHANGELOG.md"
_KINDS = ["Added", "Changed", "Fixed", "Removed"]


def _sections() -> dict[str, str]:
    """The text of each version by its title, newest first."""
    _, *parts = re.split(r"^## (.*)\n", _CHANGELOG.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_newest_changes_are_by_kind() -> None:
    """The first section is "Unreleased", with the four kinds in their order."""
    first, *versions = _sections()
    assert first == "Unreleased"
    assert versions
    assert re.findall(r"^### (.*)$", _sections()[first], flags=re.MULTILINE) == _KINDS


def test_a_version_is_a_list_of_capabilities() -> None:
    """Each entry of a version is one line, below the title of its group."""
    _, *versions = _sections().values()
    for text in versions:
        groups = re.split(r"^### .*\n", text, flags=re.MULTILINE)[1:]
        assert [group for group in groups if not group.strip()] == []
        lines = [line for group in groups for line in group.splitlines() if line]
        assert [line for line in lines if not re.fullmatch(r"- [A-Z].*\.", line)] == []
