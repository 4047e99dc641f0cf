"""``python -m oriel.storage.tailer``: the tailer as a process of its own."""

import sys

from oriel.storage.tailer.process import main

if __name__ == "__main__":
    sys.exit(main())
