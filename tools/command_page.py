"""Write the page of all commands, their options and the environment variables.

    python -m tools.command_page

``command_page.template`` has the exit codes, examples and links. A line ``{{COMMAND}}`` in it is
replaced by the purpose, the syntax and the options from the parser of the command. Tests compare
the committed page with ``page()``, and the variables with the code.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

from oriel.__main__ import _COMMANDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
_TEMPLATE = Path(__file__).with_suffix(".template")

#: The commands of the package.
COMMANDS = tuple(_COMMANDS)

_OF_OBJECTS = "all, with `--data s3://...`"

#: Names of environment variables -> commands that read them, default, meaning.
VARIABLES = {
    "ORIEL_SCHEMA_REGISTRY_USER_INFO": (
        "`run`, `rebuild`", "not set",
        "User and password for `--schema-registry`, for example `oriel:secret`. Never logged",
    ),
    "ORIEL_TOKEN": ("`get`", "not set", "Token for a service that requires tokens"),
    "ORIEL_CACHE": (
        _OF_OBJECTS, "`oriel-cache-UID` below `TMPDIR`",
        "Local directory for copies of state",
    ),
    "ORIEL_CACHE_BYTES": (
        _OF_OBJECTS, "`4294967296` (4 GiB)",
        "Maximum size of all these copies. Executors of a cluster receive it from the driver",
    ),
    "ORIEL_CACHE_RUN": (
        "workers of `run`", "set by `run`",
        "The run to which a worker belongs. Do not set it yourself",
    ),
    "ORIEL_CLASS_ARCHIVES": (
        "`run`, `rebuild`", "`~/.cache/oriel`",
        "Directory for the archive of Spark's classes (158 MB). Set it to nothing for no archive",
    ),
    "AWS_ENDPOINT_URL": (_OF_OBJECTS, "AWS", "URL of the object store"),
    "AWS_ALLOW_HTTP": (
        _OF_OBJECTS, "`false`", "`true` allows an `http:` URL in `AWS_ENDPOINT_URL`"
    ),
    "AWS_REGION": (_OF_OBJECTS, "not set", "Region of the bucket"),
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN": (
        _OF_OBJECTS, "the role of the machine", "Credentials for the object store"
    ),
    "OTEL_EXPORTER_OTLP_ENDPOINT": (
        "`serve`, with `oriel[otel]`", "no traces",
        "Endpoint for a trace of each request. Other variables of OpenTelemetry also apply",
    ),
    "JAVA_HOME": ("`run`, `rebuild`", "the `java` of `PATH`", "Java 17 or 21 for Spark"),
    "PYSPARK_PYTHON": (
        "`run`, `rebuild`", "the Python that runs the command",
        "Python of the executors of a cluster",
    ),
    "SPARK_CONF_DIR": (
        "`run`, `rebuild`", "the directory of Spark", "Directory of `spark-defaults.conf`"
    ),
    "TMPDIR": (
        "all", "`/tmp`",
        "Directory for shuffle files of Spark and other temporary files, which Oriel deletes",
    ),
}  # fmt: skip

_DEFAULT = re.compile(r"\.? Default: (\S.*?)\.?$")
#: Words that the page shows as code: options, addresses, and names with special characters.
_MARKED = (
    r"--[a-z][a-z-]*",
    r"(?:spark|delta|security)\.[\w.]+(?:=\w+)?",
    r"k8s://https://HOST",
    r"[a-z][a-z0-9]*://[\w.:/-]*\w",
    r"[A-Z]+_[A-Z_]+",
    r"/[a-z]+z\b",
    r"_dead_letters",
    r"ROOT/\S+>\.jsonl",
    r"DATA/\w+",
    r"\.oriel/\w+",
    r"\d{4}-\d\d-\d\dT[\d:]+Z?",
    r"flights#2",
    r"oriel (?:rescale|rebuild|serve|backup|token)",
)
_CODE = re.compile(rf"(?<![\w`'-])({'|'.join(_MARKED)})(?![\w-])")
_VALUE = re.compile(r"[\w.:/-]*[\d/.:][\w.:/-]*|auto|text|off|fail|earliest")
_QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)")


class Option(NamedTuple):
    """An argument of a command as the page shows it."""

    name: str
    default: str
    meaning: str

    def row(self) -> str:
        """Return the row of the table."""
        return f"| `{self.name}` | {self.default} | {self.meaning} |"


def page() -> str:
    """Return the whole page."""
    parsers = dict(_parsers())
    text = _TEMPLATE.read_text(encoding="utf-8")
    named = re.findall(r"^\{\{([a-z -]+)\}\}$", text, re.MULTILINE)
    if sorted(named) != sorted(parsers):
        message = f"{_TEMPLATE.name}: {named} are not the commands {list(parsers)}"
        raise AssertionError(message)
    for command, parser in parsers.items():
        text = text.replace(f"{{{{{command}}}}}", _section(parser))
    return text.replace("{{{VARIABLES}}}", "\n".join(_variables()))


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser that a command creates for itself."""
    module = import_module(_COMMANDS[command][0])
    # A command creates its parser when it runs, so this stops it at the first use.
    with patch.object(argparse.ArgumentParser, "parse_args", _hand_over):
        try:
            module.main([])
        except _HandedOver as handed:
            return handed.parser
    message = f"oriel {command} parsed no arguments"
    raise AssertionError(message)


