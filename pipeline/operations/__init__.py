"""The commands with which an operator inspects and maintains a data directory.

Most modules have the ``main`` of one subcommand of ``oriel``. It prints its result on stdout, and
returns the exit code. Errors that the user can fix are one line on stderr. The subcommand
``oriel dead-letters`` also uses ``dead_letter_selection`` and ``replay``. ``class_archive`` runs in
a process of its own, which the first run on a machine starts.
"""
