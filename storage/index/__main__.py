"""``python -m oriel.storage.index GENERATION``: look through a generation for damage."""

import sys

from oriel.storage.index.check import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
