"""Commands beside a running pipeline: what an operator does with a data folder.

Each module is one subcommand of ``oriel`` and gives its ``main``; ``letters`` and ``replay`` are
behind ``dead_letters``. In come a data folder and
options; out go an exit code (0: done, 1: an error that the user can mend, in one line on stderr)
and, on stdout, what was asked for.
"""
