"""Stores of every kind and key type as plain lists, with random reads and tokens.

The lists know the rules of the reads in docs/reference/reads.md, and share no code with the
service. Each read has random bounds, a condition, an order, a page size and a token.
"""

import ctypes
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage import DataLayout, StoreDefinition, WindowSpec
from tests.app.api_client import ApiClient, ApiResponse, index_store
from tests.app.selections import Item, key_order, ordered, random_condition, random_order
from tests.app.test_access import token_in
from tests.models.record_windows import windows_of
from tests.storage.store_tables import (
    HOPPING,
    NONE,
    SESSION,
    SLIDING,
    TUMBLING,
    StoreTable,
    make_definition,
    make_record,
    window_fields,
)

KEYS = {
    "text": ("a", "ab", "b", "é", "c/d", ""),
    "long": ("-7", "0", "5", "10", "42"),
    "[text, long]": ('["a",-2]', '["a",10]', '["b",5]', '["é",0]'),
}
PREFIXES = {"text": ("a", "ab", "é", "zz"), "[text, long]": ('["a",', '["b",')}
#: The key prefixes of each token. None grants access to all keys.
TOKENS: Mapping[str, tuple[str, ...] | None] = {
    "all": None,
    "first": ("a", '["a",', "1"),
    "second": ("é", "c", '["b",', "-", "5"),
}
_COLUMNS = ("n", "mean", "last", "all")
_VALUES = {
    "n": (-1, 0, 1, 2, 7, 10**15, 2**62, None),
    "mean": (-1.5, 0.0, 0.5, 2.0, 1e300, None),
    "last": ("a", "b", "ab", "é", "100%", "it's", "", None),
}
_LAST_MS = 200

Items = list[Item]


@dataclass(frozen=True)
class Version:
    """One version of a store: its items in the order of ``all``, and when windows close."""

    items: Items
    earliest_ms: int
    close_ms: int


@dataclass(frozen=True)
class Read:
    """A random read.

    Attributes:
        path: The path after the store.
        items: The items that it returns without a selection, in order.
        query: Its own parameters.
        named: The keys or prefixes that it names. None if it reads all keys.
        listed: The keys of its body.
        has_final: Whether it has the parameter ``final``.
        columns: The aggregates of its items.
    """

    path: str
    items: Items
    query: Mapping[str, Any] = field(default_factory=dict)
    named: Sequence[str] | None = None
    listed: Sequence[str] | None = None
    has_final: bool = False
    columns: Sequence[str] = _COLUMNS


