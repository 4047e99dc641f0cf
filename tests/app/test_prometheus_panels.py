"""The bytes of a panel of Grafana that refreshes every second, with and without full reads."""

import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
import yaml

from oriel.app.contract import PROMETHEUS_PATH as PATH
from oriel.storage import StoreKind, WindowSpec
from tests.app.api_client import ApiResponse, Served, served
from tests.app.test_compression import decoded

_SOURCE = Path("monitoring/grafana/provisioning/datasources/oriel.yml")
#: Windows of 10 s stay open for 10 s after their end.
_WINDOWS = WindowSpec(StoreKind.TUMBLING, 10_000, 10_000)
_KEYS = [f"airport {i}" for i in range(10)]
_BEGIN = 1_700_000_000
_PANEL_SECONDS = 15 * 60
_REFRESHES = 60

#: The labels of a series.
Labels = tuple[tuple[str, str], ...]


class _Panel:
    """A panel for the last 15 minutes, which merges responses as Grafana does."""

    def __init__(self, coding: str, overlap_seconds: int | None) -> None:
        """Read the whole range at each refresh, or only what follows the overlap."""
        self._headers = [("Accept-Encoding", coding)]
        self._overlap = overlap_seconds
        self._last: int | None = None
        self.series: dict[Labels, dict[float, str]] = {}
        self.bytes = 0

    def refresh(self, store: Served, now: int) -> None:
        """Read the range that ends now."""
        begin = start = now - _PANEL_SECONDS
        if self._overlap is not None and self._last is not None:
            start = max(begin, self._last - self._overlap)
        times = {"start": start, "end": now, "step": 1}
        query = urlencode({"query": "store_n", **times})
        response: ApiResponse = store.get(f"{PATH}/query_range?{query}", self._headers)
        assert response.status == 200, response.body
        self.bytes += len(response.body)
        found = _series_of(decoded(response))
        for name in self.series.keys() | found.keys():
            kept = self.series.get(name, {})
            old = {time: value for time, value in kept.items() if begin <= time < start}
            self.series[name] = old | found.get(name, {})
        self._last = now


def _series_of(body: bytes) -> dict[Labels, dict[float, str]]:
    """Return the values of a response of ``query_range``."""
    return {
        tuple(sorted(each["metric"].items())): dict(each["values"])
        for each in orjson.loads(body)["data"]["result"]
    }


def _provisioned() -> tuple[bool, int]:
    """Return whether the provisioned data source reads only new times, and its overlap in s."""
    (source,) = yaml.safe_load(_SOURCE.read_text())["datasources"]
    settings: dict[str, Any] = source["jsonData"]
    seconds = re.fullmatch(r"(\d+)s", settings["incrementalQueryOverlapWindow"])
    assert seconds is not None
    return settings["incrementalQuerying"], int(seconds[1])


@pytest.mark.slow
def test_a_panel_reads_a_twentieth_of_the_bytes(tmp_path: Path) -> None:
    """The provisioned data source reads few bytes, and shows the values of full reads."""
    is_incremental, overlap = _provisioned()
    assert is_incremental
    choice = random.Random(4)
    panels = {
        coding: (_Panel(coding, None), _Panel(coding, overlap)) for coding in ("identity", "gzip")
    }
    with served(tmp_path, window=_WINDOWS) as store:
        store.commit(
            *(
                {"key": key, "start": (_BEGIN + at) * 1000, "n": choice.randrange(1000)}
                for key in _KEYS
                for at in range(-_PANEL_SECONDS - 10, 0, 10)
            )
        )
        for now in range(_BEGIN, _BEGIN + _REFRESHES):
            # Each record changes a window that ends now or closed at most 10 s ago.
            starts = {key: (now - choice.randrange(20)) // 10 * 10 for key in _KEYS}
            store.commit(
                *(
                    {"key": key, "start": start * 1000, "n": choice.randrange(1000)}
                    for key, start in starts.items()
                )
            )
            for full, incremental in panels.values():
                full.refresh(store, now)
                incremental.refresh(store, now)
                assert incremental.series == full.series
                assert len(full.series) == len(_KEYS)
    for coding, (full, incremental) in panels.items():
        assert 20 * incremental.bytes <= full.bytes, (coding, incremental.bytes, full.bytes)
