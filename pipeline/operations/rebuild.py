"""``oriel rebuild STORE... TOPOLOGY.py``: compute stores again, and replace each in one step.

It is a run of the topology over the log (``run_command.rebuild``), so its options are those of
``oriel run``. Until the new rows are committed, the service
responds with the rows from before.
"""

from collections.abc import Sequence

from oriel.pipeline.run_command import rebuild


def main(arguments: Sequence[str]) -> int:
    """Run the command. Exit code 0: done, 1: an error, in one line on stderr."""
    return rebuild(arguments)
