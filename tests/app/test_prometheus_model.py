"""Random queries of Prometheus' API against a plain list of windows."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from oriel.app.contract import PROMETHEUS_PATH
from oriel.storage import StoreKind, WindowSpec
from tests.app.api_client import Served, served
from tests.app.prometheus_model import ModelStore, Sample, random_expression
from tests.campaigns import seeds
from tests.storage.store_tables import HOPPING, SESSION, SLIDING, TUMBLING, make_definition

_TEXT_KEYS = ("", "a", "ab", "b", "é|x", "c/d", 'q"\\', "a.b")
_QUERIES = 60


def _composite(key: str) -> list[str]:
    return [str(part) for part in json.loads(key)]


_KEYS: dict[str, tuple[tuple[str, ...], Callable[[str], list[str]]]] = {
    "text": (_TEXT_KEYS, lambda key: [key]),
    "long": (("-7", "0", "3", "42"), lambda key: [key]),
    "[text, long]": (('["a",1]', '["a",2]', '["b",1]', '["",-5]', '["é|",1]'), _composite),
}


def _windows(choice: random.Random, spec: WindowSpec, keys: tuple[str, ...]) -> list[Any]:
    windows = {}
    for number in range(1, 151):
        key, at = choice.choice(keys), choice.randrange(120)
        start, end = at, at + spec.size_ms
        if spec.kind is StoreKind.SESSION:
            end = start + choice.randrange(40)
        elif spec.kind is not StoreKind.SLIDING:
            start = at - at % (spec.advance_ms or spec.size_ms)
            end = start + spec.size_ms
        windows[key, start, end] = {
            "key": key, "start": start, "end": end, "timestamp": choice.randint(start, end),
            "n": choice.choice((None, number, -number, 3 * number)),
            "mean": choice.choice((None, number + 0.25, -1e10 * number)),
        }  # fmt: skip
    return list(windows.values())


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Callable[[random.Random], tuple[Served, ModelStore]]]:
    """Return a function that creates a store with random windows of a random kind."""
    opened: list[Any] = []

    def made(choice: random.Random) -> tuple[Served, ModelStore]:
        key_type = choice.choice([*_KEYS])
        keys, components = _KEYS[key_type]
        spec = choice.choice((HOPPING, SESSION, SLIDING, TUMBLING))
        context = served(tmp_path)
        store = context.__enter__()
        opened.append(context)
        definition = make_definition("events", window=spec, key_type=key_type)
        windows = _windows(choice, spec, keys)
        store.add(definition, *windows)
        return store, ModelStore(definition, windows, components)

    yield made
    for context in opened:
        context.__exit__(None, None, None)


def samples_of(body: Any, times: list[int]) -> dict[int, dict[Any, float]]:
    """Return the value of each series at each time of a response."""
    samples: dict[int, dict[Any, float]] = {time_ms: {} for time_ms in times}
    for series in body["data"]["result"]:
        labels = frozenset(series["metric"].items())
        for seconds, number in series.get("values") or [series["value"]]:
            samples[round(seconds * 1000)][labels] = float(number)
    return samples


def agree(found: Sample, expected: Sample) -> bool:
    """Return whether two samples have the same series with equal values."""
    return found.keys() == expected.keys() and all(
        found[labels] == pytest.approx(expected[labels], rel=1e-12, abs=1e-3, nan_ok=True)
        for labels in expected
    )


@seeds(6, 200)
def test_random_queries_agree_with_a_plain_list(
    models: Callable[[random.Random], tuple[Served, ModelStore]], seed: int
) -> None:
    """Range and instant queries have the values of the model at each time."""
    choice = random.Random(seed)
    store, model = models(choice)
    compared = 0
    for _ in range(_QUERIES):
        text, function = random_expression(choice, model)
        start_ms, step_ms = choice.randrange(-10, 160), choice.choice((1, 3, 10, 25, 1000))
        times = list(range(start_ms, start_ms + 8 * step_ms, step_ms))
        query = f"query={quote(text)}"
        bounds = f"start={times[0] / 1000}&end={times[-1] / 1000}&step={step_ms}ms"
        response = store.get(f"{PROMETHEUS_PATH}/query_range?{query}&{bounds}")
        assert response.status == 200, (text, response.body)
        samples = samples_of(response.json, times)
        instant = store.get(f"{PROMETHEUS_PATH}/query?{query}&time={times[-1] / 1000}")
        at_once = samples_of(instant.json, [times[-1]])[times[-1]]
        for time_ms in times:
            assert agree(samples[time_ms], function(time_ms)), (text, time_ms, model.definition)
            compared += len(samples[time_ms])
        assert agree(at_once, function(times[-1])), text
    assert compared > 50
