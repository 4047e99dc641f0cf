"""``oriel serve`` that takes a tailer for hanging after half of the usual time.

That is still longer than it takes until ``/readyz`` says so.
"""

import sys

from oriel.app.server import main, supervisor
from oriel.storage.tailer import StatusFile

HANGING_SECONDS = 7.0


class _Impatient(supervisor.HeartbeatWatch):
    """Waits for less long."""

    def __init__(self, status_file: StatusFile) -> None:
        super().__init__(status_file, HANGING_SECONDS)


if __name__ == "__main__":
    vars(supervisor).update(HeartbeatWatch=_Impatient)
    sys.exit(main())