class StoreLists:
    """One store with two versions as plain lists."""

    def __init__(self, data: Path, definition: StoreDefinition, choice: random.Random) -> None:
        """Write the table and its index."""
        self.definition = definition
        self.key_type = definition.key_type
        self.keys = KEYS[definition.key_type]
        self.window = definition.window
        self.versions: dict[int, Version] = {}
        table, layout = StoreTable(data, definition), DataLayout(data)
        changes, known = _random_changes(choice, definition, self.keys), dict[Any, Item]()
        observed_ms = 0
        for version, rows in enumerate(changes, 1):
            for row in rows:
                known[row["key"], row["start"], row["end"]] = row
                edge = "end" if self.window == SESSION else "start"
                observed_ms = max(observed_ms, row[edge])
            close_ms = choice.choice((-5, 60, 150))
            record = make_record(version - 1, observed_ms=observed_ms, close_ms=close_ms)
            table.commit(rows, record)
            if version == len(changes) or choice.random() < 0.5:
                index_store(layout, definition.name)
            retention_ms = definition.retention_ms
            earliest_ms = 0 if retention_ms is None else max(0, observed_ms - retention_ms + 1)
            visible = [
                window_fields(row, definition)
                for row in known.values()
                if not row["deleted"] and (self.window == NONE or row[edge] >= earliest_ms)
            ]
            self.versions[version] = Version(self.sorted(visible), earliest_ms, close_ms)

    def sorted(self, items: Sequence[Item]) -> Items:
        """Return items in the order of the reads."""
        return ordered(items, [], self.key_type)

    def identity(self, item: Item) -> tuple[Any, ...]:
        """Return what identifies an item."""
        return item["key"], item.get("window_start_ms"), item.get("window_end_ms")

    def names(self) -> list[str]:
        """Return the fields that an order can have."""
        times = () if self.window == NONE else ("window_start_ms", "window_end_ms", "final")
        return ["key", "n", "mean", "last", "timestamp_ms", *times]

    def random_read(self, choice: random.Random, version: Version) -> Read:
        """Return a random read that the kind of the store has."""
        if self.window == NONE:
            reads = [self._of_rows]
        else:
            reads = [self._of_windows, self._of_key, self._of_newest, self._of_listed]
        if self.window == SESSION:
            reads.append(self._of_sessions)
        if self.window == TUMBLING:
            reads.append(self._of_ranges)
        return choice.choice(reads)(choice, version)

    def _of_rows(self, choice: random.Random, version: Version) -> Read:
        items = version.items
        keys = choice.sample(self.keys, k=choice.randint(0, 3))
        row_of = {item["key"]: item for item in items}
        listed = [row_of[key] for key in keys if key in row_of]
        query, among = self._key_range(choice, items)
        reads = [
            Read("all", items),
            Read("reverseAll", items[::-1]),
            Read("range", among, query),
            Read("reverseRange", among[::-1], query),
            Read("getOfKeys", listed, named=keys, listed=keys),
        ]
        if self.key_type in PREFIXES:
            prefix = choice.choice(PREFIXES[self.key_type])
            found = [item for item in items if item["key"].startswith(prefix)]
            reads += 2 * [Read("prefixScan", found, {"prefix": prefix}, [prefix])]
        return choice.choice(reads)

    def _of_windows(self, choice: random.Random, version: Version) -> Read:
        items = version.items
        times, in_time = _bounds(choice, "from_ms", "to_ms")
        query, among = self._key_range(choice, items)
        early = [item for item in items if in_time(item["window_start_ms"])]
        early_among = [item for item in among if in_time(item["window_start_ms"])]
        return choice.choice((
            Read("all", items, has_final=True),
            Read("backwardAll", items[::-1], has_final=True),
            Read("fetchAll", early, times, has_final=True),
            Read("backwardFetchAll", early[::-1], times, has_final=True),
            Read("fetchRange", early_among, query | times, has_final=True),
            Read("backwardFetchRange", early_among[::-1], query | times, has_final=True),
        ))  # fmt: skip

    def _of_key(self, choice: random.Random, version: Version) -> Read:
        key, instant_ms = choice.choice(self.keys), choice.randrange(_LAST_MS)
        times, in_time = _bounds(choice, "from_ms", "to_ms")
        of_key = [item for item in version.items if item["key"] == key]
        early = [item for item in of_key if in_time(item["window_start_ms"])]
        last = 0 if self.window in {SLIDING, SESSION} else 1
        around = [
            item for item in of_key
            if item["window_start_ms"] <= instant_ms <= item["window_end_ms"] - last
        ]  # fmt: skip
        path = quote(key, safe="")
        return choice.choice((
            Read(f"fetch/{path}", early, times, [key], has_final=True),
            Read(f"backwardFetch/{path}", early[::-1], times, [key], has_final=True),
            Read(f"covering/{instant_ms}/{path}", around, {}, [key], has_final=True),
        ))  # fmt: skip

    def _of_newest(self, choice: random.Random, version: Version) -> Read:
        newest, name = self._newest(choice, version.items)
        query, named = dict[str, Any](), None
        if self.key_type in PREFIXES and choice.random() < 0.6:
            prefix = choice.choice(PREFIXES[self.key_type])
            query, named = {"prefix": prefix}, [prefix]
            newest = [item for item in newest if item["key"].startswith(prefix)]
        elif choice.random() < 0.5:
            query, newest = self._key_range(choice, newest)
        return Read(f"{name}All", newest, query, named)

    def _of_listed(self, choice: random.Random, version: Version) -> Read:
        keys = choice.choices(self.keys, k=choice.randint(0, 4))
        times, in_time = _bounds(choice, "from_ms", "to_ms")
        newest, name = self._newest(choice, version.items)
        backward = choice.random() < 0.5
        by_key = {key: [item for item in version.items if item["key"] == key] for key in keys}
        listed = [
            item for key in keys for item in by_key[key][:: -1 if backward else 1]
            if in_time(item["window_start_ms"])
        ]  # fmt: skip
        window_of = {item["key"]: item for item in newest}
        of_keys = [window_of[key] for key in keys if key in window_of]
        return choice.choice((
            Read("backwardFetchOfKeys" if backward else "fetchOfKeys", listed, times, keys, keys),
            Read(f"{name}OfKeys", of_keys, {}, keys, keys),
        ))  # fmt: skip

    def _of_sessions(self, choice: random.Random, version: Version) -> Read:
        key = choice.choice(self.keys)
        end_ms, start_ms = choice.randrange(-5, _LAST_MS), choice.randrange(-5, _LAST_MS)
        query = {"earliest_end_ms": end_ms, "latest_start_ms": start_ms}
        found = [
            item for item in version.items
            if item["window_end_ms"] >= end_ms and item["window_start_ms"] <= start_ms
        ]  # fmt: skip
        of_key = [item for item in found if item["key"] == key]
        path = quote(key, safe="")
        key_query, among = self._key_range(choice, found)
        query_among = query | key_query
        return choice.choice((
            Read(f"findSessions/{path}", of_key, query, [key], has_final=True),
            Read(f"backwardFindSessions/{path}", of_key[::-1], query, [key], has_final=True),
            Read("findSessionsRange", among, query_among, has_final=True),
            Read("backwardFindSessionsRange", among[::-1], query_among, has_final=True),
        ))  # fmt: skip

    def _of_ranges(self, choice: random.Random, version: Version) -> Read:
        step_ms = self.window.size_ms * choice.choice((1, 2, 3, 7))
        times, in_time = _bounds(choice, "from_ms", "to_ms")
        ranges = [each for each in _merged(version, step_ms) if in_time(each["window_start_ms"])]
        query = {**times, "step_ms": step_ms, "columns": "n"}
        key = choice.choice(self.keys)
        keys = choice.choices(self.keys, k=choice.randint(0, 4))
        listed = [each for name in keys for each in ranges if each["key"] == name]
        of_key = [each for each in ranges if each["key"] == key]
        key_query, among = self._key_range(choice, ranges)
        found = [
            Read(f"merged/{quote(key, safe='')}", of_key, query, [key], None, True, ("n",)),
            Read("mergedOfKeys", listed, query, keys, keys, True, ("n",)),
            Read("mergedAll", among, query | key_query, None, None, True, ("n",)),
        ]
        if self.key_type in PREFIXES:
            prefix = choice.choice(PREFIXES[self.key_type])
            inside = [each for each in ranges if each["key"].startswith(prefix)]
            prefixed = query | {"prefix": prefix}
            found.append(Read("mergedAll", inside, prefixed, [prefix], None, True, ("n",)))
        return choice.choice(found)

    def _newest(self, choice: random.Random, items: Items) -> tuple[Items, str]:
        """Return the latest or the current windows of all keys, and the begin of the read."""
        newest = []
        name = choice.choice(("latest", "current"))
        for _, group in groupby(items, lambda item: item["key"]):
            of_key = [*group]
            if name == "latest":
                newest.append(of_key[-1])
            elif self.window == SESSION:
                newest.append(max(of_key, key=lambda i: (i["window_end_ms"], i["window_start_ms"])))
            else:
                newest_ms = max(item["timestamp_ms"] for item in of_key)
                newest.append(next(i for i in of_key if i["timestamp_ms"] == newest_ms))
        return newest, name

    def _key_range(self, choice: random.Random, items: Items) -> tuple[dict[str, Any], Items]:
        query = {}
        order = key_order(self.key_type)
        for name in ("key_from", "key_to"):
            if choice.random() < 0.6:
                bound = query[name] = choice.choice(self.keys)
                items = [
                    item for item in items
                    if item["key"] == bound
                    or (order(item["key"]) > order(bound)) is (name == "key_from")
                ]  # fmt: skip
        return query, items


