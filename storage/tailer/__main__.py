"""``python -m oriel.storage.tailer``: run the tailer as a process."""

import sys

from oriel.storage.tailer.process import main

if __name__ == "__main__":
    sys.exit(main())
