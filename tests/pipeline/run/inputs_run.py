"""One run over all topics of the topology of many inputs."""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from tests.models.run_inputs import Model
from tests.pipeline.run.inputs_topology import every_input, random_topics
from tests.pipeline.run.topic_logs import Record, Stores, write_topics

SEED = 4


@dataclass(frozen=True)
class Done:
    """A run over all topics at once, and what must have come of it."""

    stores: Stores
    topics: dict[str, dict[int, list[Record | bytes]]]
    model: Model


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One run, one batch, two tasks of Spark's."""
    folder = tmp_path_factory.mktemp("whole")
    topics = random_topics(SEED)
    write_topics(folder / "log", topics)
    stores = Stores(spark, folder)
    stores.run(every_input(), small_batch_bytes=0)
    assert stores.batches == 1
    return Done(stores, topics, Model(topics))
