"""The Python of Spark's workers on this machine: this Python without Spark's zip of pyspark."""

import os
import shlex
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

#: Spark adds two zips to the start of a worker's import path. They contain no byte code, so each
#: process would compile pyspark again. This is two thirds of the processor time of its start
#: (docs/decisions/0048). If the path does not start with these zips, it stays unchanged.
_SCRIPT = """\
#!/bin/sh
PYTHONPATH=${{PYTHONPATH#*/pyspark.zip:*-src.zip:}}
export PYTHONPATH
test ! -S {address} || exec {python} -S -E {client} {address} "$@"
exec {python} "$@"
"""
#: Requests a process from the fork server, if one runs.
_CLIENT = Path(__file__).with_name("fork_client.py")


def local_python(directory: Path) -> str:
    """Write a command into ``directory`` that becomes this Python, and return its path.

    Return the path of this Python itself if pyspark is not among its packages, or if commands in
    ``directory`` cannot be executed.
    """
    directories = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    directories.update(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if PathFinder.find_spec("pyspark", list(directories)) is None:
        return sys.executable
    command = directory / "python"
    words = {"python": sys.executable, "client": _CLIENT, "address": fork_address(directory)}
    quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
    command.write_text(_SCRIPT.format(**quoted))
    command.chmod(0o700)
    # Some systems do not permit execution of temporary files.
    return str(command) if os.access(command, os.X_OK) else sys.executable


def fork_address(directory: Path) -> Path:
    """Return the address of the fork server, a socket in ``directory``."""
    return directory / "fork.socket"
