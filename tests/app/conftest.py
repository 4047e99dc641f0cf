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


_WINDOWS = [{"key": "a", "start": start, "n": start} for start in (10, 20, 30, 40, 50)]


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Key "a" with windows starting at 10, 20, 30, 40, 50, at table version 1; never changed."""
    with served(tmp_path_factory.mktemp("filled")) as made:
        made.commit(*_WINDOWS)
        yield made


@pytest.fixture
def changing(store: Served) -> Served:
    """The same store for one test, which may change or break it."""
    store.commit(*_WINDOWS)
    return store


@pytest.fixture
def backups(changing: Served, tmp_path: Path) -> Backups:
    """A store at version 1 with a backup of it, and two versions more."""
    made = Backups(changing, tmp_path / "backups")
    made.take()
    changing.commit({"key": "a", "start": 60}, {"key": "lost", "start": 60})
    changing.commit({"key": "a", "start": 70}, {"key": "lost", "start": 70})
    return made


@pytest.fixture
def page(browser: "Chrome", serving: Serving) -> Iterator[Dashboard]:
    """The page of a file's own ``serving``; no test may make it say an error in the console."""
    dashboard = Dashboard(browser, serving)
    yield dashboard
    assert dashboard.console() == []
