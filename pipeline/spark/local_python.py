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
exec {python} "$@"
"""


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
    command.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
    command.chmod(0o700)
    # Not so where temporary files must not be executed.
    return str(command) if os.access(command, os.X_OK) else sys.executable
