"""Data directories of every format: the pipeline continues from them or says what to do."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oriel.app.server import Service
from oriel.storage import DataLayout
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory
from oriel.storage.tailer.store import StoreTailer
from tests.app.api_client import ApiClient
from tests.e2e.kafka_broker import Broker, messages_of
from tests.e2e.runs_in_one_process import Runs
from tests.golden.directories import (
    LOG,
    SINK,
    archives,
    topologies,
    unpack,
)
from tests.golden.pipelines import Directory
from tests.storage.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.e2e

NAMES = list(archives())
#: This version cannot read state of the formats 1 and 2.
REFUSED = [name for name in NAMES if name.startswith(("state1", "state2"))]
CONTINUED = [name for name in NAMES if name not in REFUSED]
#: The topic of the topology ``sink``.
TOPIC = "sold"


@pytest.fixture(scope="module", name="undisturbed")
def _undisturbed(
    kafka_runs: Runs, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Directory]:
    """Return a function that runs a topology once over the whole log, and caches its directory."""
    made: dict[str, Directory] = {}

    def run(name: str) -> Directory:
        if name not in made:
            made[name] = Directory(tmp_path_factory.mktemp(name), kafka_runs)
            ended = made[name].run(name, "--once")
            assert ended.code == 0, ended.errors
        return made[name]

    return run


@pytest.fixture(name="directory")
def _directory(name: str, kafka_runs: Runs, tmp_path: Path) -> Directory:
    """Return the golden directory of the test, next to the whole log."""
    made = Directory(tmp_path, kafka_runs)
    unpack(name, made.data)
    return made


def assert_same(found: Directory, *wanted: Directory) -> None:
    """Compare rows, positions, counters and dead letters with those of one run per topology."""
    for one in wanted:
        for store in one.stores:
            assert found.rows(store) == one.rows(store) != [], store
            assert found.record(store) == one.record(store), store
    assert found.dead_letters == set.union(*(one.dead_letters for one in wanted)) != set()


@pytest.mark.parametrize("name", CONTINUED)
def test_a_run_continues_as_if_it_had_never_stopped(
    name: str, directory: Directory, undisturbed: Callable[[str], Directory]
) -> None:
    """The rows, counters and dead letters equal those of one run over the whole log."""
    with_stores = [one for one in topologies(name) if one != SINK]
    for each in with_stores:
        ended = directory.run(each, "--once")
        assert ended.code == 0, ended.errors
    assert_same(directory, *map(undisturbed, with_stores))


@pytest.mark.parametrize("name", REFUSED)
def test_state_that_cannot_be_read_is_refused_with_the_way_out(
    name: str, directory: Directory, undisturbed: Callable[[str], Directory]
) -> None:
    """The message names the file and ``oriel rebuild``, and after that the run continues."""
    (each,) = topologies(name)
    before = directory.rows(each), directory.record(each)
    ended = directory.run(each, "--once")
    assert ended.code == 1
    (line,) = ended.errors
    file = str(directory.data / "checkpoints" / each / "state" / each) + "/"
    assert line.startswith(f"oriel run: state file {file}")
    assert line.endswith(
        f"has format {name[len('state')]}, but this version reads format 3. Compute the store "
        f"again from its topics with `oriel rebuild {each}`, or run the version that wrote it"
    )
    assert (directory.rows(each), directory.record(each)) == before
    ended = directory.run(each, command=("rebuild", each))
    assert ended.code == 0, ended.errors
    ended = directory.run(each, "--once")
    assert ended.code == 0, ended.errors
    assert_same(directory, undisturbed(each))


@pytest.mark.parametrize("name", NAMES)
def test_the_service_serves_every_table(directory: Directory) -> None:
    """The service builds indexes of its own format, and every row is readable over HTTP."""
    layout = DataLayout(directory.data)
    for store in directory.stores:
        tailer = StoreTailer(DeltaLog(layout.table(store)), IndexDirectory(layout.index(store)))
        wait_until(tailer.step, f"the index of {store} to be up to date", lambda more: not more)
        tailer.close()
    service = Service(directory.data)
    try:
        for store in directory.stores:
            response = ApiClient(service).get(f"/v1/stores/{store}/all?limit=1000").json
            rows = response.get("windows", response.get("rows"))
            key = "window_start_ms" if "windows" in response else "key"
            assert sorted(rows, key=lambda row: (row["key"], row[key])) == directory.rows(store)
    finally:
        service.catalog.close()


@pytest.mark.kafka
@pytest.mark.parametrize("name", [name for name in CONTINUED if SINK in topologies(name)])
def test_a_sink_continues_after_the_records_that_it_has_written(
    directory: Directory, broker: Broker
) -> None:
    """The topic receives the records of the second half of the log only."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    if TOPIC not in admin.list_topics().topics:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_SECONDS)
    before = len(list(messages_of(broker.address, TOPIC, 1)))
    ended = directory.run(SINK, "--once", "--publish-to", broker.address)
    assert ended.code == 0, ended.errors
    messages = list(messages_of(broker.address, TOPIC, 1))[before:]
    found = [((m.key() or b"").decode(), orjson.loads(m.value() or b"null")) for m in messages]
    lines = [path.read_bytes().splitlines() for path in sorted(LOG.glob("orders/*"))]
    second_half = [line for log in lines for line in log[len(log) // 2 :] if line != b"rubbish"]
    orders = [record for record in map(orjson.loads, second_half) if record["value"]]
    wanted = [
        (order["key"] or "", {name: order["value"][name] for name in ("item", "pieces")})
        for order in orders
        if order["value"]["amount"] > 0
    ]
    assert sorted(found, key=str) == sorted(wanted, key=str) != []
