"""Prometheus' API of the service against Prometheus itself, and with Prometheus' own client.

A Prometheus with the same samples evaluates the same queries. Its lookback is one window, less 1 ms
because Prometheus includes the end of a lookback.
"""

import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from oriel.app.contract import PROMETHEUS_PATH as PATH
from oriel.storage import StoreKind, WindowSpec
from tests.app.api_client import Served, served
from tests.app.prometheus_model import ModelStore, random_expression
from tests.app.serving import Serving, ready_service
from tests.campaigns import cases
from tests.ports import reserved_port
from tests.storage.store_tables import make_definition
from tests.storage.waiting import wait_until

_MINUTE_MS = 60_000
_START_MS = 1_357_034_400_000
_MINUTES = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)
_KEYS = ("a", "ab", "b", "é|x", 'q"\\', "a.b")
_PROMETHEUS, _PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
_WITHOUT = "prometheus not found (Debian: it is in the package prometheus)"


class Pair(NamedTuple):
    """A store, the same windows as a plain list, and the address of a Prometheus with them."""

    store: Served
    model: ModelStore
    address: str


def _windows() -> list[dict[str, Any]]:
    choice = random.Random(38)
    windows = []
    for place, key in enumerate(_KEYS):
        for minute in range(30):
            start_ms = _START_MS + minute * _MINUTE_MS
            if choice.random() < 0.7:
                windows.append({
                    "key": key, "start": start_ms, "end": start_ms + _MINUTE_MS,
                    "timestamp": start_ms, "n": 10 * minute + place,
                    "mean": choice.choice((None, minute / 3, -2.5 * minute)),
                })  # fmt: skip
    return windows


def _open_metrics(windows: list[dict[str, Any]]) -> str:
    lines = []
    for name in ("n", "mean"):
        lines.append(f"# TYPE events_{name} gauge")
        for window in windows:
            key = window["key"].replace("\\", "\\\\").replace('"', '\\"')
            if window[name] is not None:
                labels = f'key="{key}",store="events"'
                lines.append(f"events_{name}{{{labels}}} {window[name]} {window['end'] / 1000}")
    return "\n".join([*lines, "# EOF"]) + "\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Start Prometheus with the samples of a store."""
    if _PROMETHEUS is None or _PROMTOOL is None:
        pytest.skip(_WITHOUT)
    directory = tmp_path_factory.mktemp("reference")
    windows = _windows()
    (directory / "samples.txt").write_text(_open_metrics(windows))
    (directory / "prometheus.yml").write_text("{}\n")
    blocks = [_PROMTOOL, "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*blocks, directory / "samples.txt", directory / "blocks"], check=True, timeout=60,
        capture_output=True,
    )  # fmt: skip
    address = f"127.0.0.1:{reserved_port()}"
    command = [
        _PROMETHEUS, f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'blocks'}", "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}", f"--query.lookback-delta={_MINUTE_MS - 1}ms",
        "--log.level=error",
    ]  # fmt: skip
    definition = make_definition("events", window=_MINUTES)
    store = Served(directory / "data", definition)
    store.commit(*windows)
    with subprocess.Popen(command) as process:
        wait_until(
            lambda: httpx.get(f"http://{address}/-/ready"), "a ready Prometheus",
            lambda response: response.is_success, passing=(httpx.HTTPError,),
        )  # fmt: skip
        yield Pair(store, ModelStore(definition, windows, lambda key: [key]), f"http://{address}")
        process.terminate()
    store.service.catalog.close()


def _agree(pair: Pair, operation: str, parameters: str) -> Any:
    """Compare the responses to a query, and return the data."""
    reference = httpx.get(f"{pair.address}/api/v1/{operation}?{parameters}")
    response = pair.store.get(f"{PATH}/{operation}?{parameters}")
    expected = reference.json()
    assert response.json["status"] == expected["status"], (response.body, expected)
    if expected["status"] == "error":
        assert response.json["errorType"] == expected["errorType"], (response.body, expected)
        return []
    found, data = response.json["data"], expected["data"]
    assert found["resultType"] == data["resultType"]
    is_ordered = data["resultType"] in {"scalar", "string", "matrix"}
    assert _numbers(found["result"], is_ordered) == _numbers(data["result"], is_ordered)
    return data["result"]


def _numbers(result: Any, is_ordered: bool) -> Any:
    if is_ordered and not isinstance(result[:1] and result[0], dict):
        return result
    series = [
        (each["metric"], [
            (time, pytest.approx(float(number), nan_ok=True))
            for time, number in each.get("values") or [each["value"]]
        ])
        for each in result
    ]  # fmt: skip
    return series if is_ordered else sorted(series, key=lambda one: sorted(one[0].items()))


