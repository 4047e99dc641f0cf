"""Fixtures of the service's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.api_client import Served, served


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Served]:
    """A served store named ``store`` with nothing in it but version 0, indexed."""
    with served(tmp_path) as made:
        made.index()
        yield made


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same, shared by all tests that change neither the store nor its status."""
    with served(tmp_path_factory.mktemp("empty")) as made:
        made.index()
        yield made
