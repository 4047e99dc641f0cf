"""``oriel serve`` with half of the time after which a tailer counts as hanging.

The time is still longer than the time until ``/readyz`` reports it.
"""

import sys

from oriel.app.server import main, supervisor
from oriel.storage.tailer import StatusFile

HANGING_SECONDS = 7.0


class _Impatient(supervisor.HeartbeatWatch):
    """A watch with a shorter timeout."""

    def __init__(self, status_file: StatusFile) -> None:
        super().__init__(status_file, HANGING_SECONDS)


if __name__ == "__main__":
    vars(supervisor).update(HeartbeatWatch=_Impatient)
    sys.exit(main())
