"""The three examples through the real pipeline and the real service."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from examples import alert, logs
from examples.run import EXAMPLES
from examples.webhook import Alert, Delivered, tell_new
from oriel.demo import serving
from oriel.testing import Record, TopologyTestDriver
from tests.e2e.runs_in_one_process import ROOT, Runs


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> Iterator[httpx.Client]:
    """A service of all examples, over one data folder."""
    folder = tmp_path_factory.mktemp("examples")
    for example in EXAMPLES:
        records = logs.write_log(folder / "log", example)
        ended = runs.run(
            str(ROOT / "examples" / f"{example}.py"), "--event-log", str(folder / "log"),
            "--data", str(folder / "data"), "--once", "--no-sync",
        )  # fmt: skip
        assert ended.code == 0, ended.told
        counters = ended.summary["stores"][EXAMPLES[example].store]
        assert counters["input"] == records
        assert counters["dead_lettered"] == 0
    with serving(folder / "data") as client:
        yield client


@pytest.mark.e2e
@pytest.mark.parametrize("example", EXAMPLES)
def test_what_an_example_shows_is_there(service: httpx.Client, example: str) -> None:
    """The key that its dashboard link and its request name has windows, some of them final."""
    shown = EXAMPLES[example]
    answer = service.get(f"/v1/stores/{shown.store}/{shown.read}/{shown.key}?limit=3&final=true")
    assert answer.json()["windows"], answer.text


@pytest.mark.e2e
def test_the_webhook_is_told_of_each_alert_once(service: httpx.Client, tmp_path: Path) -> None:
    """Of those windows that the test driver finds in the same records, and of no others."""
    told = []

    def hear(request: httpx.Request) -> httpx.Response:
        window = json.loads(request.content)["window"]
        told.append((window["key"], window["window_start_ms"]))
        return httpx.Response(204)

    with httpx.Client(transport=httpx.MockTransport(hear)) as webhook:
        what = Alert(alert.STORE, "beats", alert.LEAST_BEATS, "http://hook")
        state = tmp_path / "sent.json"
        assert tell_new(service, webhook, what, Delivered.read(state)) == len(told)
        assert tell_new(service, webhook, what, Delivered.read(state)) == 0
    assert sorted(told) == _expected()
    assert len(told) > 60


def _expected() -> list[tuple[str, int]]:
    """Key and start of each final window with too few beats, by the test driver."""
    driver = TopologyTestDriver(alert.topology)
    events = list(logs.heartbeats(Random(1)))
    for partition in range(2):  # known from the beginning
        driver.pipe_input("heartbeats", [], partition)
    for partition in range(2):
        driver.pipe_input(
            "heartbeats",
            [Record(e.key, e.value, e.timestamp_ms) for e in events if e.partition == partition],
            partition,
        )
    windows = driver.window_store(alert.STORE).fetch_all(0, 10**13)
    return sorted(
        (one.key, one.window_start_ms) for one in windows if one.value["beats"] < alert.LEAST_BEATS
    )
