"""docs/concepts/windows.md is what the engines compute, and the drawings follow the rules."""

import pytest

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import RULES, NoWindows, Windows
from tools import drawings
from tools.window_pictures import arrivals, computed, one_by_one, picture, steps


def test_the_page_is_what_the_module_writes() -> None:
    """The committed page is the page that the rules and engines produce now."""
    committed = drawings.PAGE.read_text(encoding="utf-8")
    assert committed == drawings.page(), "run: python -m tools.drawings"


def test_every_kind_is_drawn() -> None:
    """The page has a row of the rules table and a section for each window kind."""
    page = drawings.page()
    for kind in RULES:
        assert f"\n| {kind} | " in page
        assert f"\n## {kind.capitalize()}\n" in page


def test_a_bar_ends_as_the_rule_says() -> None:
    """A window is drawn over the ms that it can hold: an excluded end is not under its bar."""
    tumbling = picture(TimeWindows.of_size_with_no_grace(4), "a@0", 5).splitlines()
    sliding = picture(SlidingWindows.of_time_difference_with_no_grace(4), "a@4", 5).splitlines()
    session = picture(SessionWindows.of_inactivity_gap_with_no_grace(4), "a@1", 5).splitlines()
    none = picture(NoWindows(), "a@1", 5).splitlines()
    assert tumbling[4] == " " * 12 + "[------)   [0,4) a open"
    assert sliding[4] == " " * 12 + "[--------] [0,4] a open"
    assert session[4] == " " * 12 + "  []       [1,1] a open"
    assert none[4] == " " * 12 + "[--------> all a open"


def test_the_picture_of_kip_450_has_seven_windows() -> None:
    """Four records at 10, 14, 19 and 26 define seven windows of time difference 10."""
    windows = SlidingWindows.of_time_difference_with_no_grace(10)
    rows = computed(windows, one_by_one(arrivals("a@10 b@14 c@19 d@26"))).rows()
    assert {row["window_start_ms"]: "".join(row["names"]) for row in rows} == {
        0: "a", 4: "ab", 9: "abc", 11: "bc", 15: "c", 16: "cd", 20: "d",
    }  # fmt: skip


def test_the_timestamps_are_those_of_kip_259() -> None:
    """Records at 1,2,5,6,4,3,7,9 produce rows at 1,2,5,6,6,6,7,9 without windows."""
    assert "| none | 1 | 2 | 5 | 6 | 6 | 6 | 7 | 9 |" in drawings.page()
    assert "| tumbling, size 5 | 1 | 2 | 5 | 6 | 4 | 4 | 7 | 9 |" in drawings.page()


def test_a_removed_session_is_drawn_before_the_merged_one() -> None:
    """The steps of a session show which rows a merge removes."""
    drawn = steps(SessionWindows.of_inactivity_gap_and_grace(2, 9), "a@0 b@4 c@2", 5)
    after_the_bars = 12 + 2 * 5 + 1
    assert [line[after_the_bars:] for line in drawn.splitlines()[-4:-1]] == [
        "[0,0] removed", "[4,4] removed", "[0,4] a c b open",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        (TimeWindows.of_size_and_grace(10, 5), "a@2 b@8 c@14 d@9 e@15 f@7"),
        (TimeWindows.of_size_with_no_grace(12).advance_by(5), "a@21 b@13 c@9 d@23"),
        (SlidingWindows.of_time_difference_with_no_grace(10), "A@30 a@25 b@31 c@19"),
        (SessionWindows.of_inactivity_gap_and_grace(10, 20), "a@0 b@30 c@15 d@20 e@10"),
        (SessionWindows.of_inactivity_gap_with_no_grace(5), "a@2 b@14 c@10 d@6 e@0"),
        (NoWindows(), "a@2 b@12 c@7"),
    ],
)
def test_the_pictures_do_not_depend_on_the_cut(windows: Windows, text: str) -> None:
    """The page draws the same windows for one batch per record and for one batch of all records."""
    records = arrivals(text)
    assert computed(windows, [records]).store == computed(windows, one_by_one(records)).store


def test_the_table_of_cuts_has_one_result() -> None:
    """The example of batches on the page has the same rows for each order."""
    rows = drawings.drawings()["cuts"].splitlines()[2:]
    assert len(rows) == 3
    assert len({row.split("|")[-2] for row in rows}) == 1


def test_one_batch_writes_the_last_session_only() -> None:
    """Sessions that are created and merged within one batch are never written."""
    records = arrivals("a@0 b@30 c@15 d@20 e@10")
    written = computed(SessionWindows.of_inactivity_gap_and_grace(10, 20), [records]).written
    assert [(row["window_start_ms"], row["window_end_ms"]) for row in written[0]] == [(0, 30)]
