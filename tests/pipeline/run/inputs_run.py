"""One run over all topics of the topology with every kind of input."""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from tests.models.run_inputs import Model
from tests.pipeline.run.inputs_topology import every_input, random_topics
from tests.pipeline.run.topic_logs import Record, Stores, write_topics

SEED = 4


@dataclass(frozen=True)
class Done:
    """A run over all topics at once, and the model of its results."""

    stores: Stores
    topics: dict[str, dict[int, list[Record | bytes]]]
    model: Model


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Return one run, in one batch and with two Spark tasks."""
    directory = tmp_path_factory.mktemp("whole")
    topics = random_topics(SEED)
    write_topics(directory / "log", topics)
    stores = Stores(spark, directory)
    stores.run(every_input(), small_batch_bytes=0)
    assert stores.batches == 1
    return Done(stores, topics, Model(topics))
