"""What the pages show of client and forms runs, each page from top to bottom."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oriel.client import Client
from oriel.storage import AggregateSpec, StoreDefinition
from tests.app.serving import Serving
from tests.storage.store_tables import SLIDING, StoreTable, make_record
from tests.storage.waiting import wait_until
from tests.tidy.project import ROOT

_BLOCK = re.compile(r"^```py\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with the store of the pages: departures of an airport."""
    data = tmp_path_factory.mktemp("pages")
    aggregates = (AggregateSpec("departures", "count()", "long"),)
    definition = StoreDefinition(
        "departures_by_origin", "flights", "origin", SLIDING, aggregates, 4, application="demo"
    )
    rows = [{"key": "EWR", "start": 1357034400000 + n, "departures": n} for n in range(30)]
    record = make_record(0, offsets={"flights": {"0": 100}})
    StoreTable(data, definition).commit(rows, record)
    serving = Serving(data)
    try:
        url = f"http://127.0.0.1:{serving.port}"
        with Client(url) as client:
            wait_until(lambda: [store.ready for store in client.stores()] == [True], "the store")
        yield url
    finally:
        serving.end()


@pytest.mark.parametrize("page", ["README.md", "docs/client.md", "docs/formats.md"])
def test_the_examples_of_a_page_run(
    page: str, demo_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As they stand there, with another port; what they print and keep is there."""
    text = (ROOT / page).read_text()
    scope: dict[str, Any] = {}
    blocks = list(_BLOCK.finditer(text))
    assert blocks
    for match in blocks:
        block = match[1].replace("http://127.0.0.1:8080", demo_url)
        assert demo_url in block or "import" in block
        line = text.count("\n", 0, match.start()) + 1
        exec(compile("\n" * line + block, str(Path(page)), "exec"), scope)  # noqa: S102
    assert len(scope["frame"]) == 30
    printed = capfd.readouterr().out
    assert ("2013-01-01 10:00:00.029000+00:00 29 False" in printed) == (page == "docs/client.md")
