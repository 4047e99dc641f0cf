"""The command `oriel`, and the extras of the distribution, which have the packages of the locks."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import oriel
from oriel import project
from oriel.__main__ import _COMMANDS, main
from tests.tidy.project import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]


def _parsed(lines: list[Any]) -> dict[str, Requirement]:
    """Return the requirement of each package, without included groups and extras."""
    requirements = [Requirement(line) for line in lines if isinstance(line, str)]
    return {each.name: each for each in requirements if each.name != "oriel"}


@pytest.mark.parametrize("extra", ["app", "pipeline"])
def test_an_extra_names_the_packages_of_its_group(extra: str) -> None:
    """`pip install 'oriel[...]'` installs the packages of the images, on the same systems."""
    extras, group = _parsed(EXTRAS[extra]), _parsed(GROUPS[extra])
    assert set(extras) == set(group)
    assert {name: each.marker for name, each in extras.items()} == {
        name: each.marker for name, each in group.items()
    }


@pytest.mark.parametrize("extra", ["app", "client", "pipeline", "demo"])
def test_what_is_tested_lies_in_the_range_of_the_extra(extra: str) -> None:
    """The extras allow the versions that the tests run with."""
    groups = ("app", "pipeline", "producer", "runtime", "dev")
    tested = _parsed([line for group in groups for line in GROUPS[group]])
    for name, requirement in _parsed(EXTRAS[extra]).items():
        pins = [each.version for each in tested[name].specifier if each.operator == "=="]
        if pins:
            assert Version(pins[0]) in requirement.specifier, name
        else:
            # A group without a pin has a bound, which the extra must also have.
            assert set(tested[name].specifier) <= set(requirement.specifier), name


def test_the_build_lock_has_what_a_build_needs() -> None:
    """The images and `./oriel` build without isolation, with what the group names."""
    needed = _parsed(PROJECT["build-system"]["requires"])
    assert set(needed) <= set(_parsed(GROUPS["build"]))


def test_the_command_names_extras_that_exist() -> None:
    """The extras that `oriel run` names in its error without packages exist."""
    assert {extra for _, extra in _COMMANDS.values()} <= set(EXTRAS)


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        ([], 0, "oriel demo", ""),
        (["--help"], 0, "oriel demo", ""),
        (["--version"], 0, f"oriel {oriel.__version__}\n", ""),
        (["topology"], 0, "StreamsBuilder", ""),
        (["statsu"], 2, "", "'statsu' is not a command. Did you mean 'status'? `oriel help`"),
        (["xyz"], 2, "", "'xyz' is not a command. `oriel help` lists all commands"),
        (["token", "--help"], 0, "--key-prefix", ""),
    ],
)
def test_the_command_answers(
    arguments: list[str], code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help and versions go to the standard output, errors to the standard error output."""
    try:
        returned = main(arguments)
    except SystemExit as ended:  # argparse ends `token --help` like this.
        returned = ended.code  # type: ignore[assignment]
    written = capsys.readouterr()
    assert returned == code
    assert out in written.out
    assert err in written.err
    assert bool(written.err) == bool(err)


def test_a_missing_package_names_the_extra_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing module of Oriel itself is an error of the package, so it is raised."""
    monkeypatch.setitem(_COMMANDS, "serve", ("uvicorm.main", "app"))
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == (
        "oriel serve: uvicorm is not installed. Run pip install 'oriel[app]'\n"
    )
    monkeypatch.setitem(_COMMANDS, "serve", ("oriel.app.serve", "app"))
    with pytest.raises(ModuleNotFoundError):
        main(["serve"])


def test_a_new_project_names_the_installed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a checkout, the script `./oriel` does not exist."""
    assert project._commands(tmp_path)[0].endswith("/oriel")
    monkeypatch.setattr(oriel, "__file__", str(tmp_path / "a" / "b" / "oriel" / "__init__.py"))
    assert project._commands(tmp_path) == ("oriel", "python -m pytest")


def test_an_interrupt_during_the_imports_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C directly after the start ends a command without a stack trace."""

    def interrupted(_module: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oriel.__main__.import_module", interrupted)
    assert main(["run"]) == 130
    assert capsys.readouterr().err == "oriel: interrupted\n"
