"""Tests of Prometheus' API: what each operation returns, and what it rejects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from oriel.app.contract import PROMETHEUS_PATH as PATH
from oriel.app.contract import QUERY_OPERATORS_MAX
from oriel.app.prometheus import reading, windows
from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage import StoreKind, WindowSpec
from tests.app.api_client import ApiClient, ApiResponse, Served, served
from tests.app.problem_shape import assert_prometheus_error
from tests.app.test_access import token_in
from tests.storage.store_tables import NONE, make_definition

_MINUTE_MS = 60_000
_MINUTES = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return "store" with the keys a and b, "typed" with composite keys, and rows in "totals".

    Key a has the minutes 0, 1 and 2, and b has the minutes 0 and 2.
    """
    with served(tmp_path_factory.mktemp("minutes"), window=_MINUTES) as made:
        made.add(make_definition("totals", window=NONE), {"key": "a"})
        made.add(
            make_definition("typed.v1", window=_MINUTES, key_type="[text, long]"),
            *({"key": key, "start": 0} for key in ('["x",1]', '["x",2]', '["y",1]')),
        )
        made.commit(
            *({"key": "a", "start": at * _MINUTE_MS, "n": at, "mean": None} for at in range(3)),
            *({"key": "b", "start": at * _MINUTE_MS, "n": 10 + at} for at in (0, 2)),
        )
        yield made


def ask(store: Served, query: str, seconds: float = 60) -> ApiResponse:
    """Send an instant query."""
    response: ApiResponse = store.get(f"{PATH}/query?query={quote(query)}&time={seconds}")
    return response


def values(response: ApiResponse) -> dict[str, str]:
    """Return the value of each key of an instant query."""
    assert response.status == 200, response.body
    assert response.json["data"]["resultType"] == "vector"
    result = response.json["data"]["result"]
    return {series["metric"].get("key", ""): series["value"][1] for series in result}


def names(response: ApiResponse) -> Any:
    """Return the data of a list."""
    assert response.status == 200, response.body
    return response.json["data"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (59.999, {}), (60, {"a": "0", "b": "10"}), (119.999, {"a": "0", "b": "10"}),
        (120, {"a": "1"}), (180, {"a": "2", "b": "12"}), (239.999, {"a": "2", "b": "12"}),
        (240, {}),
    ],
)  # fmt: skip
def test_a_value_is_valid_from_its_window_end_until_the_next(
    minutes: Served, seconds: float, expected: dict[str, str]
) -> None:
    """A series has a value only where a window exists."""
    assert values(ask(minutes, "store_n", seconds)) == expected


def test_a_lookback_keeps_values(minutes: Served) -> None:
    """With a lookback, the last window of the lookback has the value."""
    response = minutes.get(f"{PATH}/query?query=store_n&time=170&lookback_delta=2m")
    assert values(response) == {"a": "1", "b": "10"}


def test_a_range_query_has_a_list_per_series(minutes: Served) -> None:
    """Series are ordered by their labels, and times without a window are left out."""
    response = minutes.get(f"{PATH}/query_range?query=store_n&start=30&end=240&step=30")
    assert response.json["data"] == {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "store_n", "key": "a", "store": "store"},
                "values": [[60, "0"], [90, "0"], [120, "1"], [150, "1"], [180, "2"], [210, "2"]],
            },
            {
                "metric": {"__name__": "store_n", "key": "b", "store": "store"},
                "values": [[60, "10"], [90, "10"], [180, "12"], [210, "12"]],
            },
        ],
    }


def test_a_null_is_no_value(minutes: Served) -> None:
    """An aggregate without a value has no sample."""
    assert values(ask(minutes, "store_mean", 60)) == {"b": "1.5"}


def test_strings_and_lists_are_no_metrics(minutes: Served) -> None:
    """Only numeric aggregates of stores with windows are metrics."""
    expected = ["store_mean", "store_n", "typed_v1_mean", "typed_v1_n"]
    assert names(minutes.get(f"{PATH}/label/__name__/values")) == expected
    metadata = names(minutes.get(f"{PATH}/metadata"))
    assert [*metadata] == expected
    assert metadata["store_n"][0]["type"] == "gauge"
    assert "count() of tumbling windows" in metadata["store_n"][0]["help"]


def test_components_of_a_key_are_labels(minutes: Served) -> None:
    """A composite key has one label per component."""
    found = ask(minutes, 'typed_v1_n{key_1="x",key_2=~"1|2"}').json["data"]["result"]
    metrics = [series["metric"] for series in found]
    common = {"__name__": "typed_v1_n", "store": "typed.v1", "key_1": "x"}
    assert metrics == [{**common, "key_2": "1"}, {**common, "key_2": "2"}]
    assert names(minutes.get(f"{PATH}/label/key_1/values")) == ["x", "y"]
    assert not ask(minutes, 'typed_v1_n{key_2="x"}').json["data"]["result"]


