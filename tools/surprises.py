"""Write docs/reference/kafka-streams-differences.md, with pictures of windows.

    python -m tools.surprises

The text is in surprises.template. The engines compute the windows of Oriel in the pictures. The
windows of Kafka Streams are in ``EXAMPLES`` and ``RESULTS``, and a test compares them with Kafka
Streams itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

import pyarrow as pa

from oriel.pipeline.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UserFunctions,
    Windows,
)
from tools.window_pictures import arrivals, compared, computed, one_by_one, rows_text, table

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "kafka-streams-differences.md"
_TEMPLATE = Path(__file__).with_suffix(".template")


@dataclass(frozen=True)
class Example:
    """Records of one topic and partition, and the windows of Kafka Streams.

    ``kafka`` has the windows at the end. If ``emit`` is "close" or "suppress", it has the windows
    that each record emits, or "nothing". ``retention_ms`` is the retention of Kafka's store.
    """

    windows: Windows
    records: str
    kafka: Sequence[str]
    retention_ms: int
    emit: Literal["update", "close", "suppress"] = "update"


_SESSION = SessionWindows.of_inactivity_gap_with_no_grace(10)
EXAMPLES = {
    "session": Example(_SESSION, "a@0 b@11 c@5", ["[0,11] a c b"], 1_000_000),
    "session, default": Example(_SESSION, "a@0 b@11 c@5", ["[0,0] a", "[5,11] c b"], 10),
    "partly late": Example(
        SlidingWindows.of_time_difference_with_no_grace(10),
        "A@30 a@25 b@31",
        ["[21,31] b"],
        1_000_000,
    ),
    "close": Example(
        TimeWindows.of_size_with_no_grace(10),
        "a@1 b@25 c@37",
        ["nothing", "nothing", "[20,30) b"],
        10,
        "close",
    ),
    "suppress": Example(
        SlidingWindows.of_time_difference_and_grace(10, 5),
        "a@10 b@15 c@10 d@16",
        ["nothing", "[0,10] a", "[0,10] a c", "nothing"],
        25,
        "suppress",
    ),
}

#: The results of Kafka Streams for the other examples, by the names of the Java program. The
#: values of a window are in their order.
RESULTS = {
    "removed": ["[0,10] a", "[10,20] a c", "[11,21] c"],
    "cogroup": ["[0,10] b", "[2,12] b a", "[11,21] a"],
    "merge, a first": ["[20,30) a"],
    "merge, b first": ["[0,10) b", "[20,30) a"],
    "join, a first": [],
    "join, by turns": ["a b@5"],
    # The example is in topology/process.md.
    "punctuate": ["first@1 timer@1 second@35 timer@35"],
}


def page() -> str:
    """Return the whole page."""
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        session=_drawn("session", 12),
        partly_late=_drawn("partly late", 37),
        removed=_folded("removed", "a@10 x@15 c@20", 27),
        cogroup=_folded("cogroup", "b@10/1 a@12", 22),
        close=_emitted("close"),
        suppress=_emitted("suppress"),
        merge=_merged(),
        join=table(
            ("read", "Kafka Streams", "Oriel"),
            [
                ("a@0 b@5 a@20", *_cells(RESULTS["join, by turns"]), "a b@5"),
                ("a@0 a@20 b@5", *_cells(RESULTS["join, a first"]), "a b@5"),
            ],
        ),
    )


def _drawn(name: str, until_ms: int) -> str:
    """Draw the windows of an example in Oriel and in Kafka Streams."""
    example = EXAMPLES[name]
    outcome = computed(example.windows, one_by_one(arrivals(example.records)))
    oriel = [rows_text(example.windows.kind, [row]) for row in outcome.rows()]
    return compared(example.windows, example.records, until_ms, oriel, example.kafka)


def _folded(name: str, records: str, until_ms: int) -> str:
    """Draw sliding windows of functions that add the names, one function for each input."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    functions = UserFunctions(str, (_add, _add), None, {"names": pa.string()}, "the page")
    outcome = computed(windows, one_by_one(arrivals(records)), functions=functions)
    oriel = [rows_text(windows.kind, [row]) for row in outcome.rows()]
    return compared(windows, records, until_ms, oriel, RESULTS[name])


def _add(_key: str, value: Any, names: str) -> str | None:
    return None if value["name"] == "x" else names + value["name"]


def _emitted(name: str) -> str:
    """Return a table of the windows that each record emits, in Kafka Streams and in Oriel."""
    example = EXAMPLES[name]
    records = one_by_one(arrivals(example.records))
    written = computed(example.windows, records, EmitStrategy.on_window_close()).written
    oriel = [rows_text(example.windows.kind, rows) for rows in written]
    rows = zip(example.records.split(), example.kafka, oriel, strict=True)
    return table(("record", "Kafka Streams", "Oriel"), list(rows))


def _merged() -> str:
    """Return a table of both orders of two topics. Each topic is one partition."""
    windows = TimeWindows.of_size_with_no_grace(10)
    rows = []
    for name, records in (("a first", "a@20 b@5/1"), ("b first", "b@5/1 a@20")):
        outcome = computed(windows, one_by_one(arrivals(records)))
        oriel = rows_text(windows.kind, outcome.rows())
        rows.append(
            (f"{name}: {records.replace('/1', '')}", *_cells(RESULTS[f"merge, {name}"]), oriel)
        )
    return table(("read", "Kafka Streams", "Oriel"), rows)


def _cells(results: Sequence[str]) -> tuple[str]:
    return (", ".join(results) or "nothing",)


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
