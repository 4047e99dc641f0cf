"""``oriel new NAME``: create a project that you can run at once.

The directory ``template`` has its files: a topology, a sample log, a test with the test driver,
files for containers, and a page that explains them. The command inserts the name of the project.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from shlex import quote
from string import Template

import oriel

#: A valid name of a directory, a checkpoint and a container.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_SUFFIX = ".template"

_NEXT = """\
Created {name}. Try it:

  cd {directory}
  {test}
  {oriel} run topology.py --event-log events --data data --once
  {oriel} serve --data data

While it runs, in another terminal:

  curl localhost:8080/v1/stores/revenue_by_city/current/berlin

Open the dashboard at http://localhost:8080/. To continue, read {readme}.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Create the project and print the next steps. Exit code 1: the directory already exists."""
    parser = argparse.ArgumentParser(
        prog="oriel new",
        description="Create a project that runs at once: a topology, a sample log, a test, files "
        "for containers and a page. An existing directory stays as it is.",
    )
    parser.add_argument(
        "name",
        type=_name,
        help="name of the directory, which the command creates in the current directory",
    )
    name = parser.parse_args(arguments).name
    directory = Path(name)
    if directory.exists():
        sys.stderr.write(f"oriel new: {name} already exists. Choose another name\n")
        return 1
    for path, text in _filled(name):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    command, test = _commands(directory.resolve())
    sys.stdout.write(
        _NEXT.format(
            name=name, directory=directory, test=test, oriel=command, readme=directory / "README.md"
        )
    )
    return 0


def _name(text: str) -> str:
    if _NAME.fullmatch(text):
        return text
    message = "use 1 to 63 lowercase letters, digits, '_' or '-', and begin with a letter or digit"
    raise argparse.ArgumentTypeError(message)


def _filled(name: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield each file of the project: its path in the project and its text."""
    values = {"name": name, "version": oriel.__version__}
    for path, template in _templates(files(__name__) / "template", PurePosixPath()):
        yield path, Template(template.read_text(encoding="utf-8")).substitute(values)


def _templates(
    directory: Traversable, path: PurePosixPath
) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry


def _commands(directory: Path) -> tuple[str, str]:
    """Return the commands that call this ``oriel`` and that run the project's test."""
    checkout = Path(oriel.__file__).resolve().parents[2]
    script = checkout / "oriel"
    if (checkout / "pyproject.toml").is_file() and script.is_file():
        # The script runs tests with the packages of the clone, in the directory of the clone.
        called = quote(str(script))
        return called, f"{called} test {quote(str(directory))}"
    return "oriel", "python -m pytest"