@pytest.mark.parametrize(
    ("query", "kind", "result"),
    [
        ("1+1", "scalar", [60, "2"]), ("1/0", "scalar", [60, "+Inf"]), ("-5 % 3", "scalar", None),
        ("0/0", "scalar", [60, "NaN"]), ("time()", "scalar", [60, "60"]),
        ('"text"', "string", [60, "text"]), ("vector(3)", "vector", None), ("nope", "vector", []),
        ("scalar(sum(store_n))", "scalar", [60, "10"]), ("store_n / nope", "vector", []),
    ],
)  # fmt: skip
def test_results_have_the_types_of_prometheus(
    minutes: Served, query: str, kind: str, result: Any
) -> None:
    """Grafana checks a data source with 1+1."""
    data = ask(minutes, query).json["data"]
    assert data["resultType"] == kind
    if result is not None:
        assert data["result"] == result


def test_topk_orders_an_instant_result(minutes: Served) -> None:
    """The greatest value is first, for Grafana's tables and bars."""
    assert [*values(ask(minutes, "topk(2, store_n)", 180)).items()] == [("b", "12"), ("a", "2")]
    assert [*values(ask(minutes, "bottomk(9, store_n)", 180))] == ["a", "b"]
    assert [*values(ask(minutes, "sort_desc(store_n)", 180))] == ["b", "a"]


def test_operands_match_by_their_labels(minutes: Served) -> None:
    """Two vectors match by all labels, or by ``on`` or ``ignoring``."""
    assert values(ask(minutes, "store_n / store_n", 180)) == {"a": "1", "b": "1"}
    assert values(ask(minutes, "store_n - on(key) store_n", 180)) == {"a": "0", "b": "0"}
    assert values(ask(minutes, "store_n > on(key) (store_n - 1)", 180)) == {"a": "2", "b": "12"}
    assert values(ask(minutes, "store_n / ignoring(x) store_n", 180)) == {"a": "1", "b": "1"}
    assert_prometheus_error(
        ask(minutes, "store_n / on(store) store_n"), 422, "execution", "several series", "on("
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("rate(store_n[5m])", ("rate()", "already an aggregate", "without the range")),
        ("sum_over_time(store_n[1h])", ("sum_over_time()", "already an aggregate")),
        ("store_n[5m]", ("[5m]", "already an aggregate")),
        ("max_over_time(store_n[1h:1m])", ("max_over_time()",)),
        ("store_n @ 5", ("@", "time")), ("quantile(0.5, store_n)", ("quantile", "topk")),
        ("store_n and store_n", ("and", "several queries")),
        ("store_n / on() group_left sum(store_n)", ("group_left", "scalar()")),
        ("label_replace(store_n, 'a', 'b', 'c', 'd')", ("label_replace", "sort_desc")),
        ("sum(", ("unclosed",)), ("", ("query",)), ("nope()", ("nope",)),
        ('store_n{key="a" or key="b"}', ("=~",)), ('store_n{key=~"("}', ("regex",)),
        ('store_n{key=~"(a{900}){900}"}', ("too large",)), ("{}", ("non-empty",)),
        ("store_n{key=~'(\\\\pL{10}){10}'}", ("too large",)),
        ("{" + ",".join(f"a{i}=~'\\\\pL{{9}}'" for i in range(20)) + "}", ("too large",)),
        ("store_n offset 1e300", ("duration", "5m")), ("topk(NaN, store_n)", ("NaN",)),
        ("totals_n", ("no windows", "/v1/stores/totals/all")),
        ("(" * 200 + "1" + ")" * 200, (str(QUERY_OPERATORS_MAX),)),
        ("-" * 50_000 + "1", (str(QUERY_OPERATORS_MAX),)), ("1" * 70_000, ("characters",)),
    ],
)  # fmt: skip
def test_a_rejected_query_says_what_to_do(
    minutes: Served, query: str, words: tuple[str, ...]
) -> None:
    """What has no meaning for windows is rejected with an alternative."""
    response = minutes.post(f"{PATH}/query", urlencode({"query": query, "time": 60}).encode())
    assert_prometheus_error(response, 400, "bad_data", *words)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("query_range?query=1&start=0&end=1&step=0", ("step", "15s")),
        ("query_range?query=1&start=2&end=1&step=1", ("end", "start")),
        ("query_range?query=1&start=0&end=11001&step=1", ("11,000", "greater step")),
        ("query_range?query='a'&start=0&end=1&step=1", ("string",)),
        ("query_range?query=1&start=0&end=1", ("step is missing",)),
        ("query?query=1&time=yesterday", ("time", "2013-01-01T10:00:00Z")),
        ("query?query=1&time=1e99", ("time",)), ("query?query=1&query=2", ("sent once",)),
        ("series", ("match[]",)), ("series?match[]=sum(a)", ("match[]", "selector")),
        ("series?match[]=a&limit=-1", ("limit",)), ("label/a-b/values", ("label", "a-z")),
        ("label/%ff/values", ("UTF-8",)),
    ],
)  # fmt: skip
def test_invalid_parameters_are_rejected(
    minutes: Served, target: str, words: tuple[str, ...]
) -> None:
    """Errors have Prometheus' format, so Grafana shows the message."""
    assert_prometheus_error(minutes.get(f"{PATH}/{target}"), 400, "bad_data", *words)


