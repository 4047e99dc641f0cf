"""The commands with which an operator inspects and maintains a data directory.

Most modules have the ``main`` of one subcommand of ``oriel``. It prints its result on stdout, and
returns the exit code. Errors that the user can fix are one line on stderr. ``class_archive`` runs
in a process of its own, which the first run on a machine starts.
"""
