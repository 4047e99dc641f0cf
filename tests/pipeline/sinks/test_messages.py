"""Messages of records and rows, and the identity of their batch."""

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.language import Publication
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.sinks import Marker, Messages, batch_identity, row_messages
from oriel.pipeline.sinks.messages import message_times
from oriel.storage import CommitRecord
from oriel.storage.delta import arrow_type, store_schema
from tests.storage.store_tables import make_definition


def _batch(*names: str, batch: int = 3) -> PreparedBatch:
    record = CommitRecord(batch, {"t": {"0": batch + 1}}, {}, -1)
    return PreparedBatch(record, dict(enumerate([[name] for name in names])), {}, [], [], 1, 0)


def test_times_are_those_of_the_records() -> None:
    """The exceptions are 0, which the client reads as no time, and times in the far future."""
    now_ms = time.time_ns() // 1_000_000
    far = now_ms + 3_600_000
    found = message_times(np.array([0, 1, 1_357_034_400_000, now_ms + 60_000, far]))
    assert found[:4] == [1, 1, 1_357_034_400_000, now_ms + 60_000]
    assert now_ms <= found[4] < far


def test_messages_after_a_count_keep_their_columns_together() -> None:
    """`after` leaves out the same number of values in each column."""
    first = [b"a", b"b", b"c"]
    found = Messages(first, [None, b"1", b"2"], [1, 2, 3], ("x", "y"), (first, first)).after(2)
    assert found == Messages([b"c"], [b"2"], [3], ("x", "y"), ([b"c"], [b"c"]))


def test_rows_have_one_order_of_messages() -> None:
    """A compacted table has the rows of a batch in another order, and a marker counts messages."""
    rows = pa.Table.from_pylist(
        [
            {
                "key": key, "window_start": start, "window_end": start + 10_000, "n": start,
                "mean": None, "last": None, "all": None, "timestamp": 1_000 * start + 5_000,
                "final": True, "deleted": start == 0, "revision": 3,
            }
            for key in "ab" for start in range(0, 30_000, 10_000)
        ],
        store_schema({a.name: arrow_type(a.type) for a in make_definition().aggregates}),
    )  # fmt: skip
    publication = Publication("out")
    (sent,) = row_messages(rows, publication, make_definition())
    shuffled = rows.take([4, 2, 5, 0, 3, 1])
    assert [*row_messages(shuffled, publication, make_definition())] == [sent]
    assert sent.times_ms == [5, 10_005, 20_005] * 2
    assert [value is None for value in sent.values] == [True, False, False] * 2
    assert sent.headers == ([b"store"] * 6, [b"3"] * 6)


def test_a_batch_has_one_identity() -> None:
    """Its files are the identity, in any order and with any digests."""
    one = "000000000003-0000-1b4e28ba-2fa1-11d2-883f-0016d3cca427-xxh3_0123456789abcdef.arrow"
    other = one.replace("1b4e", "2b4e")
    identity = batch_identity(_batch(one, other))
    assert batch_identity(_batch(other, one)) == identity
    # `oriel rescale` writes the file again.
    assert batch_identity(_batch(one.replace("0123", "3210"), other)) == identity
    assert batch_identity(_batch(one)) != identity
    loaded = PreparedBatch.from_json(_batch(one, other).to_json())
    assert batch_identity(replace(loaded, changed=7)) == identity


@pytest.mark.parametrize("metadata", [None, "", "{}", "5", '{"batch": "a"}', "someone else's"])
def test_an_unknown_marker_is_none(metadata: str | None) -> None:
    """Another program can commit an offset for the group."""
    assert Marker.of(3, metadata) is None


def test_a_marker_counts_only_for_its_batch() -> None:
    """The messages of another batch with this number, or of another number, are not sent."""
    marker = Marker(3, "a", 10)
    assert Marker.of(3, marker.to_metadata()) == marker
    assert [marker.committed_count(*batch) for batch in ((3, "a"), (3, "b"), (4, "a"))] == [
        10,
        0,
        0,
    ]
