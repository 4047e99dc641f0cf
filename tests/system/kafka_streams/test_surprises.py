"""Kafka Streams returns the rows that docs/reference/kafka-streams-differences.md shows."""

import re
import subprocess

import pytest

from tests.tidy.project import ROOT
from tests.windows.kafka_peer import Case, KafkaPeer, class_path, running_peer
from tools import surprises
from tools.window_pictures import Arrival, arrivals

pytestmark = pytest.mark.slow


#: A window with the names in it, as the page writes it.
_WINDOW = re.compile(r"\[(\d+),(\d+)[\])] ?([a-z ]*)")


def test_kafka_has_the_results_of_the_examples(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kafka returns the page's windows at the end, or the new rows after each record."""
    with running_peer(tmp_path_factory.getbasetemp() / "kafka-peer") as peer:
        for name, example in surprises.EXAMPLES.items():
            records = arrivals(example.records)
            if example.emit == "update":
                result = peer.result(_case(example, records))
                found = sorted(
                    (place.start, place.end, _names(records, row.members))
                    for place, row in result.left.items()
                    if place.key == "key"
                )
                expected = sorted(_windows(" ".join(example.kafka)))
                assert found == expected, name
            else:
                assert _emitted(peer, example, records) == list(map(_windows, example.kafka)), name


def _case(example: surprises.Example, records: list[Arrival]) -> Case:
    log = [(one.key, one.time_ms, float(place)) for place, one in enumerate(records, start=1)]
    return Case(example.windows, log, example.emit, example.retention_ms)


def _emitted(
    peer: KafkaPeer, example: surprises.Example, records: list[Arrival]
) -> list[list[tuple[int, int, str]]]:
    """Return the rows that each record adds to the result of the records before it."""
    by_record, before = [], 0
    for number in range(1, len(records) + 1):
        emitted = peer.result(_case(example, records[:number])).emitted
        by_record.append([
            (one.place.start, one.place.end, _names(records, _members(one.calls)))
            for one in emitted[before:]
        ])  # fmt: skip
        before = len(emitted)
    return by_record


def _members(calls: str | None) -> list[int]:
    return sorted(int(call) for call in (calls or "").split("+") if call not in ("", "0", "null"))


def _names(records: list[Arrival], members: list[int]) -> str:
    """Return the sorted names of a window's records."""
    return "".join(sorted(records[place - 1].name for place in members))


def _windows(text: str) -> list[tuple[int, int, str]]:
    """Return windows as the page writes them, with sorted names."""
    found = _WINDOW.findall(text)
    return [(int(start), int(end), "".join(sorted(names.split()))) for start, end, names in found]


def test_kafka_has_the_results_of_the_other_examples(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Kafka returns the page's values for removals, cogroups, merged streams and joins."""
    jars = class_path(tmp_path_factory.getbasetemp() / "kafka-peer")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, "oriel.Surprises"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    results = dict(line.split("=") for line in done.stdout.splitlines())
    assert results.keys() == surprises.RESULTS.keys()
    for name, windows in surprises.RESULTS.items():
        plain = [window.replace(")", "]").replace(" ", "") for window in windows]
        assert sorted(results[name].split()) == sorted(plain), name
