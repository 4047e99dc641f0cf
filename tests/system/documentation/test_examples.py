"""The three examples run through the real pipeline and the real service."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from examples import alert, logs
from examples.run import EXAMPLES
from examples.webhook import Alert, Delivered, send_alerts
from oriel.demo import serving
from oriel.testing import Record, TopologyTestDriver
from tests.e2e.runs_in_one_process import ROOT, Runs


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> Iterator[httpx.Client]:
    """Yield a client of a service with the stores of all examples."""
    directory = tmp_path_factory.mktemp("examples")
    for example in EXAMPLES:
        records = logs.write_log(directory / "log", example)
        ended = runs.run(
            str(ROOT / "examples" / f"{example}.py"), "--event-log", str(directory / "log"),
            "--data", str(directory / "data"), "--once", "--no-sync",
        )  # fmt: skip
        assert ended.code == 0, ended.errors
        counters = ended.summary["stores"][EXAMPLES[example].store]
        assert counters["input"] == records
        assert counters["dead_lettered"] == 0
    with serving(directory / "data") as client:
        yield client


@pytest.mark.e2e
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_first_output_of_an_example_has_windows(service: httpx.Client, example: str) -> None:
    """An example's dashboard link and first request show a key with final windows."""
    shown = EXAMPLES[example]
    response = service.get(f"/v1/stores/{shown.store}/{shown.read}/{shown.key}?limit=3&final=true")
    assert response.json()["windows"], response.text


@pytest.mark.e2e
def test_the_webhook_gets_each_alert_once(service: httpx.Client, tmp_path: Path) -> None:
    """The webhook receives alerts for the windows that the test driver returns."""
    received = []

    def receive(request: httpx.Request) -> httpx.Response:
        window = json.loads(request.content)["window"]
        received.append((window["key"], window["window_start_ms"]))
        return httpx.Response(204)

    with httpx.Client(transport=httpx.MockTransport(receive)) as webhook:
        what = Alert(alert.STORE, "beats", alert.LEAST_BEATS, "http://hook")
        state = tmp_path / "sent.json"
        assert send_alerts(service, webhook, what, Delivered.read(state)) == len(received)
        assert send_alerts(service, webhook, what, Delivered.read(state)) == 0
    assert sorted(received) == _expected()
    assert len(received) > 60


def _expected() -> list[tuple[str, int]]:
    """Return key and start of each final window that the test driver reports for missing beats."""
    driver = TopologyTestDriver(alert.topology)
    events = list(logs.heartbeats(Random(1)))
    for partition in range(2):  # windows wait for both partitions
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
