"""What a run reports about the records that it rejected."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, Topology
from oriel.pipeline.run.reporting import rejections
from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.run.reporting.rejections import Rejections
from oriel.pipeline.sources import EventLog
from oriel.storage import DataLayout
from tests.bits import flip_bit
from tests.pipeline.run.topic_logs import Stores, write_topics
from tests.storage.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[list[str], bool]]

RAISED = (
    "dead letters: reason=function-raised count={} topic=t partition=0 offset={} "
    "detail=\"store 's', aggregate: ValueError: unlucky   number\""
)
NOT_JSON = (
    'dead letters: reason=not-json count=1 topic=t partition=0 offset=45 detail="the line is '
    'not one JSON object"'
)


def only_negative(_key: str, value: dict[str, Any], total: int) -> int:
    """Add up, and raise on a number above 0."""
    if value["v"] > 0:
        message = "unlucky \n\x1b number"
        raise ValueError(message)
    return total + int(value["v"])


def topology() -> Topology:
    """Return a store that rejects positive numbers."""
    builder = StreamsBuilder()
    values = builder.stream("t", "v INT").group_by_key()
    values.aggregate(lambda: 0, only_negative, schema="total BIGINT").materialize("s")
    return builder.build()


@pytest.fixture(name="run")
def _run(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs. It returns the warnings, and whether all were rejected."""
    stores = Stores(spark, tmp_path)

    def run(*records: Any, **options: Any) -> tuple[list[str], bool]:
        write_topics(tmp_path / "log", {"t": {0: records}})
        progress = Progress(0, EventLog(tmp_path / "log"), tmp_path / "data")
        stores.progress = progress
        stores.run(topology(), **options)
        capsys.readouterr()
        progress.rejections.report(now=True)
        return capsys.readouterr().err.splitlines(), progress.has_rejected_all

    return run


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26])
def test_a_run_reports_each_reason_with_a_count_and_an_example(
    run: Run, small_batch_bytes: int
) -> None:
    """The most frequent reason is first, and a detail is one printable line."""
    records = [("k", 1, {"v": 5}), b"hello", ("k", 2, {"v": -1}), ("k", 3, {"v": 6})]
    assert run(*records, small_batch_bytes=small_batch_bytes) == (
        [
            RAISED.format(2, 0),
            NOT_JSON,
        ],
        False,
    )


def test_a_run_reports_only_the_records_that_it_rejected(run: Run) -> None:
    """Dead letters and applied records of earlier runs do not count."""
    assert run(("k", 1, {"v": -1}), b"hello")[1] is False
    assert run() == ([], False)
    lines, has_rejected_all = run(("k", 1, {"v": 1}))
    assert lines == [RAISED.format(1, 52)]
    assert has_rejected_all
    assert run(("k", 1, {"v": -1})) == ([], False)


def test_a_run_does_not_report_damaged_dead_letters(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warning names the damaged file and what restores it."""
    write_topics(tmp_path / "log", {"t": {0: [b"hello"]}})
    stores = Stores(spark, tmp_path)
    stores.run(topology())
    (file,) = stores.last["s"].dead_letters
    flip_bit(DataLayout(tmp_path / "data").dead_letters / file.path)
    rejections = Rejections(tmp_path / "data")
    capsys.readouterr()
    rejections.add(stores.last)
    rejections.report(now=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file.path}: the data file is damaged" in line
    assert "from a backup" in line


def test_a_report_repeats_a_reason_only_if_its_count_has_changed(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A live run reports at most every 10 s, and its last report has the remaining counts."""
    monkeypatch.setattr(rejections, "_REPORT_SECONDS", 10 * WAIT_SECONDS)
    write_topics(tmp_path / "log", {"t": {0: [b"hello", b"world", ("k", 1, {"v": 1})]}})
    progress = Progress(0, EventLog(tmp_path / "log"), tmp_path / "data")
    stores = Stores(spark, tmp_path, progress=progress)
    stores.run(topology(), batch_bytes=1)
    assert stores.batches == 3
    progress.rejections.report()
    reports = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dead")]
    assert [line.split(" topic=")[0] for line in reports] == [
        "dead letters: reason=not-json count=2",
        "dead letters: reason=function-raised count=1",
    ]
    write_topics(tmp_path / "log", {"t": {0: [b"again"]}})
    stores.run(topology())
    capsys.readouterr()
    progress.rejections.report()
    assert capsys.readouterr().err == ""
    progress.rejections.report(now=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dead letters: reason=not-json count=3 topic=t ")
