"""One topology with a store of every kind: each kind of windows with both emit strategies.

Further stores have no windows, read updates of another store or of sessions, use functions over
sessions, or read the final rows of another store. The pipeline runs this file. The model
(tests/system/kills/expected_rows.py) imports it.
"""

from collections.abc import Iterable
from typing import Any

from oriel import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    avg,
    collect_list,
    count,
    max,
    min,
    sum,
)

TOPIC = "events"
GRACE_MS = 60
#: The length of every window, the inactivity gap of sessions, and the advance of hopping windows.
LENGTH_MS, GAP_MS, ADVANCE_MS = 45, 9, 20

WINDOWS = {
    "tumbling": TimeWindows.of_size_and_grace(LENGTH_MS, GRACE_MS),
    "hopping": TimeWindows.of_size_and_grace(LENGTH_MS, GRACE_MS).advance_by(ADVANCE_MS),
    "sliding": SlidingWindows.of_time_difference_and_grace(LENGTH_MS, GRACE_MS),
    "session": SessionWindows.of_inactivity_gap_and_grace(GAP_MS, GRACE_MS),
}
STRATEGIES = {
    "update": EmitStrategy.on_window_update(),
    "close": EmitStrategy.on_window_close(),
}
#: The stores without windows, over its updates, over updates of sessions, with functions, and over
#: the rows of ``FRONT``. The other names are KIND_STRATEGY.
TOTALS, RISES, PEAKS, TEXTS, LAYERS = "totals", "rises", "peaks", "texts", "layers"
FRONT = "tumbling_close"
LAYER_MS = 3 * LENGTH_MS
#: The stores with a table of final rows.
FINAL_TABLES = ("tumbling_update", "sliding_update", "session_update", "session_close", LAYERS)

#: Words with a special meaning for the functions.
SKIPPED, RAISES, DELETES = "skipped", "raises", "deletes"

Text = dict[str, Any]


def begun() -> Text:
    """Return the aggregate of an empty session."""
    return {"text": "", "n": 0}


def concatenated(key: str, value: dict[str, Any] | None, old: Text) -> Text | None:
    """Append words in the order of the calls. One word raises, and one removes the row."""
    word = "-" if value is None else value["word"]
    if word == RAISES:
        message = f"{key!r} has a word that can't be told"
        raise ArithmeticError(message)
    return None if word == DELETES else {"text": f"{old['text']}+{word}", "n": old["n"] + 1}


def merged(key: str, left: Text, right: Text) -> Text:
    """Mark the left argument, so that only the right order of calls has the expected text."""
    return {"text": f"({key}:{left['text']}|{right['text']})", "n": left["n"] + right["n"]}


def add_every_kind(builder: StreamsBuilder, strategies: Iterable[str] = STRATEGIES) -> None:
    """Add a store of every kind, and one for each kind of windows and each strategy."""
    events = builder.stream(TOPIC, "v DOUBLE, word STRING")
    values: dict[str, Any] = {
        "n": count(), "total": sum("v"), "mean": avg("v"), "least": min("v"), "most": max("v"),
        "all": collect_list("v"),
    }  # fmt: skip
    tables = {}
    for kind, windows in WINDOWS.items():
        for emit in strategies:
            windowed = events.group_by_key().windowed_by(windows).emit(STRATEGIES[emit])
            name = f"{kind}_{emit}"
            has_final_table = name in FINAL_TABLES
            rows = windowed.aggregate(**values)
            tables[name] = rows.materialize(name, final_table=has_final_table)
    if FRONT in tables:
        (
            tables[FRONT]
            .to_stream()
            .map_values(v="total")
            .group_by_key()
            .windowed_by(TimeWindows.of_size_and_grace(LAYER_MS, 0))
            .aggregate(**values)
            .materialize(LAYERS, final_table=True)
        )
    totals = events.group_by_key().aggregate(**values).materialize(TOTALS)
    (
        totals.to_stream()
        .group_by_key()
        .aggregate(n=count(), total=sum("n"), most=max("n"))
        .materialize(RISES)
    )
    (
        events.group_by_key()
        .windowed_by(WINDOWS["session"])
        .count()
        .to_stream()
        .group_by_key()
        .aggregate(most=max("count"))
        .materialize(PEAKS)
    )
    (
        events.filter(f"coalesce(word, '') <> '{SKIPPED}'")
        .group_by_key()
        .windowed_by(WINDOWS["session"])
        .aggregate(begun, concatenated, merged, schema="text STRING, n BIGINT")
        .materialize(TEXTS)
    )


_builder = StreamsBuilder()
add_every_kind(_builder)
topology = _builder.build()