def test_times_can_have_each_form_of_prometheus(minutes: Served) -> None:
    """Times are seconds or RFC 3339, and durations have units or are seconds."""
    for time in ("60", "60.0", "6e1", "1970-01-01T00:01:00Z", "1970-01-01T01:01:00.000000%2B01:00"):
        assert values(minutes.get(f"{PATH}/query?query=store_n&time={time}"))["a"] == "0"
    for step in ("60", "1m", "60s", "60000ms", "0h1m", "60.000"):
        target = f"{PATH}/query_range?query=store_n&start=60&end=180&step={step}"
        assert len(minutes.get(target).json["data"]["result"][0]["values"]) == 3


def test_a_form_has_the_parameters_of_the_query(minutes: Served) -> None:
    """Grafana sends queries as a form. Unknown parameters are ignored, as in Prometheus."""
    form = urlencode({"query": "store_n", "time": "60", "timeout": "30s"}).encode()
    assert minutes.post(f"{PATH}/query?dedup=true", form).body == ask(minutes, "store_n").body
    listed = minutes.post(f"{PATH}/series", urlencode({"match[]": "store_n"}).encode())
    assert listed.body == minutes.get(f"{PATH}/series?match[]=store_n").body
    assert names(minutes.post(f"{PATH}/labels", b"")) == [
        "__name__", "key", "key_1", "key_2", "store",
    ]  # fmt: skip


def test_series_and_labels_are_listed(minutes: Served) -> None:
    """Lists have the selected series, their label names and their values."""
    series = names(minutes.get(f"{PATH}/series?match[]=store_n&match[]=store_n{{key='a'}}"))
    assert series == [{"__name__": "store_n", "key": key, "store": "store"} for key in "ab"]
    assert names(minutes.get(f"{PATH}/labels?match[]=store_n")) == ["__name__", "key", "store"]
    assert names(minutes.get(f"{PATH}/label/key/values?match[]=store_n{{key!='a'}}")) == ["b"]
    assert names(minutes.get(f"{PATH}/label/store/values")) == ["store", "typed.v1"]
    assert names(minutes.get(f"{PATH}/label/nope/values")) == []
    limited = minutes.get(f"{PATH}/label/key/values?limit=1")
    assert names(limited) == ["a"]
    assert limited.json["warnings"] == ["results truncated due to limit"]


def test_a_response_has_the_positions_of_its_stores(minutes: Served) -> None:
    """Each store that was read has its version and history in a header field."""
    position = minutes.get("/v1/stores/store").json["position"]
    expected = f"store={position['version']}-{position['history']}"
    assert ask(minutes, "store_n / store_mean").headers["oriel-positions"] == expected
    assert "oriel-positions" not in ask(minutes, "1").headers


