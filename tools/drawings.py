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
    """The whole page."""
    return _TEXT.substitute(drawings())


def drawings() -> dict[str, str]:
    """Every picture and table of the page by its name in the text."""
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
# Windows, drawn

Written by `python -m tools.drawings` from the rules table and the engines that the pipeline
runs; a test keeps it so. Do not edit it by hand.

Every picture has one column pair for each millisecond. A letter is a record at its time, and
letters are in the order of arrival: `a` came first. `[----]` holds records at its end, `[----)`
does not. Beside a window stand its records in the order of time, and whether the window is still
open after the last record. Records in the line `late` are in no window.

Stream time is the greatest time that came so far from a record's own partition. A record moves
it before it is looked at, also for the other keys.

$rules

A closed window never changes. A record of which every window is closed is late: it is counted
and left out. A record of which only some are closed goes into the others.

## Tumbling

One window follows the other. `TimeWindows.of_size_and_grace(10, 5)`:

$tumbling

`d` is behind, but [0,10) is open until stream time is 15. `e` makes it 15, so `f` is late.

## Hopping

Windows overlap. `TimeWindows.of_size_and_grace(12, 0).advance_by(5)`, one record at 21:

$hopping

The same windows with records that are behind:

$hopping_late

When `b` came, stream time was 21. Of its windows [5,17) was closed and [10,22) open, so it is in
one of them. All windows of `c` were closed.

## Sliding

A window ends at each record, and one begins 1 ms after each record if a record follows soon
enough. Its records are at most the time difference apart.
`SlidingWindows.of_time_difference_and_grace(10, 0)`, the four records of KIP-450:

$sliding

With records that are behind. `A` has another key, but it moves the clock:

$sliding_late

When `a` came, [15,25] was closed: a window that is closed when the record that would begin it
comes is not made. `a` is accepted all the same and counts in [21,31]. For `c` even the last
possible window, [19,29], was closed.

## Session

A session goes from the first to the last record of a burst. Records exactly the gap apart are one
burst. `SessionWindows.of_inactivity_gap_and_grace(10, 20)`, one batch a record; `<---->` is a
row that takes a session away:

$session

A record that bridges sessions merges them: each is removed, and their union is written.
In a single batch only the last session would be written.

Late records, with gap 5 and grace 0:

$session_late

`b` made stream time 14 and closed all that ends before 9. `d` is behind that, but it touches an
open session and is taken. `e` touches only [2,2], which is closed, so `e` is late. Nothing
reopens a closed session.

Sessions of a key whose records come from several partitions:
[decision 0009](../decisions/0009-merge-sessions-of-partitions-that-were-open-for-each-other.md).

## None

Without windows there is one row a key. Nothing closes, nothing is late, no row is final.

$none

## The newest window: latest and current

Two reads of the service answer one window of a key each. `latest` is Kafka's: the window with the
greatest start. `current` is the one that ends at the key's newest record, which is what a dashboard
wants to show. Sliding windows of 10 ms:

$newest_sliding

The window with the greatest start is the one right of the newest record but one. It holds the
newest record and nothing before. The one that ends at the newest record holds all of the last 10
ms. (If that was closed when the record came, `current` is, of the windows that hold the record, the
one that ends first.) Hopping windows of 12 ms, advance 5:

$newest_hopping

All windows that hold the newest record are candidates. `latest` started last and has the least of
what came before, `current` started first and has the most. Of tumbling windows both are the one
that holds the newest record. Of sessions `current` is the one that ends last, `latest` the one that
starts last: the same, but where sessions of several partitions overlap. The newest ten windows are
`backwardFetch` with `limit=10`; those that hold an instant are `covering`.

## What is written when

`EmitStrategy.on_window_update()` writes a window in each batch that changes it, and once more when
it becomes final. `on_window_close()` writes it once, when it is final; so does
`suppress(until_window_closes())`. Tumbling windows of 10 ms, grace 0:

$emit

The final rows are the same. On close, a window that is still open is in no answer.

## Timestamps

A row has the greatest time of its records; a session's is its end (KIP-259). The time in the row
that each record's batch writes, one batch a record:

$timestamps

## Batches and partitions

How a log is cut into batches does not matter, nor does the order in which partitions are read.
Tumbling windows of 10 ms, grace 0; `/1` marks the records of partition 1:

$cuts

`e` is behind partition 0, but in order in its own partition, so it is never late. No window is
final: partition 1 is at 9 and could still bring a record for each of them.
""")


if __name__ == "__main__":
    write()