class SelectionStores:
    """A service with tokens over stores of every kind and of every key type."""

    def __init__(self, data: Path, choice: random.Random) -> None:
        """Create the stores."""
        self.stores = [StoreLists(data, definition, choice) for definition in _definitions(choice)]
        file = data / "tokens.toml"
        self._headers = {}
        for name, prefixes in TOKENS.items():
            options = [each for prefix in prefixes or () for each in ("--key-prefix", prefix)]
            with redirect_stderr(io.StringIO()):
                token = token_in(file, name, *options)
            self._headers[name] = [("Authorization", f"Bearer {token}")]
        self.service = Service(data, ServiceSettings(tokens=str(file)))
        self._client = ApiClient(self.service)

    def check_random_read(self, choice: random.Random) -> None:
        """Compare a random read of a random store with its list."""
        store = choice.choice(self.stores)
        query, version = dict[str, Any](), max(store.versions)
        if choice.random() < 0.05:
            query["as_of_version"] = version = choice.choice([*store.versions])
        read = store.random_read(choice, store.versions[version])
        query |= read.query
        wanted = _select(choice, store, read, query)
        token = choice.choice([*TOKENS])
        prefixes = TOKENS[token]
        target = f"/v1/stores/{store.definition.name}/{read.path}?{urlencode(query)}"
        context = target, read.listed, token
        first = self._send(target, read, token)
        if prefixes is not None and not (
            read.named is not None and all(name.startswith(prefixes) for name in read.named)
        ):
            assert (first.status, first.json["code"]) == (403, "forbidden"), context
            return
        found: Items = []
        page = first
        while True:
            assert page.status == 200, (page.body, context)
            found += page.json.get("windows") or page.json.get("rows") or []
            cursor = page.json["next_cursor"]
            if cursor is None:
                break
            page = self._send(f"{target}&cursor={cursor}", read, token)
        if prefixes is not None:
            assert not [item for item in found if not item["key"].startswith(prefixes)], context
        assert found == wanted, context

    def check_promql(self, choice: random.Random) -> None:
        """Check that PromQL returns the newest values of the keys of a token, and no other key."""
        store = choice.choice([each for each in self.stores if each.window == TUMBLING])
        token = choice.choice([*TOKENS])
        prefixes = TOKENS[token] or ("",)
        version = store.versions[max(store.versions)]
        wanted = {}
        for item in version.items:
            if item["key"].startswith(prefixes) and item["n"] is not None:
                wanted[item["key"], item["window_end_ms"]] = item["n"]
        name = f"{store.definition.name}_n"
        end_ms = choice.choice(sorted({item["window_end_ms"] for item in version.items}))
        target = f"/prometheus/api/v1/query?query={name}&time={end_ms / 1000}&lookback_delta=1ms"
        response = self._send(target, Read("query", []), token)
        if TOKENS[token] is not None and store.key_type != "text" and response.status == 403:
            # The prefixes of the token are not all valid for the key type.
            return
        assert response.status == 200, (response.body, target, token)
        found = {
            _key_of_labels(each["metric"], store.key_type): float(each["value"][1])
            for each in response.json["data"]["result"]
        }
        # Prometheus' values are doubles.
        expected = {key: float(n) for (key, ms), n in wanted.items() if ms == end_ms}
        assert found == expected, (target, token)

    def _send(self, target: str, read: Read, token: str) -> ApiResponse:
        headers = self._headers[token]
        # The service logs each rejected request.
        with redirect_stderr(io.StringIO()):
            if read.listed is None:
                return self._client.get(target, headers)
            return self._client.post(target, orjson.dumps(read.listed), headers)


