"""``oriel doctor``: check what a machine and a data directory need, and print what to do.

Each kind of check is one class, with one row in ``registry.CHECKS``. The checks import the
packages of a part (``oriel.storage``) only when they run, because the command must also work, and
say what is missing, where these packages are not installed.
"""

from oriel.doctor.command import main

__all__ = ["main"]
