"""``oriel rebuild STORE... TOPOLOGY.py``: compute stores again, and replace each in one step.

The command runs the topology over the log (``run_command.rebuild``), so it accepts the options of
``oriel run``. Until the new rows are committed, the service responds with the old rows.
"""

from collections.abc import Sequence

from oriel.pipeline.run_command import rebuild


def main(arguments: Sequence[str]) -> int:
    """Rebuild the stores, and return the exit code: 0, or 1 after an error."""
    return rebuild(arguments)
