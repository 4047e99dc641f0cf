"""Dead-letter tables, written as the pipeline writes them."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from oriel.storage import DataLayout
from oriel.storage.delta import DEAD_LETTER_SCHEMA, open_table, write_file

#: The fields of a dead letter in a test: its offset, and fields that differ from the defaults.
Letter = dict[str, Any]


def add_dead_letters(data: Path, *dead_letters: Letter) -> None:
    """Commit dead letters to the table of a data directory, and create the table if necessary."""
    directory = DataLayout(data).dead_letters
    table = open_table(directory, DEAD_LETTER_SCHEMA, {}, sync=False)
    rows = [
        {"topic": "t", "partition": 0, "reason": "not-json", "detail": "it is so",
         "raw": b"%d" % letter["offset"], "revision": letter["offset"], **letter}
        for letter in dead_letters
    ]  # fmt: skip
    file = write_file(directory, pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA), "dead", sync=False)
    recorded = table.recorded_batch("tests")
    table.commit([file], "tests", 0 if recorded is None else recorded + 1, {})
