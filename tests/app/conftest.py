"""Fixtures of the service's tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.api_client import Served, served
from tests.app.backups import Backups
from tests.app.dashboard_driver import Dashboard
from tests.app.serving import Serving

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Served]:
    """Return a served and indexed store named ``store`` without rows, at version 0."""
    with served(tmp_path) as made:
        made.index()
        yield made


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the same, shared by all tests that change neither the store nor its status."""
    with served(tmp_path_factory.mktemp("empty")) as made:
        made.index()
        yield made


_WINDOWS = [{"key": "a", "start": start, "n": start} for start in (10, 20, 30, 40, 50)]


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return key "a" with windows from 10, 20, 30, 40 and 50, at version 1, for reads only."""
    with served(tmp_path_factory.mktemp("filled")) as made:
        made.commit(*_WINDOWS)
        yield made


@pytest.fixture
def changing(store: Served) -> Served:
    """Return the same store for one test, which can change or damage it."""
    store.commit(*_WINDOWS)
    return store


@pytest.fixture
def backups(changing: Served, tmp_path: Path) -> Backups:
    """Return a store with a backup of version 1, and two later versions."""
    made = Backups(changing, tmp_path / "backups")
    made.take()
    changing.commit({"key": "a", "start": 60}, {"key": "lost", "start": 60})
    changing.commit({"key": "a", "start": 70}, {"key": "lost", "start": 70})
    return made


@pytest.fixture
def page(browser: "Chrome", serving: Serving) -> Iterator[Dashboard]:
    """Return the dashboard of ``serving``, and check that the console has no errors at the end."""
    dashboard = Dashboard(browser, serving)
    dashboard.clear_storage()
    yield dashboard
    assert dashboard.console() == []