@pytest.mark.slow
@cases(150, 20_000)
def test_random_queries_have_the_result_of_prometheus(pair: Pair, number: int) -> None:
    """Range and instant queries have the values and labels of Prometheus."""
    choice = random.Random(number)
    compared = 0
    for _ in range(number):
        text, _ = random_expression(choice, pair.model, 3)
        start_s = _START_MS / 1000 + choice.randrange(-60, 1900)
        step_s = choice.choice((1, 7.5, 15, 60, 61, 300))
        bounds = f"start={start_s}&end={start_s + 20 * step_s}&step={step_s}"
        compared += len(_agree(pair, "query_range", f"query={quote(text)}&{bounds}"))
        _agree(pair, "query", f"query={quote(text)}&time={start_s}")
    assert compared > number / 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "1+1", "2^10 % 7", "-5 % 3", "1/0", "0/0", "time()", '"text"', "vector(2)", "-events_n",
        "events_n / events_mean", "events_n / on(key) events_mean", "events_n > events_mean",
        "events_n / ignoring(store) events_mean", "events_n > bool 50", "50 < events_n",
        "sqrt(events_mean)", "ln(events_mean)", "round(events_mean, 0.5)", "clamp(events_n, 5, 50)",
        "clamp_max(events_n, 9)", "clamp(events_n, 9, 1)", "scalar(events_n)", "sgn(events_mean)",
        "scalar(sum(events_n))", "events_n / scalar(sum(events_n))", "topk(2, events_n)",
        "bottomk by (key) (1, events_n)", "sort(events_n)", "sum(events_mean) by (store)",
        "group without (key) ({store='events'})", "count({__name__=~'events_.*'})",
        "sum(nope)", "topk(0, events_n)", "max(events_mean / 0)", "min(events_mean / 0)",
        "sum by (key) (events_n) / sum by (key) (events_mean)", "events_n == events_n",
        "{__name__=~'events_.*'} + 1", "sum(", "nope(events_n)", "events_n + on(store) events_n",
        'events_n{key=~"("}', "{}", "events_n{key=~'a.b'}", "events_n{key=~''}",
        "events_n{nope=''}", "{key!='a'}",
        "{key=~'.*',store!~'x'}", "events_n{nope!=''}", "events_n offset 5m", "events_n offset -5m",
        "1 == 1", "1 == bool 1", "sum(1)", "events_n % 4", "2 ^ events_mean", "abs(-events_n)",
        "ceil(events_mean)", "floor(events_mean)", "exp(events_mean)", "log2(events_n)",
        "log10(events_n)", "avg by (nope) (events_n)", "sum without () (events_n)", "Inf - Inf",
    ],
)  # fmt: skip
def test_a_query_has_the_result_of_prometheus(pair: Pair, query: str) -> None:
    """Each operator and function, and errors, are as in Prometheus."""
    start_s = _START_MS // 1000
    _agree(pair, "query", f"query={quote(query)}&time={start_s + 600}")
    if query != '"text"':
        bounds = f"start={start_s}&end={start_s + 1800}&step=30"
        _agree(pair, "query_range", f"query={quote(query)}&{bounds}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        "labels", "label/__name__/values", "label/key/values", "label/store/values",
        "label/nope/values", "series?match[]=events_n", "series?match[]={key!=%22%22}",
        "label/key/values?match[]=events_mean", "labels?match[]=events_n",
    ],
)  # fmt: skip
def test_a_list_is_that_of_prometheus(pair: Pair, target: str) -> None:
    """Labels, values and series are those of Prometheus."""
    reference = httpx.get(f"{pair.address}/api/v1/{target}").json()["data"]
    found = pair.store.get(f"{PATH}/{target}").json["data"]
    assert sorted(found, key=str) == sorted(reference, key=str)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start a service of a store with the windows."""
    data = tmp_path_factory.mktemp("service") / "data"
    with served(data) as store:
        store.add(make_definition("events", window=_MINUTES), *_windows())
    with ready_service(data) as serving:
        yield serving


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("instant", "--time={end}", "{url}", 'events_n{{key="a"}}'), 'events_n{key="a", store='),
        (("range", "--start={start}", "--end={end}", "--step=60s", "{url}", "sum(events_n)"), "@["),
        (("labels", "{url}", "key"), "ab"),
        (("series", "--match=events_n", "{url}"), 'store="events"'),
        (("instant", "{url}", "rate(events_n[5m])"), "already an aggregate"),
    ],
)  # fmt: skip
def test_the_client_of_prometheus_reads_windows(
    service: Serving, command: tuple[str, ...], shown: str
) -> None:
    """``promtool query`` reads a running service and shows its errors."""
    if _PROMTOOL is None:
        pytest.skip(_WITHOUT)
    start_s = _START_MS // 1000
    values = {
        "url": f"http://127.0.0.1:{service.port}/prometheus", "start": start_s,
        "end": start_s + 1740,
    }  # fmt: skip
    ended = subprocess.run(
        [_PROMTOOL, "query", *(part.format(**values) for part in command)], capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert shown in ended.stdout + ended.stderr
