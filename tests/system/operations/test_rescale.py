"""Stores continue with another number of key groups as if they had not changed."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel.pipeline.operations import rescale
from oriel.pipeline.sources import EventLog
from oriel.storage.delta import DeltaLog
from tests.campaigns import full
from tests.e2e.event_logs import random_logs, write_lines
from tests.pipeline.run.inputs_topology import every_input, random_topics
from tests.pipeline.run.rebuilt_stores import RECORDS, Bench, counting
from tests.pipeline.run.topic_logs import write_topics
from tests.system.kills import kinds_topology

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench without records."""
    return Bench(spark, tmp_path)


# One group, and more groups than before: each store has one of both, adjacent kinds have both.
@pytest.mark.parametrize("numbers", [(1, 200), *full((200, 1))])
def test_a_store_with_other_key_groups_continues(bench: Bench, numbers: tuple[int, int]) -> None:
    """For each kind, rows and counters equal those of an unchanged store."""
    lines = random_logs(Random(4))
    half = {p: of_partition[: len(of_partition) // 2] for p, of_partition in lines.items()}
    write_lines(bench.log / kinds_topology.TOPIC, half)
    stores = [store.name for store in kinds_topology.topology.stores]
    bench.run(kinds_topology.topology, log=EventLog(bench.log, 12_000))
    data = str(bench.settings.data)
    key_groups = dict(zip(stores, cycle(numbers), strict=False))
    for name, number in key_groups.items():
        assert rescale.main([name, str(number), "--data", data, "--no-sync"]) == 0
    shutil.rmtree(bench.log)
    write_lines(bench.log / kinds_topology.TOPIC, lines)
    bench.assert_as_fresh(kinds_topology.topology, *stores)
    for name, number in key_groups.items():
        table = DeltaLog(bench.settings.data / "tables" / name)
        assert table.snapshot().definition.key_groups == number


def test_joins_go_on_with_other_key_groups(bench: Bench) -> None:
    """The states of joins also have key groups, and continue."""
    topics = random_topics(6)
    undisturbed = Bench(bench.spark, bench.log.parent)
    undisturbed.settings = replace(bench.settings, data=bench.log.parent / "undisturbed")
    names = [store.name for store in every_input().stores]
    for cut in (slice(None, 25), slice(25, None)):
        write_topics(
            bench.log,
            {topic: {p: rows[cut] for p, rows in of_topic.items()}
             for topic, of_topic in topics.items()},
        )  # fmt: skip
        bench.run(every_input())
        if undisturbed.settings.data.exists():
            break
        shutil.copytree(bench.settings.data, undisturbed.settings.data)
        for name in names:
            arguments = [name, "5", "--data", str(bench.settings.data), "--no-sync"]
            assert rescale.main(arguments) == 0
    undisturbed.run(every_input())
    for name in names:
        assert bench.newest(name) == undisturbed.newest(name) != []


def test_a_rescale_that_is_killed_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rescale that is killed before its only commit changes nothing, and can be repeated."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    arguments = ["s", "3", "--data", str(bench.settings.data), "--no-sync"]
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("oriel.storage.delta.Table.set_property", _killed)
        assert rescale.main(arguments) == 1
    assert capsys.readouterr().err == "oriel rescale: killed\n"
    bench.append("t", 0, ("a", 3, 50))
    bench.run(counting())
    assert rescale.main(arguments) == 0
    bench.append("t", 0, ("a", 3, 51))
    bench.assert_as_fresh(counting(), "s")


def _killed(*_given: Any) -> None:
    message = "killed"
    raise OSError(message)


@pytest.mark.parametrize(
    ("harm", "store", "said"),
    [
        (lambda _: None, "none", "store 'none' does not exist in "),
        (lambda _: None, "to(x)", r"'to\(x\)' is an output topic, whose number of key groups"),
        (lambda data: shutil.rmtree(data / "checkpoints"), "s", "is not in .*checkpoints"),
        (lambda data: shutil.rmtree(data / "checkpoints/app/state"), "s", "`oriel rebuild s`"),
    ],
)
def test_a_rescale_that_is_not_possible_is_an_error_of_one_line(
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[Path], None],
    store: str,
    said: str,
) -> None:
    """The error is one line with the fix."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    harm(bench.settings.data)
    capsys.readouterr()
    assert rescale.main([store, "3", "--data", str(bench.settings.data)]) == 1
    errors = capsys.readouterr().err
    assert re.search(said, errors)
    assert errors.count("\n") == 1
