"""The planner of a topic waits for records of all topics of the query, and misses none."""

import threading
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from oriel.pipeline import new_records
from oriel.pipeline.event_log import EventLogReader
from oriel.pipeline.new_records import NewLines, waiting_ends
from tests.storage.waiting import WAIT_SECONDS

_LINE = b"{}\n"


class Topics:
    """Two topics with a partition each, and the planner of topic ``a``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        for topic in "ab":
            (root / topic).mkdir()
            self.append(topic)
        self.planner = EventLogReader(root / "a", "a", 1_000, NewLines([root / "a", root / "b"]))

    def append(self, topic: str, content: bytes = _LINE) -> None:
        """Write to partition 0."""
        with (self._root / topic / "0.jsonl").open("ab") as file:
            file.write(content)

    def end(self, start: int) -> int:
        """Return where the next batch of topic ``a`` ends."""
        ends = self.planner.latestOffset({"a": {"0": start}}, ReadMaxBytes(1_000))
        return int(ends["a"]["0"])


@pytest.fixture
def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Topics whose planner waits longer than any test, if nothing ends its wait."""
    monkeypatch.setattr(new_records, "MAX_WAIT_SECONDS", 10 * WAIT_SECONDS)
    return Topics(tmp_path)


def _while_it_waits(topics: Topics, monkeypatch: pytest.MonkeyPatch, topic: str) -> int:
    """Return the end that the planner of ``a`` returns if ``topic`` gets a line while it waits."""
    waits = threading.Event()
    wait = topics.planner._records.wait  # type: ignore[union-attr]

    def noted_wait() -> None:
        waits.set()
        wait()

    monkeypatch.setattr(topics.planner._records, "wait", noted_wait)

    def append() -> None:
        assert waits.wait(WAIT_SECONDS)
        topics.append(topic)

    appending = threading.Thread(target=append)
    appending.start()
    try:
        return topics.end(len(_LINE))
    finally:
        appending.join()


@pytest.mark.parametrize(("topic", "end"), [("a", 2), ("b", 1)])
def test_a_record_of_any_topic_ends_a_wait(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, topic: str, end: int
) -> None:
    """The batch has the new line of the planner's topic, and no line of another topic."""
    topics.end(0)
    assert _while_it_waits(topics, monkeypatch, topic) == end * len(_LINE)


def test_a_record_between_two_calls_is_not_waited_for(topics: Topics) -> None:
    """The planner returns at once if another topic got a line after the previous call."""
    topics.end(0)
    topics.append("b")
    assert topics.end(len(_LINE)) == len(_LINE)


def test_a_batch_with_records_is_planned_at_once(topics: Topics) -> None:
    """Existing lines are never waited for."""
    assert [topics.end(0), topics.end(0)] == [len(_LINE)] * 2


def test_a_wait_without_records_ends(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop of the query has to wait for the end of the call, so a wait is short."""
    monkeypatch.setattr(new_records, "MAX_WAIT_SECONDS", 0.01)
    assert [topics.end(0), topics.end(len(_LINE))] == [len(_LINE)] * 2


def test_a_part_of_a_line_is_no_record(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner returns for a part of a line, and its end stays before the line."""
    topics.end(0)
    topics.append("a", b"half")
    assert topics.end(len(_LINE)) == len(_LINE)
    monkeypatch.setattr(new_records, "MAX_WAIT_SECONDS", 0.01)
    assert topics.end(len(_LINE)) == len(_LINE)


def test_a_query_with_a_trigger_does_not_wait() -> None:
    """Spark starts batches at fixed times, and the planner returns the current ends."""
    assert waiting_ends(lambda: {"0": 7}, {"0": 7}, None) == {"0": 7}
