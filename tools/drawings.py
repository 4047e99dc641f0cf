"""Write docs/concepts/windows.md, with a timeline of every window kind from the engines.

    python -m tools.drawings

A test compares the committed page with ``page()``.
"""

from pathlib import Path
from string import Template

from oriel.pipeline.windows import NoWindows, SessionWindows, SlidingWindows, TimeWindows
from tools.window_pictures import (
    cuts_table,
    emit_table,
    newest_picture,
    picture,
    rules_table,
    steps,
    timestamps_table,
)

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "windows.md"


def page() -> str:
    """Return the whole page."""
    return _TEXT.substitute(drawings())


def drawings() -> dict[str, str]:
    """Return each picture and table of the page by its name in the text."""
    sliding = SlidingWindows.of_time_difference_with_no_grace(10)
    hopping = TimeWindows.of_size_with_no_grace(12).advance_by(5)
    tumbling = TimeWindows.of_size_with_no_grace(10)
    slow_session = SessionWindows.of_inactivity_gap_and_grace(10, 20)
    session = SessionWindows.of_inactivity_gap_with_no_grace(5)
    cuts = {
        "partition 0 first": ["a@2 b@12 c@21", "d@4/1 e@9/1"],
        "partition 1 first": ["d@4/1 e@9/1", "a@2 b@12 c@21"],
        "by turns": ["a@2", "d@4/1", "b@12", "e@9/1", "c@21"],
    }
    times = {
        "none": NoWindows(),
        "tumbling, size 5": TimeWindows.of_size_and_grace(5, 10),
        "tumbling, size 10": TimeWindows.of_size_and_grace(10, 10),
        "session, gap 2": SessionWindows.of_inactivity_gap_and_grace(2, 10),
    }
    return {
        "rules": rules_table(),
        "tumbling": picture(TimeWindows.of_size_and_grace(10, 5), "a@2 b@8 c@14 d@9 e@15 f@7", 20),
        "hopping": picture(hopping, "a@21", 32),
        "hopping_late": picture(hopping, "a@21 b@13 c@9 d@23", 32),
        "sliding": picture(sliding, "a@10 b@14 c@19 d@26", 31),
        "sliding_late": picture(sliding, "A@30 a@25 b@31 c@19", 37),
        "session": steps(slow_session, "a@0 b@30 c@15 d@20 e@10", 31),
        "session_late": picture(session, "a@2 b@14 c@10 d@6 e@0", 20),
        "none": picture(NoWindows(), "a@2 b@12 c@7", 20),
        "newest_sliding": newest_picture(sliding, "a@10 b@14 c@15 d@16 e@19 f@22", 31),
        "newest_hopping": newest_picture(hopping, "a@10 b@14 c@15 d@16 e@19 f@22", 33),
        "emit": emit_table(tumbling, ["a@2 b@5", "c@12", "d@14 e@25", "f@31"]),
        "timestamps": timestamps_table((1, 2, 5, 6, 4, 3, 7, 9), times),
        "cuts": cuts_table(tumbling, cuts),
    }


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