@contextmanager
def selection_stores(data: Path, choice: random.Random) -> Iterator[SelectionStores]:
    """Yield random stores, and close their indexes at the end."""
    made = SelectionStores(data, choice)
    try:
        yield made
    finally:
        made.service.catalog.close()


def _definitions(choice: random.Random) -> Iterator[StoreDefinition]:
    """Yield the definition of each kind. One key type has each kind, the others have one."""
    kinds = {"tumbling": TUMBLING, "hopping": HOPPING, "sliding": SLIDING, "session": SESSION,
             "rows": NONE}  # fmt: skip
    for name, window in kinds.items():
        retention_ms = choice.choice((None, 90)) if window != NONE else None
        yield make_definition(name, window=window, retention_ms=retention_ms)
    for key_type in ("long", "[text, long]"):
        for name in ("rows", "tumbling", choice.choice([*kinds][1:4])):
            yield make_definition(f"{name}{len(key_type)}", window=kinds[name], key_type=key_type)


def _random_changes(
    choice: random.Random, definition: StoreDefinition, keys: Sequence[str]
) -> list[list[Item]]:
    """Return the rows of two versions. The second one changes and removes rows of the first."""
    spans = [_random_spans(choice, definition.window, keys) for _ in range(2)]
    if definition.window in {HOPPING, SLIDING}:
        # Windows and times that records made, because `current` is about the newest record.
        records = [(choice.choice(keys), choice.randrange(_LAST_MS)) for _ in range(40)]
        spans = [
            {(put.key, put.start_ms, put.end_ms): orjson.loads(put.value)["timestamp_ms"]
             for put in windows_of(records[:count], definition.window)}
            for count in (20, 40)
        ]  # fmt: skip
    removes = definition.window in {TUMBLING, SESSION, NONE}
    return [
        [
            {
                "key": key, "start": start, "end": end, "timestamp": timestamp,
                **{name: choice.choice(values) for name, values in _VALUES.items()},
                "all": choice.choice(([1.0], [], [0.5, -1.0])),
                "final": choice.random() < 0.5,
                "deleted": removes and bool(batch) and choice.random() < 0.2,
            }
            for (key, start, end), timestamp in span.items()
        ]
        for batch, span in enumerate(spans)
    ]  # fmt: skip


