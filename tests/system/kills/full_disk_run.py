"""``oriel run`` with a disk that is full from a given operation on files.

``python -m tests.system.kills.full_disk_run EFFECT PIPELINE-ARGUMENTS...``
"""

import errno
import sys

from oriel.pipeline import run_command as command_line
from oriel.storage.files import use_files
from oriel.testing import FailingFiles

if __name__ == "__main__":
    with use_files(FailingFiles(1, errno.ENOSPC, first=int(sys.argv[1]))):
        code = command_line.main(sys.argv[2:])
    sys.exit(code)
