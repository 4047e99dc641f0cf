"""``oriel verify --kafka`` finds committed offsets that do not name the same records any more."""

from pathlib import Path

import orjson
import pytest

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Ended, Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_until
from tests.system.kafka.test_kafka_failures import Cluster

_TOPOLOGY = """
from oriel import StreamsBuilder, count

builder = StreamsBuilder()
for topic in {topics}:
    builder.stream(topic, "v INT").group_by_key().count().materialize(topic)
topology = builder.build()
"""


@pytest.mark.e2e
@pytest.mark.kafka
def test_committed_offsets_are_compared_with_the_topics(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """Deleted records, a re-created topic and a missing topic are findings."""
    cluster = Cluster(broker)
    lost, made, whole = topics = ("verified-lost", "verified-made", "verified-whole")
    for topic in topics:
        cluster.create(topic)
        cluster.send(topic, 3)
    (tmp_path / "app.py").write_text(_TOPOLOGY.format(topics=topics))
    data = str(tmp_path / "data")
    run = [str(tmp_path / "app.py"), "--data", data, "--kafka", broker.address, "--once"]
    assert kafka_runs.run(*run).code == 0

    def verify(address: str = broker.address) -> Ended:
        return kafka_runs.oriel("verify", "--data", data, "--kafka", address, "--json")

    ended = verify()
    assert (ended.code, ended.output.count("\n")) == (0, 1), ended
    cluster.send(lost, 4)
    cluster.delete_before(lost, 5)
    cluster.admin.delete_topics([made])[made].result(timeout=WAIT_SECONDS)
    wait_until(
        lambda: set(cluster.admin.list_topics(timeout=WAIT_SECONDS).topics),
        "the deletion of the topic",
        lambda found: made not in found,
    )
    assert _problems(verify()) == {
        f"partition 0 of topic {lost!r} begins at 5 in Kafka, but store {lost!r} has read up to 3",
        f"topic {made!r} does not exist in Kafka, but store {made!r} has read it",
    }
    cluster.create(made)
    cluster.send(made, 9)
    problems = _problems(verify())
    assert {problem for problem in problems if made in problem} == {
        f"topic {made!r} was deleted and created again in Kafka, but store {made!r} has read it",
    }
    assert not [problem for problem in problems if whole in problem]
    ended = verify(f"127.0.0.1:{reserved_port()}")
    assert ended.code == 2
    assert "no broker responds" in "\n".join(ended.errors)


def _problems(ended: Ended) -> set[str]:
    assert ended.code == 1, ended
    lines = [orjson.loads(line) for line in ended.output.splitlines()]
    return {line["problem"] for line in lines if line.get("finding") == "damage"}
