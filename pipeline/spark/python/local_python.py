"""The Python of Spark's workers on this machine: this one, without Spark's zip of pyspark."""

import os
import shlex
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

#: Spark puts two zips in front of what a worker imports. They hold no byte code, so each process
#: would compile pyspark anew: two thirds of the processor's time of its start
#: (docs/decisions/0048). Where Spark does not put them there, the path stays as it is.
_SCRIPT = """\
#!/bin/sh
PYTHONPATH=${{PYTHONPATH#*/pyspark.zip:*-src.zip:}}
export PYTHONPATH
test ! -S {address} || exec {python} -S -E {client} {address} "$@"
exec {python} "$@"
"""
#: Requests a process from the fork server, if one runs.
_CLIENT = Path(__file__).with_name("fork_client.py")


def local_python(folder: Path) -> str:
    """Write a command into ``folder`` that becomes this Python, and return its path.

    Where pyspark is not among the packages of this Python, or no command in ``folder`` may be
    executed, it is this Python itself.
    """
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders.update(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if PathFinder.find_spec("pyspark", list(folders)) is None:
        return sys.executable
    command = folder / "python"
    words = {"python": sys.executable, "client": _CLIENT, "address": fork_address(folder)}
    quoted = {name: shlex.quote(str(word)) for name, word in words.items()}
    command.write_text(_SCRIPT.format(**quoted))
    command.chmod(0o700)
    # Not so where temporary files must not be executed.
    return str(command) if os.access(command, os.X_OK) else sys.executable


def fork_address(folder: Path) -> Path:
    """Return the address of the fork server, a socket in ``folder``."""
    return folder / "fork.socket"