def _random_spans(
    choice: random.Random, window: WindowSpec, keys: Sequence[str]
) -> dict[tuple[str, int, int], int]:
    """Return keys, starts and ends of rows, each with the time of its newest record."""
    spans = {}
    for _ in range(60):
        start = end = 0
        if window == TUMBLING:
            start = window.size_ms * choice.randrange(_LAST_MS // window.size_ms)
            end = start + window.size_ms
        elif window == SESSION:
            start = choice.randrange(_LAST_MS)
            end = start + choice.choice((0, 1, 5, 30, 120))
        last = max(start, end - 1) if window == TUMBLING else end
        spans[choice.choice(keys), start, end] = choice.randint(start, last)
    return spans


def _bounds(
    choice: random.Random, low_name: str, high_name: str
) -> tuple[dict[str, Any], Callable[[int], bool]]:
    """Return optional bounds of a time, and whether a time is inside them."""
    low, high = choice.randrange(-5, _LAST_MS), choice.randrange(-5, _LAST_MS)
    has_low, has_high = choice.random() < 0.4, choice.random() < 0.4
    query = {low_name: low} if has_low else {}
    query |= {high_name: high} if has_high else {}
    return query, lambda ms: (not has_low or ms >= low) and (not has_high or ms <= high)


def _merged(version: Version, step_ms: int) -> Items:
    """Return the ranges of all keys with a sum of ``n`` that wraps, by key, then start."""
    ranges: Items = []
    for (key, start), group in groupby(
        version.items, lambda item: (item["key"], item["window_start_ms"] // step_ms * step_ms)
    ):
        inside = [*group]
        if start < version.earliest_ms:
            continue
        values = [item["n"] for item in inside if item["n"] is not None]
        ranges.append({
            "key": key,
            "window_start_ms": start,
            "window_end_ms": start + step_ms,
            "n": ctypes.c_int64(sum(values)).value if values else None,
            "timestamp_ms": max(item["timestamp_ms"] for item in inside),
            "final": start + step_ms <= version.close_ms
            and False not in [item["final"] for item in inside],
        })  # fmt: skip
    return ranges


def _select(choice: random.Random, store: StoreLists, read: Read, query: dict[str, Any]) -> Items:
    """Add a random selection to a query, and return the items that it selects."""
    wanted = read.items
    if read.path not in {"latestOfKeys", "currentOfKeys", "getOfKeys"}:
        query["limit"] = choice.choice((1, 3, 20, 20, 10_000, 10_000))
    if read.has_final and choice.random() < 0.3:
        is_final = choice.random() < 0.5
        query["final"] = str(is_final).lower()
        wanted = [item for item in wanted if item["final"] is is_final]
    if choice.random() < 0.7:
        query["where"], holds = _random_where(choice, store, read)
        wanted = [item for item in wanted if holds(item)]
    if choice.random() < 0.6:
        left_out = {*_COLUMNS} - {*read.columns}
        order = random_order(choice, [name for name in store.names() if name not in left_out])
        query["order_by"] = ",".join("-" * descends + name for name, descends in order)
        # An order has each item once, also if its key is listed twice.
        once = {store.identity(item): item for item in wanted}
        wanted = ordered([*once.values()], order, store.key_type)
        if choice.random() < 0.4:
            query["top"] = choice.choice((1, 5, 100))
            wanted = wanted[: query["top"]]
    if "columns" not in query and choice.random() < 0.2:
        columns = choice.sample(_COLUMNS, 2)
        query["columns"] = ",".join(columns)
        left_out = {*_COLUMNS} - {*columns}
        wanted = [{k: v for k, v in item.items() if k not in left_out} for item in wanted]
    return wanted


def _random_where(
    choice: random.Random, store: StoreLists, read: Read
) -> tuple[str, Callable[[Item], bool | None]]:
    """Return a condition about the fields of the items, and the function that says the same."""
    while True:
        text, holds = random_condition(choice)
        is_unfit = store.key_type == "long" and "key" in text
        is_missing = "n" not in read.columns or (
            len(read.columns) == 1 and ("mean" in text or "last" in text)
        )
        if not is_unfit and not is_missing:
            break
    if store.window != NONE and choice.random() < 0.4:
        ms, is_final = choice.randrange(_LAST_MS), choice.random() < 0.5
        name = choice.choice(("window_start_ms", "window_end_ms", "timestamp_ms"))
        # A disjunction with an unknown value is true only if its other part is true.
        added = f"({text}) OR {name} < {ms} AND {'' if is_final else 'NOT '}final"
        return added, lambda item: bool(
            holds(item) or (item[name] < ms and item["final"] is is_final)
        )
    return text, holds


def _key_of_labels(labels: Mapping[str, str], key_type: str) -> str:
    """Return the key of a series."""
    if not key_type.startswith("["):
        return labels.get("key", "")
    parts = labels["key_1"], int(labels["key_2"])
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
