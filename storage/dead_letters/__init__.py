"""The dead-letter table, read without Spark.

A dead letter is a record that could not be used (see ``oriel.pipeline.dead_letters``). A
``Selection`` filters the table. The package returns dead letters in batches (``letters``), a page
in a total order (``letter_page``), and the number by reason (``letter_counts``). The function
``read_replays`` returns the records that were replayed.
"""

from oriel.storage.dead_letters.pages import (
    LetterCounts,
    LetterPage,
    LetterPlace,
    LetterRange,
    letter_counts,
    letter_page,
)
from oriel.storage.dead_letters.replays import UNKNOWN_MS, Replays, note_line, read_replays
from oriel.storage.dead_letters.table import (
    Selection,
    has_letters,
    letters,
)

__all__ = [
    "UNKNOWN_MS",
    "LetterCounts",
    "LetterPage",
    "LetterPlace",
    "LetterRange",
    "Replays",
    "Selection",
    "has_letters",
    "letter_counts",
    "letter_page",
    "letters",
    "note_line",
    "read_replays",
]
