"""Sending flights to Kafka: the remaining flights, and an unavailable cluster."""

import numpy as np
import pyarrow as pa
import pytest

from oriel.demo import to_kafka
from oriel.demo.errors import DemoError
from tests.ports import reserved_port


def test_what_each_partition_has_is_not_sent_again() -> None:
    """A new start continues in each partition separately, in the order of the flights."""
    partition = np.array([0, 1, 0, 2, 1, 0])
    lines = pa.array(["a", "b", "c", "d", "e", "f"])
    left = list(to_kafka._still_to_send(partition, lines, [2, 0, 1]))
    assert left == [(1, "b"), (1, "e"), (0, "f")]


def test_an_unavailable_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one line after a bounded wait."""
    monkeypatch.setattr(to_kafka, "_RESPONSE_SECONDS", 1)
    monkeypatch.setattr(to_kafka, "_START_SECONDS", 1)
    address = f"127.0.0.1:{reserved_port()}"
    with pytest.raises(
        DemoError, match=f"cannot send flights to topic flights of Kafka at {address}"
    ):
        to_kafka.send_flights(address, "flights", np.array([0]), pa.array(["{}"]), 1)
