"""Writes the interface as it is served: ``python -m tools.openapi`` makes openapi/oriel.json.

A test proves that the committed file is what is served.
"""

import sys
from pathlib import Path

from oriel.app.contract import describe, document_bytes

COMMITTED_FILE = Path(__file__).parents[1] / "openapi" / "oriel.json"


def main() -> int:
    """Write the committed file."""
    COMMITTED_FILE.parent.mkdir(exist_ok=True)
    COMMITTED_FILE.write_bytes(document_bytes(describe()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
