"""``python -m oriel.storage.index GENERATION``: verify a generation of an index."""

import sys

from oriel.storage.index.check import main
from oriel.storage.index.comparison import index_differences
from oriel.storage.index.trust import check_at_rest

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], check_at_rest, index_differences))
