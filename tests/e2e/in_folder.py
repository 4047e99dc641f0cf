"""``oriel`` in a folder, for the process that runs commands one after the other."""

import os
from collections.abc import Sequence
from contextlib import chdir

from oriel.__main__ import main as oriel


def main(arguments: Sequence[str]) -> int:
    """Run ``oriel`` with the arguments behind the first, which is the folder to be in."""
    folder, *command = arguments
    # As a shell's child has it, too.
    os.environ["PWD"] = folder
    with chdir(folder):
        try:
            return oriel(command)
        except SystemExit as stop:
            return int(stop.code or 0)
