"""``python -m oriel.storage.index GENERATION``: verify a generation of an index."""

import sys

from oriel.storage.index.check import main
from oriel.storage.index.comparison import index_differences
from oriel.storage.index.trust import matches_recorded_digest

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], matches_recorded_digest, index_differences))
