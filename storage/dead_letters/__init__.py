"""The dead-letter table as a store: records that could not be used, read without Spark.

In come the table's folder and what is wanted of it (``Selection``); out come letters in batches
(``letters``), a page of them in a total order (``letter_page``), and how many there are by reason
(``letter_counts``). ``read_replays`` returns which of their records were replayed. What becomes a
dead letter, ``oriel.pipeline.dead_letters`` says.
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