def test_a_query_beyond_a_limit_is_rejected(
    minutes: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits of windows, series and values name what to change."""
    range_target = f"{PATH}/query_range?query=store_n&start=0&end=240&step=1"
    with monkeypatch.context() as patched:
        patched.setattr(windows, "QUERY_VALUES_MAX", 300)
        assert_prometheus_error(minutes.get(range_target), 422, "execution", "greater step")
    with monkeypatch.context() as patched:
        patched.setattr(windows, "QUERY_SERIES_MAX", 1)
        assert_prometheus_error(ask(minutes, "store_n"), 422, "execution", "fewer keys")
        assert values(ask(minutes, 'store_n{key="a"}')) == {"a": "0"}
    with monkeypatch.context() as patched:
        patched.setattr(reading, "QUERY_WINDOWS_MAX", 1)
        assert_prometheus_error(ask(minutes, "store_n"), 422, "execution", "shorter")
    with monkeypatch.context() as patched:
        patched.setattr(reading, "_SECONDS_MAX", -1.0)
        assert_prometheus_error(ask(minutes, "store_n"), 503, "timeout", "-1 s")


def test_a_method_that_does_not_fit_names_those_that_do(minutes: Served) -> None:
    """Lists of values are only GET, as in Prometheus."""
    assert minutes.get(f"{PATH}/metadata", method="POST").headers["allow"] == "GET, HEAD"
    refused = minutes.get(f"{PATH}/query", method="PUT")
    assert_prometheus_error(refused, 405, "bad_data")
    assert refused.headers["allow"] == "GET, HEAD, POST"
    assert_prometheus_error(minutes.get(f"{PATH}/rules"), 404, "not_found")


def test_a_store_that_is_not_ready_is_unavailable(tmp_path: Path) -> None:
    """A query of a store without an index can be sent again. Lists leave the store out."""
    with served(tmp_path, window=_MINUTES) as made:
        assert_prometheus_error(ask(made, "store_n"), 503, "unavailable", "being built")
        assert names(made.get(f"{PATH}/label/__name__/values")) == []


class _Guarded:
    """A service with one token."""

    def __init__(self, made: Served, *options: str, more: str = "") -> None:
        """Create the token with these options of `oriel token`, and add ``more`` to its entry."""
        file = made.data / "tokens.toml"
        bearer = token_in(file, "grafana", *options)
        file.write_text(file.read_text() + more)
        self._fields = [("Authorization", f"Bearer {bearer}")]
        made.service.catalog.close()
        self.service = Service(made.data, ServiceSettings(tokens=str(file)))

    def get(self, target: str) -> ApiResponse:
        """Send a request with the token."""
        return ApiClient(self.service).get(f"{PATH}/{target}", self._fields)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Served]:
    """Return stores with string, number and composite keys, each with a window at 0."""
    with served(tmp_path, window=_MINUTES) as served_stores:
        served_stores.commit(*({"key": key, "start": 0} for key in ("ab", "abc", "b")))
        for name, kind, keys in (
            ("numbers", "long", ("1", "12", "2")),
            ("typed", "[text, long]", ('["ab",1]', '["b",1]')),
        ):
            definition = make_definition(name, window=_MINUTES, key_type=kind)
            served_stores.add(definition, *({"key": key, "start": 0} for key in keys))
        yield served_stores


def test_a_token_for_some_keys_reads_only_these(made: Served) -> None:
    """Other keys appear in no query and no list, and do not count."""
    guarded = _Guarded(made, "--key-prefix", "ab", "--store", "store")
    for query in ("store_n", "{key!=''}", "store_n{key=~'.*'}", "store_n{key=~'b|ab|abc'}"):
        response = guarded.get(f"query?query={quote(query)}&time=60")
        assert values(response).keys() == {"ab", "abc"}
    assert values(guarded.get("query?query=count(store_n)&time=60")) == {"": "2"}
    assert values(guarded.get("query?query=store_n{key='b'}&time=60")) == {}
    assert names(guarded.get("label/key/values")) == ["ab", "abc"]
    assert names(guarded.get("label/__name__/values")) == ["store_mean", "store_n"]
    assert names(guarded.get("series?match[]={key='b'}")) == []
    assert [*names(guarded.get("metadata"))] == ["store_mean", "store_n"]
    assert values(guarded.get("query?query=numbers_n&time=60")) == {}
    guarded.service.catalog.close()


def test_a_token_for_keys_without_ranges_needs_exact_keys(made: Served) -> None:
    """Numbers with a prefix are not next to each other, so a query has to name the keys."""
    guarded = _Guarded(made, "--key-prefix", "1", "--store", "numbers")
    refused = guarded.get("query?query=numbers_n&time=60")
    assert_prometheus_error(refused, 403, "forbidden", "Select each key")
    assert values(guarded.get("query?query=numbers_n{key=~'1|12|2'}&time=60")).keys() == {"1", "12"}
    guarded.service.catalog.close()


def test_a_token_for_a_component_reads_its_keys(made: Served) -> None:
    """A prefix of whole components is a range of composite keys."""
    guarded = _Guarded(made, "--key-prefix", '["ab",', "--store", "typed")
    assert names(guarded.get("label/key_1/values")) == ["ab"]
    response = guarded.get("query?query=typed_n{key_2='1'}&time=60")
    assert [each["metric"]["key_1"] for each in response.json["data"]["result"]] == ["ab"]
    guarded.service.catalog.close()


def test_a_token_without_keys_reads_no_window(made: Served) -> None:
    """A token for monitoring reads no series."""
    guarded = _Guarded(made, more="key_prefixes = []\n")
    assert values(guarded.get("query?query={key!=''}&time=60")) == {}
    assert names(guarded.get("label/key/values")) == []
    guarded.service.catalog.close()
