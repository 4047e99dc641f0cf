"""The command ``oriel`` (``python -m oriel``): each subcommand is the door of one room."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

#: Subcommand -> the module whose ``main`` it is. Imported when called: serving needs no Spark.
_COMMANDS = {
    "demo": "oriel.demo",
    "run": "oriel.pipeline.run",
    "serve": "oriel.app.server",
}

_HELP = """\
oriel: interactive queries over materialized windows

  oriel demo [--exit]              stream 336,776 real flights and serve their windows
  oriel run TOPOLOGY.py --event-log FOLDER --data FOLDER [--trigger 200ms | --once]
                                   run a topology: event log -> windows -> Delta tables
  oriel serve --data FOLDER [--host 127.0.0.1] [--port 8080] [--workers 1]
                                   serve the tables of a data folder over HTTP
  oriel topology                   how to write a topology file
  oriel help                       this text

`oriel COMMAND --help` lists all options of demo, run and serve.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the subcommand that the command line names; return its exit code."""
    command, *rest = [*(sys.argv[1:] if arguments is None else arguments), "help"]
    rest = rest[:-1]
    if command in {"help", "--help", "-h"}:
        sys.stdout.write(_HELP)
        return 0
    if command == "topology":
        sys.stdout.write(Path(__file__).with_name("topology.md").read_text(encoding="utf-8"))
        return 0
    if command not in _COMMANDS:
        sys.stderr.write(f"oriel: there is no command {command!r}\n{_HELP}")
        return 2
    code: int = import_module(_COMMANDS[command]).main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
