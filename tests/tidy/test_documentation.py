"""The pages are correct: links, commands and options."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.project import PRODUCT, ROOT, files, modules_of, offenders, options_of, texts

COMMANDS = (
    "backup", "clock", "compact", "dead-letters", "demo", "diff", "doctor", "example", "get", "new",
    "rebuild", "rescale", "restore", "retire", "run", "serve", "sql", "status", "token", "topology",
    "test", "bench", "docs", "verify", "lock", "help",
)  # fmt: skip
#: Commands of the package, which have their own options.
PACKAGED = (
    "backup", "clock", "compact", "dead-letters list", "dead-letters replay", "demo", "diff",
    "doctor", "get", "new", "rebuild", "rescale", "restore", "retire", "run", "serve", "sql",
    "status", "token", "verify",
)  # fmt: skip

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@functools.cache
def _help() -> str:
    # From another directory, because the script finds its own directory.
    ended = subprocess.run(
        [ROOT / "oriel", "help"], cwd="/", capture_output=True, text=True, check=True, timeout=60
    )
    return ended.stdout


def _pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def test_links_resolve() -> None:
    """Each relative link of a page leads to a file."""
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in _pages()
        for link in _LINK.findall(page.read_text())
        if ":" not in link and not (page.parent / link.split("#")[0]).exists()
    ]
    assert not broken, f"correct or remove these links:{offenders(broken)}"


def test_commands_of_the_pages_exist() -> None:
    """`oriel help` lists each command that a page calls with `./oriel`."""
    unknown = [
        f"{page.relative_to(ROOT)}: oriel {command}"
        for page in _pages()
        for command in re.findall(r"\./oriel ([a-z][a-z-]*)", page.read_text())
        if not re.search(rf"^  oriel {command}(?![a-z-])", _help(), flags=re.MULTILINE)
    ]
    assert not unknown, f"no such commands:{offenders(unknown)}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command: str) -> None:
    """`oriel help` lists each command."""
    assert re.search(rf"^  oriel {command}(?![a-z-])", _help(), flags=re.MULTILINE)


def test_the_script_has_the_commands_of_its_help() -> None:
    """The list above, the script's own dispatch and `oriel help` name the same commands."""
    ended = set(re.findall(r"^  oriel ([a-z][a-z-]*)", _help(), flags=re.MULTILINE))
    dispatch = (ROOT / "oriel").read_text().split("case $command in")[1]
    labels = re.findall(r"^    ([a-z |-]+?)(?: \| --help.*)?\)", dispatch, flags=re.MULTILINE)
    known = {name.strip() for label in labels for name in label.split("|")}
    assert ended == set(COMMANDS) == known


def test_an_unknown_command_is_refused() -> None:
    """A mistyped command ends with code 2 and the list of commands, and installs nothing."""
    ended = subprocess.run(
        [ROOT / "oriel", "sevre"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 2
    assert "'sevre' is not a command" in ended.stderr
    assert "oriel serve" in ended.stderr


@pytest.mark.parametrize("command", PACKAGED)
def test_every_option_is_documented(command: str) -> None:
    """docs/reference/commands.md has a row for each option of each command, and no others."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    section = re.split(rf"### oriel {command}\n", page)[1].split("\n##")[0]
    documented = set(re.findall(r"^\| `(--[a-z][a-z-]*)", section, flags=re.MULTILINE))
    assert options_of(command) == documented


def test_every_environment_variable_is_documented() -> None:
    """docs/reference/commands.md has each environment variable that the product reads."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    pattern = re.compile(r"\bORIEL_[A-Z_]+\b")
    directories = ("app/", "client/", "pipeline/", "storage/", "demo/")
    unknown = [
        f"{name}: {variable}"
        for name, text in texts()
        if name.endswith(".py") and name.startswith(directories)
        for variable in sorted(set(pattern.findall(text)))
        if variable not in page
    ]
    assert not unknown, f"add a line to docs/reference/commands.md:{offenders(unknown)}"


def test_the_architecture_page_names_every_package() -> None:
    """The diagram of the packages has each package of the product."""
    picture = (ROOT / "docs" / "contributing" / "architecture.md").read_text().split("```")[1]
    packages = {Path(m.name).parent for m in modules_of(*PRODUCT) if m.path.name == "__init__.py"}
    missing = [package.as_posix() for package in sorted(packages) if package.name not in picture]
    assert not missing, f"draw these in docs/contributing/architecture.md:{offenders(missing)}"


def test_the_words_of_the_code_are_in_their_files() -> None:
    """Each noun of the architecture page is in the file that the page names for it."""
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    section = page.partition("## Words of the code\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z][^|]*) \| [^|]* \| `([^`]+)` \|$", section, re.MULTILINE)
    assert rows
    missing = [
        f"{noun}: {path}"
        for noun, path in rows
        if noun.split(" (")[0].replace("-", " ").replace(" ", "")
        not in re.sub(r"[\s_#-]", "", (ROOT / path).read_text().lower())
    ]
    assert not missing, f"name the file of each noun:{offenders(missing)}"
