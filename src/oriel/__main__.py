"""The command ``oriel`` (``python -m oriel``): each subcommand is the door of one room."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import oriel

#: Subcommand -> the module whose ``main`` it is, and the extra that brings what it imports.
#: Imported when called: serving needs no Spark.
_COMMANDS = {
    "demo": ("oriel.demo", "demo"),
    "new": ("oriel.project", "pipeline"),
    "get": ("oriel.client.terminal", "client"),
    "run": ("oriel.pipeline.run", "pipeline"),
    "serve": ("oriel.app.server", "app"),
    "token": ("oriel.app.guards.token", "app"),
    "status": ("oriel.status_check", "pipeline"),
    "backup": ("oriel.pipeline.operations.backup", "pipeline"),
    "clock": ("oriel.pipeline.operations.clock", "pipeline"),
    "compact": ("oriel.pipeline.operations.compact", "pipeline"),
    "dead-letters": ("oriel.pipeline.operations.dead_letters", "pipeline"),
    "rebuild": ("oriel.pipeline.operations.rebuild", "pipeline"),
    "rescale": ("oriel.pipeline.operations.rescale", "pipeline"),
    "restore": ("oriel.pipeline.operations.restore", "pipeline"),
    "retire": ("oriel.pipeline.operations.retire", "pipeline"),
    "verify": ("oriel.pipeline.operations.verify", "pipeline"),
    "doctor": ("oriel.doctor", "pipeline"),
}

_HELP = """\
oriel: interactive queries over materialized windows

  oriel demo [--exit]              stream 336,776 real flights and serve their windows
  oriel new NAME                   make a project of one's own: topology, log, test, containers
  oriel run TOPOLOGY.py --event-log FOLDER --data FOLDER [--trigger 200ms | --once]
                                   run a topology: event log -> windows -> Delta tables
  oriel serve --data FOLDER [--host 127.0.0.1] [--port 8080] [--workers 1]
                                   serve the tables of a data folder over HTTP
  oriel get [STORE [KEY]] [--url URL] [--from TIME] [--to TIME] [--watch | --json | --csv]
                                   show stores, keys or a key's newest windows of a service
  oriel token NAME --file FILE [--store NAME] [--key-prefix TEXT]
                                   make a token for a service that is not open to all
  oriel status --data FOLDER [--watch | --json | --check [--pipeline NAME]]
                                   how pipelines, stores, partitions and indexes fare
  oriel retire PIPELINE --data FOLDER
                                   stop checking a stopped pipeline; `oriel run` undoes it
  oriel clock --data FOLDER [STORE] [--set TOPIC PARTITION TIME]
                                   show the clocks of partitions, or set one back
  oriel rebuild STORE... TOPOLOGY.py --event-log FOLDER --data FOLDER
                                   compute stores again from their topics
  oriel rescale STORE KEY_GROUPS --data FOLDER
                                   change how many tasks a store can ever use
  oriel compact STORE --data FOLDER [--all]
                                   compact a store's table by hand
  oriel backup --data FOLDER --to BACKUP
                                   copy tables and checkpoints, beside a running pipeline too
  oriel restore --from BACKUP --data FOLDER
                                   make a data folder of a backup
  oriel verify --data FOLDER | --backup FOLDER [--event-log FOLDER] [--json]
                                   check every file of a data directory or of a backup
  oriel doctor [--data FOLDER] [--kafka HOST:PORT] [--port N] [--url URL] [--json]
                                   check this machine and its surroundings, and print what to do
  oriel dead-letters list|replay --data FOLDER
                                   records that could not be used: show, or send again
  oriel topology                   the topology language on one screen
  oriel help                       this text
  oriel --version                  the version of this package

`oriel COMMAND --help` lists all options of a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the command line names; return its exit code.

    0: done, 1: it failed or its packages are not installed, 2: there is no such command or option.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    command, options = (given[0], given[1:]) if given else ("help", [])
    if command in {"help", "--help", "-h"}:
        sys.stdout.write(_HELP)
        return 0
    if command == "--version":
        sys.stdout.write(f"oriel {oriel.__version__}\n")
        return 0
    if command == "topology":
        sys.stdout.write(Path(__file__).with_name("topology.md").read_text(encoding="utf-8"))
        return 0
    if command not in _COMMANDS:
        near = get_close_matches(command, _COMMANDS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        sys.stderr.write(
            f"oriel: there is no command {command!r}: {hint}`oriel help` lists all commands\n"
        )
        return 2
    module, extra = _COMMANDS[command]
    try:
        subcommand = import_module(module)
    except ModuleNotFoundError as error:
        # A module of our own that is missing is a fault of the package, not of the installation.
        if error.name is None or error.name.split(".")[0] == "oriel":
            raise
        package = error.name.split(".")[0]
        sys.stderr.write(
            f"oriel {command}: {package} is not installed: pip install 'oriel[{extra}]'\n"
        )
        return 1
    try:
        code: int = subcommand.main(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has ended (`| head`). Python writes what is left when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    return code


if __name__ == "__main__":
    sys.exit(main())
