"""Commands of an operator for a data directory, while a pipeline runs or not.

Each module has the ``main`` of one subcommand of ``oriel``. ``dead_letters`` uses ``letters`` and
``replay``. A command reads a data directory and options. It prints its result on stdout, and
returns an exit code (0: done, 1: an error that the user can fix, in one line on stderr).
"""
