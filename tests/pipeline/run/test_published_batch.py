"""The note of the last batch whose rows are all in Kafka."""

from pathlib import Path

import pytest

from oriel.pipeline.run.publishing import Publisher


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_note_never_names_a_later_batch(tmp_path: Path, bit: int) -> None:
    """After damage, the rows of the last batch are written again, and no rows are left out."""
    publisher = Publisher({}, tmp_path, sync=False)
    publisher.mark_published(12)
    assert publisher.published_batch() == 12
    path = tmp_path / "published.json"
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        assert publisher.published_batch() in {-1, 12}, at
    path.write_bytes(b'{"batch":11}')
    assert publisher.published_batch() == 11, "of an earlier version"