_TEXT = Template("""\
# Windows

A window is a span of event time, and a store has one row per key and window with the aggregates
of its records.

For example, this is a store of tumbling windows of 10 ms with a grace of 5 ms,
`TimeWindows.of_size_and_grace(10, 5)`, after six records of one key:

$tumbling

Each picture on this page is what the engines of the pipeline compute. You read it like this:

- One millisecond is two columns. A name such as `a` is a record at its time. The names are in
  the order of arrival, so `a` arrived first. A capital name is a record of another key in the
  same partition.
- `[----)` excludes its end, and `[----]` includes it.
- Next to a window, you see its bounds, its records in the order of time, and whether it is open
  or final after the last record.
- The records in the line `late` are in no window.

`d` arrives after `c`, but `[0,10)` is open until stream time is 15. `e` sets it to 15, so `f`
is late. [Time](time.md) defines these words. Your topology can use five kinds of windows:

$rules

Real times are milliseconds since 1970, and the pictures use small numbers. A closed window
never changes. If all windows of a record are closed, the record is late: Oriel counts it and
does not use it. If only some windows are closed, the record counts in the others.

## Tumbling

Each window starts where the previous window ends, so each record is in one window. The picture
above shows tumbling windows. Use them if you want totals per minute, hour or day.

## Hopping

Windows overlap, so a record is in several windows. Use them if you want moving totals at
regular times. For example, `TimeWindows.of_size_and_grace(12, 0).advance_by(5)` with one record
at 21:

$hopping

The same windows with late records:

$hopping_late

When `b` arrives, stream time is 21. Its window `[5,17)` is closed and `[10,22)` is open, so `b`
counts in one window. All windows of `c` are closed.

## Sliding

A window ends at each record, and another one starts 1 ms after each record if it contains a
later record. All records of a window are at most the time difference apart. Use sliding windows
if you want "the last 10 minutes" of each record. For example,
`SlidingWindows.of_time_difference_and_grace(10, 0)` with the four records of KIP-450:

$sliding

With late records. `A` has another key, but it moves stream time:

$sliding_late

When `a` arrives, `[15,25]` is already closed, so it is not created. `a` is accepted and counts
in `[21,31]`. For `c`, the last possible window `[19,29]` is also closed.

## Session

A session starts at the first record of a burst and ends at the last one. Records exactly the
gap apart belong to one session. Use sessions if your records are parts of a visit. For example,
`SessionWindows.of_inactivity_gap_and_grace(10, 20)`, with one batch per record. `<---->` is a
row that removes a session:

$session

A record between two sessions merges them: Oriel removes both sessions and writes the merged
one. In a single batch, it writes only the last session.

Late records, with gap 5 and grace 0:

$session_late

`b` sets stream time to 14 and closes all sessions that end before 9. The record `d` is older
than that, but it is within the gap of an open session, so it counts. The gap of `e` contains
only `[2,2]`, which is closed, so `e` is late. No record changes a closed session.

If the records of a key are from several partitions, see [rule
4.5](../reference/semantics.md#4-5).

## None

Without windows, there is one row per key. Nothing closes, no record is late, and no row is
final.

$none

## The newest window: latest and current

Two reads of the service return one window per key. The read `latest` returns the window with
the greatest start, as in Kafka Streams. The read `current` returns the window that ends at the
newest record of the key. For a dashboard, you usually want `current`. For example, sliding
windows of 10 ms:

$newest_sliding

`latest` starts 1 ms after the second-newest record. It contains only the newest record.
`current` ends at the newest record and contains all records of the last 10 ms. If this window
was already closed when the record arrived, `current` is the window that ends first among those
with the newest record. Hopping windows of 12 ms with an advance of 5 ms:

$newest_hopping

All windows that contain the newest record are candidates. `latest` starts last and has the
fewest older records. `current` starts first and has the most. For tumbling windows, both are
the window that contains the newest record. For sessions, `current` ends last and `latest`
starts last. They differ only if sessions of several partitions overlap. If you want the newest
ten windows, use `backwardFetch` with `limit=10`. To read the windows that contain an instant,
use `covering`.

## What is written when

`EmitStrategy.on_window_update()` is the default. It writes a window in each batch that changes
it, and once more when it becomes final. `on_window_close()` and
`suppress(until_window_closes())` write it once, when it is final. For example, tumbling windows
of 10 ms with grace 0:

$emit

The final rows are equal. With `on_window_close()`, you do not see open windows in responses.

## Timestamps

The timestamp of a row is the greatest time of its records. For a session, it is the end
(KIP-259). The table shows the timestamp of the row that each batch writes, with one record per
batch:

$timestamps

## Batches and partitions

The result depends neither on the batches nor on the order in which partitions are read. For
example, tumbling windows of 10 ms with grace 0. `/1` marks the records of partition 1:

$cuts

`e` is older than the records of partition 0, but it is in order in its own partition, so it is
never late. No window is final, because partition 1 is at 9 and can still have a record for each
window.

## Consequences

- If you set a longer grace, more late records count, and more windows are open in the state.
- If you set a small advance, each record is in many hopping windows, at most 10,000.
- A null value counts in tumbling, hopping and session windows, and is a dead letter in the
  others ([Records without a key or a value](../reference/semantics.md#1-2)).
- Windows stay in the store until its [retention](../reference/semantics.md#7), which you set
  with `retention_ms`. By default, they stay.
- To write windows only once, see [how to emit only final windows](../how-to/emit-final-windows.md).
  For syntax, parameters and errors, see
  [the reference of windows](../reference/topology/windows.md).

## Differences from Kafka Streams, Spark and Flink

- **Kafka Streams.** The window kinds and their bounds are the same. Partly late records, closed
  sessions and final windows differ: see [Differences from Kafka
  Streams](../reference/kafka-streams-differences.md).
- **Spark.** `window` has tumbling and hopping windows, but no windows that end at each record.
  `session_window` adds the gap to the end of a session. Windows can start below 0.
- **Flink.** Tumbling, hopping (`HOP`, sliding in the DataStream API) and session windows exist.
  Oriel's sliding windows are similar to an `OVER` aggregation with a time range, except that
  they also have the windows to the right of each record.

Written by `python -m tools.drawings`. A test compares the page with the engines, so do not edit
it by hand.
""")


if __name__ == "__main__":
    write()
