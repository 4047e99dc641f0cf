"""The stack from the perspective of a user."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx
import pytest

from oriel.demo.command import KEY, STORE
from oriel.demo.records import ORIGINS
from tests.chromium import start_chromium
from tests.system.stack.compose import RUNNING, SERVICES, Stack
from tests.system.stack.engine import Engine, run
from tests.system.stack.flights import require_exact_windows
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.e2e


@pytest.fixture
def browser(engine: Engine, tmp_path: Path) -> Iterator["Chrome"]:
    """Yield a browser in the network of the engine, and run the test there."""
    with engine.inside():
        driver = start_chromium(tmp_path)
        yield driver
        driver.quit()


def test_every_service_is_healthy(stack: Stack) -> None:
    """The images build, and the health check of each service succeeds."""
    stack.wait_until_healthy(*RUNNING)


def test_every_window_equals_an_independent_computation(stack: Stack) -> None:
    """Flights pass from the producer through Kafka and the pipeline to the service."""
    require_exact_windows(stack)


def test_the_request_of_the_readme_returns_fields_of_the_readme(stack: Stack) -> None:
    """The README's curl prints a current window in the form that the README shows."""
    readme = (ROOT / "README.md").read_text()
    (path,) = re.findall(rf"^curl localhost:8080(/v1/\S+/current/{KEY})$", readme, re.MULTILINE)
    (shown,) = re.findall(r"^```json\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[:1]
    with stack.engine.inside():
        response = json.loads(run("curl", "--silent", stack.address("api", 8080) + path))
    sample = json.loads(shown)
    assert response.keys() == sample.keys()
    assert [window.keys() for window in response["windows"]] == [sample["windows"][0].keys()]


@pytest.mark.parametrize("airport", ORIGINS)
def test_windows_of_every_partition_become_final(stack: Stack, airport: str) -> None:
    """No partition of the flights keeps windows open."""
    wait_for(
        lambda: stack.get(f"/v1/stores/{STORE}/fetch/{airport}", final="true", limit=1).json(),
        lambda page: bool(page.get("windows")),
        f"final windows of {airport}",
    )


def test_the_service_responds_only_to_names_that_it_allows(stack: Stack) -> None:
    """Prometheus reads metrics by the name ``api``, and other names are rejected."""
    metrics = stack.get("/metrics", host="api:8080")
    assert 'oriel_pipeline_up{application="flights"} 1' in metrics.text
    assert stack.get("/metrics", host="example.org:8080").is_client_error


@pytest.mark.browser
def test_the_page_shows_windows_and_follows_the_stream(stack: Stack, browser: "Chrome") -> None:
    """The dashboard lists the windows of a key, and newer windows arrive while it is open."""
    first_row = "return document.querySelector('tbody:not([aria-hidden]) tr td')?.textContent ?? ''"
    address = stack.address("api", 8080)
    browser.get(f"{address}/#{urlencode({'store': STORE, 'key': KEY})}")
    shown = wait_for(lambda: str(browser.execute_script(first_row)), bool, "a row of windows")
    wait_for(
        lambda: str(browser.execute_script(first_row)),
        lambda row: row not in {"", shown},
        f"a newer window than {shown}",
    )
    logged = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry["message"] for entry in logged if entry["level"] == "SEVERE"] == []


def test_the_health_check_of_the_pipeline_notices_suspended_processes(stack: Stack) -> None:
    """The check fails while the pipeline is suspended, and succeeds after it continues."""
    kind, *check = SERVICES["pipeline"]["healthcheck"]["test"]
    assert kind == "CMD"
    check[-1] = "--pipeline=demo/flights.py"
    wait_for(lambda: stack.execute("pipeline", *check), lambda done: done[0] == 0, "success")
    with stack.suspended("pipeline"):
        wait_for(lambda: stack.execute("pipeline", *check), lambda done: done[0] != 0, "failure")
    wait_for(lambda: stack.execute("pipeline", *check), lambda done: done[0] == 0, "success")


_MINE = """
from oriel import StreamsBuilder, TimeWindows, count, sum

builder = StreamsBuilder()
(
    builder.stream("orders", schema="amount DOUBLE")
    .group_by_key()
    .windowed_by(TimeWindows.of_size_with_no_grace(60_000))
    .aggregate(orders=count(), revenue=sum("amount"))
    .materialize("revenue_by_city")
)
topology = builder.build()
"""


def _documented(program: str) -> list[str]:
    """Return the page's command that runs a Kafka program, without the words before it."""
    page = (ROOT / "docs" / "how-to" / "local-stack.md").read_text().replace("\\\n", " ")
    (command,) = re.findall(rf"(/opt/kafka/bin/{program} [^`\n]*)", page)
    return shlex.split(command)


def _require_retirement(mine: Stack) -> None:
    """A pipeline that ran before does not matter for this one, and can be retired."""
    ended = (
        # A status of an earlier version, without a digest.
        """mkdir /data/checkpoints/flights && sed -e 's/"has_ended":false/"has_ended":true/' """
        """-e 's/,"digest":"[^"]*"}$/}/' /data/checkpoints/mine/status.json """
        "> /data/checkpoints/flights/status.json"
    )
    mine.require("pipeline", "sh", "-c", ended)
    _, *check = (part.replace("${TOPOLOGY:-demo/flights.py}", "/project/mine.py")
                 for part in SERVICES["pipeline"]["healthcheck"]["test"])  # fmt: skip
    oriel = ("python", "-P", "-m", "oriel")
    mine.require("pipeline", *check)
    code, output = mine.execute("pipeline", *oriel, "status", "--data=/data", "--check")
    assert (code, output[:30]) == (1, "Pipeline flights has not run s"), output
    assert 'oriel_pipeline_up{application="flights"} 0' in mine.get("/metrics").text
    mine.require("pipeline", *oriel, "retire", "flights", "--data=/data")
    mine.require("pipeline", *oriel, "status", "--data=/data", "--check")
    assert 'application="flights"' not in mine.get("/metrics").text
    states = {one["pipeline"]: one["state"] for one in mine.get("/v1/status").json()["pipelines"]}
    assert states == {"flights": "retired", "mine": "running"}


def test_another_topology_runs(stack: Stack, tmp_path: Path) -> None:
    """TOPOLOGY=/project/mine.py runs the file of the user over records typed into the broker."""
    # The user of the container can read the directory, and the ports are free.
    tmp_path.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    (project / "mine.py").write_text(_MINE)
    mine = Stack(
        stack.engine, f"{stack.project}-mine",
        {"./stack/project": str(project), "127.0.0.1:8080:": "127.0.0.1::"},
        TOPOLOGY="/project/mine.py",
    )  # fmt: skip
    try:
        mine.share_images(stack)
        mine.compose("up", "--detach", "broker")
        mine.wait_until_healthy("broker")
        mine.require("broker", *_documented("kafka-topics.sh"))
        mine.compose("up", "--detach", "--scale", "producer=0", "pipeline", "api")
        typed = 'berlin {"amount": 12.5}\nparis {"amount": 1}\nberlin {"amount": 2.5}\n'
        mine.require("broker", *_documented("kafka-console-producer.sh"), words=typed)

        def revenue() -> float:
            response = mine.get("/v1/stores/revenue_by_city/fetch/berlin")
            if response.status_code != httpx.codes.OK:
                return 0
            return float(sum(window["revenue"] for window in response.json()["windows"]))

        mine.wait_until_healthy("pipeline", "api")
        wait_for(revenue, lambda total: total == 15, "a revenue of 15")
        _require_retirement(mine)
    finally:
        mine.compose("down", "--volumes", "--timeout=1")
