"""A topology that changes several stores: one error names them, and one rebuild computes them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology, count
from oriel.storage import IncompatibleStore
from tests.pipeline.run.rebuilt_stores import RECORDS, Bench

pytestmark = pytest.mark.slow


def _topology(schema: str = "v INT", size_ms: int = 10) -> Topology:
    """Return two stores of topic ``t``, and one of topic ``u``."""
    builder = StreamsBuilder()
    stream = builder.stream("t", schema)
    for name, size in (("first", 10), ("second", size_ms)):
        windows = TimeWindows.of_size_and_grace(size, 5)
        stream.group_by_key().windowed_by(windows).aggregate(n=count()).materialize(name)
    other = builder.stream("u", "v INT").group_by_key()
    windows = TimeWindows.of_size_and_grace(10, 5)
    other.windowed_by(windows).aggregate(n=count()).materialize("third")
    return builder.build()


def test_all_changed_stores_are_named_and_rebuilt_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schema change names every store of the topic, and a rebuild of some names the others."""
    bench = Bench(spark, tmp_path)
    bench.append("t", 0, *RECORDS)
    bench.append("u", 0, *RECORDS)
    bench.run(_topology())
    changed = _topology("v BIGINT", 20)
    with pytest.raises(IncompatibleStore) as refused:
        bench.run(changed)
    first, second, schema, action = str(refused.value).splitlines()
    assert first == ("store 'first': its source was t (v INT), but the topology says t (v BIGINT)")
    assert second.startswith(
        "store 'second': its source was t (v INT), but the topology says t (v BIGINT), and its "
        "window was "
    )
    assert schema == (
        "topic 't': its schema or decoding changes, so every store of the topic must be "
        "rebuilt: first, second."
    )
    assert "`oriel rebuild first second TOPOLOGY.py`" in action
    third = bench.newest("third")
    bench.run(changed, "second")
    assert "the topology also changes first. Rebuild" in capsys.readouterr().err
    bench.run(changed, "second", "first")
    errors = capsys.readouterr().err
    assert "store rebuilt: store=first " in errors
    assert "store rebuilt: store=second " in errors
    assert "also changes" not in errors
    bench.append("t", 0, ("a", 14, 60), ("b", 15, 61))
    bench.assert_as_fresh(changed, "first", "second", "third")
    assert bench.newest("third") == third
