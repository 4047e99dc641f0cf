"""The command ``oriel`` (``python -m oriel``): each subcommand calls the ``main`` of one module."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import oriel

#: Subcommand -> the module that has its ``main``, and the extra that installs its imports.
#: A module is imported when its command runs, because serving does not need Spark.
_COMMANDS = {
    "demo": ("oriel.demo", "demo"),
    "new": ("oriel.project", "pipeline"),
    "get": ("oriel.client.terminal", "client"),
    "sql": ("oriel.sql", "sql"),
    "run": ("oriel.pipeline.run_command", "pipeline"),
    "serve": ("oriel.app.server", "app"),
    "token": ("oriel.app.guards.token", "app"),
    "status": ("oriel.status_check", "pipeline"),
    "backup": ("oriel.pipeline.operations.backups.backup", "pipeline"),
    "clock": ("oriel.pipeline.operations.clock", "pipeline"),
    "compact": ("oriel.pipeline.operations.compact", "pipeline"),
    "dead-letters": ("oriel.pipeline.operations.dead_letters.command", "pipeline"),
    "rebuild": ("oriel.pipeline.operations.rebuild", "pipeline"),
    "rescale": ("oriel.pipeline.operations.rescale", "pipeline"),
    "restore": ("oriel.pipeline.operations.backups.restore", "pipeline"),
    "retire": ("oriel.pipeline.operations.retire", "pipeline"),
    "verify": ("oriel.pipeline.operations.verify", "pipeline"),
    "diff": ("oriel.pipeline.operations.diff", "pipeline"),
    "doctor": ("oriel.doctor", "pipeline"),
}

#: Lines of ``help.txt`` with this mark name commands that only the script of a checkout has.
_ONLY_CHECKOUT = "+"
#: Lines with this mark name what only the command of the package has.
_ONLY_PACKAGE = "- "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the command line names, and return its exit code.

    0: done, 1: it failed or its packages are not installed, 2: the command or an option is unknown,
    130: interrupted before the subcommand handles signals.
    """
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        # The imports of a subcommand need up to a second.
        sys.stderr.write("oriel: interrupted\n")
        return 130


def _run(given: list[str]) -> int:
    """Run the subcommand. See ``main``."""
    command, options = (given[0], given[1:]) if given else ("help", [])
    if command in {"help", "--help", "-h"}:
        sys.stdout.write(_help())
        return 0
    if command == "--version":
        sys.stdout.write(f"oriel {oriel.__version__}\n")
        return 0
    if command == "topology":
        sys.stdout.write(Path(__file__).with_name("topology.md").read_text(encoding="utf-8"))
        return 0
    if command not in _COMMANDS:
        near = get_close_matches(command, _COMMANDS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        sys.stderr.write(
            f"oriel: {command!r} is not a command. {hint}`oriel help` lists all commands\n"
        )
        return 2
    module, extra = _COMMANDS[command]
    try:
        subcommand = import_module(module)
    except ModuleNotFoundError as error:
        # If a module of Oriel is missing, the package is broken. Installing an extra does not help.
        if error.name is None or error.name.split(".")[0] == "oriel":
            raise
        package = error.name.split(".")[0]
        sys.stderr.write(
            f"oriel {command}: {package} is not installed. Run pip install 'oriel[{extra}]'\n"
        )
        return 1
    try:
        code: int = subcommand.main(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has ended (`| head`). Python writes the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    return code


def _help() -> str:
    """Return the list of commands without those that need a checkout."""
    lines = Path(__file__).with_name("help.txt").read_text(encoding="utf-8").splitlines()
    shown = (line for line in lines if not line.startswith(_ONLY_CHECKOUT))
    return "".join(f"{_unmarked(line)}\n" for line in shown)


def _unmarked(line: str) -> str:
    return f"  {line.removeprefix(_ONLY_PACKAGE)}" if line.startswith(_ONLY_PACKAGE) else line


if __name__ == "__main__":
    sys.exit(main())
