"""Write the page of all options of all commands and all environment variables.

    python -m tools.configuration

The options are read from the commands' own parsers. A test compares the committed page with
``page()``, and the variables with those that the product's code names.
"""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

from oriel.__main__ import _COMMANDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"

#: ``run`` first: what a command shares with one above it is told there.
COMMANDS = ("run", *(name for name in _COMMANDS if name != "run"))

#: Variable of the environment -> who reads it, its default, what it says.
VARIABLES = {
    "ORIEL_SCHEMA_REGISTRY_USER_INFO": (
        "`run`, `rebuild`", "none", "`user:password` for the registry of `--schema-registry`"
    ),
    "ORIEL_TOKEN": ("`get`", "none", "the token for a service that asks for one"),
    "ORIEL_CACHE": (
        "all, with `--data s3://...`", "`oriel-cache-UID` below `TMPDIR`",
        "folder for copies of state on this machine",
    ),
    "ORIEL_CACHE_BYTES": (
        "all, with `--data s3://...`", "4294967296", "how much these copies may have together"
    ),
    "ORIEL_CACHE_RUN": ("workers of `run`", "set by `run`", "which run a worker belongs to"),
    "AWS_ENDPOINT_URL": ("all, with `--data s3://...`", "AWS", "address of the object store"),
    "AWS_ALLOW_HTTP": (
        "all, with `--data s3://...`", "`false`", "`true`: the endpoint may be an `http:` address"
    ),
    "AWS_REGION": ("all, with `--data s3://...`", "none", "region of the bucket"),
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN": (
        "all, with `--data s3://...`", "the machine's role", "who asks the object store"
    ),
    "OTEL_EXPORTER_OTLP_ENDPOINT": (
        "`serve`, with `oriel[otel]`", "no traces",
        "where traces of requests go; OpenTelemetry's other variables hold, too",
    ),
    "JAVA_HOME": ("`run`, `rebuild`", "the `java` of `PATH`", "Java 17 or 21 for Spark"),
    "PYSPARK_PYTHON": (
        "`run`, `rebuild`", "the Python that runs them", "Python of the executors of a cluster"
    ),
    "SPARK_CONF_DIR": ("`run`, `rebuild`", "Spark's", "folder of `spark-defaults.conf`"),
    "TMPDIR": (
        "all", "`/tmp`", "folder for what Spark shuffles and spills, and for other scratch files"
    ),
}  # fmt: skip

_TEXT = """\
# Configuration

Written by `python -m tools.configuration` from the parsers of the commands; a test keeps it so.
What the options are for is told command by command in [commands.md](commands.md); which of them to
turn when something is slow or large, in [operations.md](../how-to/operations.md#tuning).

Oriel has no configuration file: a pipeline and a service are what their command lines say, and
secrets are in files or in the environment. What is kept of a stream (windows, grace, retention,
when rows are written) is said by its [topology](topology/builder.md).
"""
_DEFAULT = re.compile(r" ?\(default:? ([^)]*)\)|\.? Default: (\S.*?)\.?$")


class Option(NamedTuple):
    """An option as the page shows it."""

    name: str
    default: str
    meaning: str


def page() -> str:
    """The whole page."""
    lines = [_TEXT]
    told: dict[Option, str] = {}
    for command, parser in _parsers():
        lines += [f"## oriel {command}", ""]
        options = [_option(action) for action in parser._actions if _is_option(action)]  # noqa: SLF001 - argparse has no other way
        own = [option for option in options if option not in told]
        if own:
            lines += ["| option | default | |", "|---|---|---|"]
            lines += [f"| `{o.name}` | {o.default} | {o.meaning} |" for o in own]
            lines.append("")
        for other in dict.fromkeys(told[option] for option in options if option in told):
            names = ", ".join(f"`{o.name.split()[0]}`" for o in options if told.get(o) == other)
            lines += [f"As of `oriel {other}`: {names}.", ""]
        told |= dict.fromkeys(own, command)
    lines += ["## Environment", "", "| variable | read by | default | |", "|---|---|---|---|"]
    for names, (readers, default, meaning) in VARIABLES.items():
        shown = ", ".join(f"`{name}`" for name in names.split(", "))
        lines.append(f"| {shown} | {readers} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser that a command makes for itself."""
    module = import_module(_COMMANDS[command][0])
    # A command makes its parser where it uses it, so it is taken from there.
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
    """Each command, those of two words too, with its parser."""
    for command in COMMANDS:
        parser = parser_of(command)
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other way
        if not below:
            yield command, parser
        for name, subparser in below[0].choices.items() if below else ():
            yield f"{command} {name}", subparser


def _is_option(action: argparse.Action) -> bool:
    return bool(action.option_strings) and not isinstance(action, argparse._HelpAction)  # noqa: SLF001 - argparse has no other way


def _option(action: argparse.Action) -> Option:
    """What the page says of an option; a default that the help tells is that of the column."""
    name = action.option_strings[-1]
    if action.nargs != 0:
        words = action.metavar or "|".join(action.choices or ()) or action.dest.upper()
        name += f" {words if isinstance(words, str) else ' '.join(words)}"
    # What is in angle brackets is no HTML.
    text = re.sub(r"(\S*<\S+>\S*)", r"`\1`", (action.help or "").replace("|", "\\|"))
    from_help = _DEFAULT.search(text)
    if from_help:
        default = from_help[1] or from_help[2]
    elif action.required:
        default = "has to be given"
    elif action.default in (None, False, [], argparse.SUPPRESS):
        default = ""
    else:
        default = f"`{action.default}`"
    return Option(name.replace("|", "\\|"), default, _DEFAULT.sub("", text))


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