class _HandedOver(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _hand_over(parser: argparse.ArgumentParser, *_arguments: Any, **_options: Any) -> NoReturn:
    raise _HandedOver(parser)


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command, also commands of two words, with its parser."""
    for command in COMMANDS:
        parser = parser_of(command)
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other way
        if not below:
            yield command, parser
        for name, subparser in below[0].choices.items() if below else ():
            yield f"{command} {name}", subparser


def _section(parser: argparse.ArgumentParser) -> str:
    """Return purpose, syntax and options of a command."""
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]  # noqa: SLF001 - argparse has no other way
    lines = [_marked(parser.description or ""), "", "```text", _syntax(parser, actions), "```", ""]
    if actions:
        lines += ["| argument | default | meaning |", "|---|---|---|"]
        lines += [_option(action).row() for action in actions]
    return "\n".join(lines).rstrip()


def _syntax(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> str:
    """Return the positional and the required arguments. All others are ``[OPTIONS]``."""
    groups = [
        "({})".format(" | ".join(map(_name, group._group_actions)))  # noqa: SLF001 - argparse has no other way
        for group in parser._mutually_exclusive_groups  # noqa: SLF001 - argparse has no other way
        if group.required
    ]
    required = [_name(a) for a in actions if a.option_strings and a.required]
    is_optional = any(a.option_strings and not a.required for a in actions)
    words = [parser.prog, *_positionals(actions), *required, *groups]
    return " ".join([*words, "[OPTIONS]"] if is_optional else words)


def _positionals(actions: Iterable[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if not action.option_strings:
            name = _name(action)
            yield {"?": f"[{name}]", "+": f"{name}..."}.get(str(action.nargs), name)


def _name(action: argparse.Action) -> str:
    """Return how an argument is written, with the placeholder of its value."""
    if not action.option_strings:
        return str(action.metavar or action.dest.upper())
    name = action.option_strings[-1]
    if action.nargs != 0:
        words = action.metavar or "|".join(action.choices or ()) or action.dest.upper()
        name += f" {words if isinstance(words, str) else ' '.join(words)}"
    return name


def _option(action: argparse.Action) -> Option:
    """Return the row of an argument. A default in the help text moves to its column."""
    text = action.help or ""
    from_help = _DEFAULT.search(text)
    if from_help:
        default = _value(from_help[1])
    elif action.required and action.nargs != "?":
        default = "required"
    else:
        default = ""
    meaning = _marked(_DEFAULT.sub("", text))
    escaped = [one.replace("|", "\\|") for one in (_name(action), default, meaning)]
    return Option(escaped[0], escaped[1], escaped[2][:1].upper() + escaped[2][1:])


def _value(text: str) -> str:
    """Return a default: one word is a value, more words are a description."""
    return f"`{text}`" if _VALUE.fullmatch(text) else _marked(text)


def _marked(text: str) -> str:
    """Return a help text with its options, addresses and names as code."""
    return _QUOTED.sub(r"`\1`", _CODE.sub(r"`\1`", text))


def _variables() -> Iterator[str]:
    yield from ("| variable | read by | default | meaning |", "|---|---|---|---|")
    for names, (readers, default, meaning) in VARIABLES.items():
        shown = ", ".join(f"`{name}`" for name in names.split(", "))
        yield f"| {shown} | {readers} | {default} | {meaning} |"


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
