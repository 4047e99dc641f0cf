"""The extras of the distribution and the groups that the locks come of: the same packages."""

import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.tidy.project import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]


def _parsed(lines: list[Any]) -> dict[str, Requirement]:
    """Package -> requirement; groups and extras that are included are left out."""
    requirements = [Requirement(line) for line in lines if isinstance(line, str)]
    return {each.name: each for each in requirements if each.name != "oriel"}


@pytest.mark.parametrize("extra", ["app", "pipeline"])
def test_an_extra_names_the_packages_of_its_group(extra: str) -> None:
    """What the images install, `pip install 'oriel[...]'` brings, on the same systems."""
    extras, group = _parsed(EXTRAS[extra]), _parsed(GROUPS[extra])
    assert set(extras) == set(group)
    assert {name: each.marker for name, each in extras.items()} == {
        name: each.marker for name, each in group.items()
    }


@pytest.mark.parametrize("extra", ["app", "client", "pipeline", "demo"])
def test_what_is_tested_lies_in_the_range_of_the_extra(extra: str) -> None:
    """A user may get the very versions that the tests run with."""
    tested = _parsed([*GROUPS["app"], *GROUPS["pipeline"], *GROUPS["producer"], *GROUPS["dev"]])
    for name, requirement in _parsed(EXTRAS[extra]).items():
        pins = [each.version for each in tested[name].specifier if each.operator == "=="]
        if pins:
            assert Version(pins[0]) in requirement.specifier, name
        else:
            # A group without a pin is a bound that the extra keeps, too.
            assert set(tested[name].specifier) <= set(requirement.specifier), name


def test_the_build_lock_has_what_a_build_needs() -> None:
    """The images and `./oriel` build without isolation, with what the group names."""
    needed = _parsed(PROJECT["build-system"]["requires"])
    assert set(needed) <= set(_parsed(GROUPS["build"]))


def test_the_command_names_extras_that_exist() -> None:
    """What `oriel run` says without its packages can be installed."""
    from oriel.__main__ import _COMMANDS  # noqa: PLC0415

    assert {extra for _, extra in _COMMANDS.values()} <= set(EXTRAS)
