"""The dead-letter table, read without Spark.

A dead letter is a record that could not be used (see ``oriel.pipeline.dead_letters``). A
``Selection`` filters the table. The package returns dead letters in batches
(``read_dead_letters``), a page in a total order (``dead_letter_page``), and the number by reason
(``dead_letter_counts``). The function ``read_replays`` returns the records that were replayed.
"""

from oriel.storage.dead_letters.pages import (
    DeadLetterCounts,
    DeadLetterPage,
    DeadLetterPosition,
    DeadLetterRange,
    dead_letter_counts,
    dead_letter_page,
)
from oriel.storage.dead_letters.replays import UNKNOWN_MS, Replays, note_line, read_replays
from oriel.storage.dead_letters.table import (
    Selection,
    has_dead_letters,
    read_dead_letters,
)

__all__ = [
    "UNKNOWN_MS",
    "DeadLetterCounts",
    "DeadLetterPage",
    "DeadLetterPosition",
    "DeadLetterRange",
    "Replays",
    "Selection",
    "dead_letter_counts",
    "dead_letter_page",
    "has_dead_letters",
    "note_line",
    "read_dead_letters",
    "read_replays",
]
