"""Fixtures of the storage tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.followed import Followed


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    """Return a table at version 0 with a tailer that follows it."""
    table_and_tailer = Followed(tmp_path)
    yield table_and_tailer
    table_and_tailer.tailer.close()
