"""``oriel`` in a given directory, for the process that runs commands one after the other."""

import os
from collections.abc import Sequence
from contextlib import chdir

from oriel.__main__ import main as oriel


def main(arguments: Sequence[str]) -> int:
    """Run ``oriel`` with all arguments after the first one, which is the working directory."""
    directory, *command = arguments
    # A shell also sets this variable for its children.
    os.environ["PWD"] = directory
    with chdir(directory):
        try:
            return oriel(command)
        except SystemExit as stop:
            return int(stop.code or 0)
