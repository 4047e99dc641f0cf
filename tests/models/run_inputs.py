"""Expected store contents for every kind of input, computed record by record in plain Python."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, TypeGuard

from tests.models.foreign_keys import joined_by_foreign_key
from tests.models.join_trees import Late, Leaf, Node
from tests.models.join_trees import Model as JoinTrees
from tests.models.joins import Arrived, Joined, arrivals, clock, counting, joined, joined_tables
from tests.models.table_groups import Functions, folded, members
from tests.models.table_updates import Model as Updates
from tests.pipeline.run.inputs_topology import (
    GRACE_MS,
    JOIN_DELAYS,
    NAMED,
    SIZE_MS,
    SPAN,
    UNLUCKY,
    WITHIN_MS,
    Row,
    start,
)
from tests.pipeline.run.topic_logs import Record, Topics, offsets


class Model:
    """Computes the expected store contents from the records of all topics."""

    def __init__(self, topics: Topics) -> None:
        """Drop the records that every store rejects, and records without a key."""
        self._topics = topics
        self.orders: dict[str, Mapping[str, Any]] = {}
        self.paid: dict[str, Mapping[str, Any]] = {}
        logs: dict[str, dict[int, list[tuple[str, int, str | None]]]] = {}
        for topic, column in (
            ("orders", "id"), ("paid", "pid"), ("users", "name"), ("accounts", "balance"),
        ):  # fmt: skip
            logs[topic] = {
                partition: [
                    (record[0], record[1], _text(record[2], column))
                    for record in records
                    if not isinstance(record, bytes) and record[0] is not None
                ]
                for partition, records in topics[topic].items()
            }
        self.logs = logs
        for records, column, found in (
            (topics["orders"], "id", self.orders), (topics["paid"], "pid", self.paid),
        ):  # fmt: skip
            for record in (one for log in records.values() for one in log):
                if not isinstance(record, bytes) and record[2] is not None:
                    found[record[2][column]] = record[2]

    def cogroup(self) -> tuple[list[Row], int]:
        """Return the rows of the cogroup and the number of late records."""
        rows: dict[tuple[str, int], Row] = {}
        late = 0
        for topic in ("orders", "paid"):
            for record in _in_order(arrivals(self.logs[topic])):
                if _closed(record.time, record.stream_time):
                    late += 1
                    continue
                row = rows.setdefault(
                    (record.key, _start(record.time)),
                    {"n": 0, "ids": [], "m": 0, "total": None, "timestamp": 0},
                )
                row["timestamp"] = max(row["timestamp"], record.time)
                assert record.value is not None
                if topic == "orders":
                    row["n"] += 1
                    row["ids"].append(record.value)
                else:
                    row["m"] += 1
                    row["total"] = (row["total"] or 0) + self.paid[record.value]["paid"]
        stream_times = [clock(self.logs[topic]) for topic in ("orders", "paid")]
        return _rows(rows, min(stream_times) - GRACE_MS), late

    def merged(self) -> tuple[list[Row], int]:
        """Return the rows of orders (by city) merged with payments, and the late count."""
        rows: dict[tuple[str, int], Row] = {}
        late, records = 0, []
        for number, log in enumerate((self._with_keyless(), self.logs["paid"])):
            records += [(one, number) for one in arrivals(log)]
        # At equal times, a partition of the first topic precedes the same partition of the second.
        records.sort(key=lambda one: (one[0].time, one[0].partition, one[1], one[0].offset))
        for record, number in records:
            if _closed(record.time, record.stream_time):
                late += 1
                continue
            assert record.value is not None
            order = None if number else self.orders[record.value]
            key = record.key if order is None else order["city"]
            amount = self.paid[record.value]["paid"] if order is None else order["amount"]
            row = rows.setdefault(
                (key, _start(record.time)), {"n": 0, "ids": [], "total": 0, "timestamp": 0}
            )
            row["n"] += 1
            row["ids"].append(record.value)
            row["total"] += amount
            row["timestamp"] = max(row["timestamp"], record.time)
        stream_times = [clock(self._with_keyless()), clock(self.logs["paid"])]
        return _rows(rows, min(stream_times) - GRACE_MS), late

    def parts(self) -> tuple[list[Row], int]:
        """Return the rows of the flattened orders (city and id), and the number of late records."""
        rows: dict[tuple[str, int], Row] = {}
        late = 0
        for record in _in_order(arrivals(self._with_keyless())):
            assert record.value is not None
            for part in (self.orders[record.value]["city"], record.value):
                if _closed(record.time, record.stream_time):
                    late += 1
                    continue
                row = rows.setdefault(
                    (part, _start(record.time)), {"n": 0, "ids": [], "timestamp": 0}
                )
                row["n"] += 1
                row["ids"].append(record.value)
                row["timestamp"] = max(row["timestamp"], record.time)
        return _rows(rows, clock(self._with_keyless()) - GRACE_MS), late

    def enriched(self) -> list[Row]:
        """Return the rows of orders, enriched with user names if the amount is greater than 5."""
        users = counting(self.logs["users"])
        rows: dict[str, Row] = {}
        for record in _in_order(arrivals(self.logs["orders"])):
            assert record.value is not None
            user = users.get(record.key) if self.orders[record.value]["amount"] > 5 else None
            row = rows.setdefault(record.key, {"n": 0, "ids": [], "names": [], "timestamp": 0})
            # After the enrichment, each order is flattened into two records.
            row["n"] += 2
            row["ids"] += [record.value] * 2
            row["names"] += [(user.value if user else None) or "?"] * 2
            row["timestamp"] = max(row["timestamp"], record.time)
        return _unwindowed(rows)

    def joined(self, how: str) -> tuple[list[Row], Joined, int]:
        """Return the rows after a join, the join results, and the number of late results."""
        model = joined(self.logs["orders"], self.logs["paid"], SPAN)
        rows: dict[tuple[str, int], Row] = {}
        late = 0
        for _, time, _, _, _, stream_time, order, payment in model.results(how):
            if _closed(time, stream_time):
                late += 1
                continue
            city = "nowhere" if order is None else self.orders[order]["city"]
            row = rows.setdefault(
                (city, _start(time)), {"n": 0, "ids": [], "pids": [], "timestamp": 0}
            )
            row["n"] += 1
            row["ids"] += [] if order is None else [order]
            row["pids"] += [] if payment is None else [payment]
            row["timestamp"] = max(row["timestamp"], time)
        stream_times = [clock(self.logs[topic]) for topic in ("orders", "paid")]
        return _rows(rows, min(stream_times) - GRACE_MS - JOIN_DELAYS[how]), model, late

    def joined_twice(self) -> tuple[list[Row], Late]:
        """Return the rows of join results that join the flattened orders, and the late counts."""
        logs = {
            topic: {
                p: [(key, time, [str(value)]) for key, time, value in log]
                for p, log in self.logs[topic].items()
            }
            for topic in ("orders", "paid")
        }
        logs["items"] = {
            p: [(key, time, [self.orders[order]["city"], order]) for key, time, (order,) in log]
            for p, log in logs["orders"].items()
        }
        model, span = JoinTrees(logs), (SPAN.before, SPAN.after, SPAN.grace)
        pairs = Node("inner", *span, Leaf("orders"), Leaf("paid"))
        results = model.rows(Node("inner", *span, pairs, Leaf("items", flat=True)))
        rows: dict[tuple[str, int], Row] = {}
        for result in sorted(results, key=lambda one: (one.time, one.numbers)):
            if _closed(result.time, result.stream_time):
                model.late.results += 1
                continue
            order, payment, item = result.texts
            row = rows.setdefault(
                (str(item), _start(result.time)), {"n": 0, "ids": [], "pids": [], "timestamp": 0}
            )
            row["n"] += 1
            row["ids"].append(order)
            row["pids"].append(payment)
            row["timestamp"] = max(row["timestamp"], result.time)
        stream_times = [clock(self.logs[topic]) for topic in ("orders", "paid")]
        return _rows(rows, min(stream_times) - GRACE_MS), model.late

    def chained(self) -> list[Row]:
        """Return the rows of the inner join, enriched with the users of their orders' keys."""
        users = counting(self.logs["users"])
        key_of = {one.value: one.key for one in arrivals(self.logs["orders"])}
        rows, _, _ = self.joined("inner")
        for row in rows:
            found = [users.get(key_of[order]) for order in row["ids"]]
            row["names"] = row["aliases"] = [user.value for user in found if user and user.value]
        return rows

    def folded(self) -> tuple[list[Row], list[tuple[int, int, str]]]:
        """Return the rows of the user-defined functions, and the records on which they raised.

        Each of the latter is (partition, offset, id).
        """
        parts: dict[tuple[str, int], dict[int, str]] = {}
        times: dict[tuple[str, int], int] = {}
        raised = []
        for record in arrivals(self.logs["orders"]):
            if _closed(record.time, record.stream_time):
                continue
            assert record.value is not None
            if self.orders[record.value]["amount"] == UNLUCKY:
                raised.append((record.partition, self.offset_of(record), record.value))
                continue
            place = record.key, _start(record.time)
            part = parts.setdefault(place, {})
            part[record.partition] = f"{part.get(record.partition, '')},{record.value}"
            times[place] = max(times.get(place, 0), record.time)
        rows = {
            place: {"s": ";".join(part[p] for p in sorted(part)), "timestamp": times[place]}
            for place, part in parts.items()
        }
        return _rows(rows, clock(self.logs["orders"]) - GRACE_MS), raised

    def offset_of(self, record: Arrived) -> int:
        """Return the offset of an order's line."""
        log = self._topics["orders"][record.partition]
        for position, one in zip(offsets(log), log, strict=True):
            if not isinstance(one, bytes) and one[2] and one[2]["id"] == record.value:
                return position
        raise AssertionError

    def plain(self) -> list[Row]:
        """Return the rows of orders with an amount greater than 5, grouped by city."""
        rows: dict[str, Row] = {}
        everything = _in_order(arrivals(self._with_keyless()))
        for record in everything:
            assert record.value is not None
            order = self.orders[record.value]
            if order["amount"] > 5:
                _add(rows, order["city"], record)
        return _unwindowed(rows)

    def named(self) -> list[Row]:
        """Return the rows of orders by user name, if all users exist before the first order."""
        users = counting(self.logs["users"])
        rows: dict[str, Row] = {}
        for record in _in_order(arrivals(self.logs["orders"])):
            user = users.get(record.key)
            _add(rows, (user.value if user else None) or "?", record)
        return _unwindowed(rows)

    def distinct(self) -> tuple[list[Row], int, int]:
        """Return the rows of orders that are distinct by city, and count late and dropped ones."""
        rows: dict[str, Row] = {}
        seen: list[tuple[Arrived, str]] = []
        found: list[Arrived] = []
        late = 0
        for record in arrivals(self.logs["orders"]):
            if record.time < record.stream_time - WITHIN_MS:
                late += 1
                continue
            city = self.orders[str(record.value)]["city"]
            near = [
                one
                for one, other_city in seen
                if (one.key, one.partition, other_city) == (record.key, record.partition, city)
                and abs(one.time - record.time) <= WITHIN_MS
            ]
            seen.append((record, city))
            found += [] if near else [record]
        for record in _in_order(found):
            _add(rows, record.key, record)
        return _unwindowed(rows), late, len(seen) - len(found)

    def processed(self) -> tuple[list[Row], list[tuple[int, int]]]:
        """Return the rows of visits, and the (partition, offset) of records that raised."""
        found: list[tuple[int, int, int, int, str, str]] = []
        raised: list[tuple[int, int]] = []
        visits: dict[tuple[str, int], tuple[int, int, int]] = {}
        for record in arrivals(self.logs["orders"]):
            # All timers of the partition are checked at each record, the earliest one first.
            self._end_visits(visits, found, record.partition, record.stream_time)
            assert record.value is not None
            place = record.key, record.partition
            if self.orders[record.value]["amount"] == UNLUCKY:
                raised.append((record.partition, self.offset_of(record)))
                continue
            n, _, _ = visits.get(place, (0, 0, 0))
            found.append(
                (record.time, record.partition, record.offset, 0, record.key, record.value)
            )
            visits[place] = n + 1, record.time + WITHIN_MS, record.offset
            self._end_visits(visits, found, record.partition, record.stream_time)
        rows: dict[str, Row] = {}
        for time, _, _, _, key, of in sorted(found):
            row = rows.setdefault(key, {"n": 0, "ids": [], "timestamp": 0})
            row["n"], row["timestamp"] = row["n"] + 1, max(row["timestamp"], time)
            row["ids"].append(of)
        return _unwindowed(rows), raised

    @staticmethod
    def _end_visits(
        visits: dict[tuple[str, int], tuple[int, int, int]],
        found: list[tuple[int, int, int, int, str, str]],
        partition: int,
        stream_time: int,
    ) -> None:
        for (key, of), (n, time, offset) in list(visits.items()):
            if of == partition and time <= stream_time:
                found.append((time, partition, offset, 1, key, f"{n} orders"))
                del visits[key, of]

    def tables(self, how: str) -> list[Row]:
        """Return the joined rows of users and accounts."""
        found = joined_tables(self.logs["users"], self.logs["accounts"], how)
        return [
            {"key": key, "name": left, "balance": right, "timestamp": time, "deleted": False}
            for key, (left, right, time) in sorted(found.items())
        ]

    def updated(self) -> list[Row]:
        """Return the updates of users, accounts and orders in one batch, without deleted rows."""
        model = Updates(("left", ("outer", 0, 1), 2), frozenset(), wants_old=False)
        rows: dict[str, Row] = {}
        for _, record, update in model.process(
            [
                (side, record)
                for side, topic in enumerate(("users", "accounts", "orders"))
                for record in arrivals(self.logs[topic])
            ]
        ):
            if update is None or update.new is None:
                continue
            text = "+".join(update.new.get(side, "-") for side in range(3))
            row = rows.setdefault(record.key, {"s": "", "timestamp": 0})
            row["s"] += f",{text}"
            row["timestamp"] = max(row["timestamp"], update.time)
        return _unwindowed(rows)

    def by_foreign_key(self) -> list[Row]:
        """Return the rows of orders, joined with the users that their amounts reference."""
        logs = {
            partition: [
                (key, time, f"{id_}>{NAMED.get(self.orders[str(id_)]['amount'], '')}")
                for key, time, id_ in log
            ]
            for partition, log in self.logs["orders"].items()
        }
        found = joined_by_foreign_key(logs, self.logs["users"], "left")
        return [
            {"key": key, **self.orders[order.partition(">")[0]], "name": name,
             "timestamp": time, "deleted": False}
            for key, (order, name, time) in sorted(found.items())
        ]  # fmt: skip

    def some_users(self) -> list[Row]:
        """Return the rows of the users whose names pass the filter."""
        users = counting(self.logs["users"])
        return [
            {"key": key, "name": user.value, "timestamp": user.time, "deleted": False}
            for key, user in sorted(users.items())
            if (user.value or "").startswith("u0")
        ]

    def newest_by_city(self) -> list[Row]:
        """Return, by city, the newest order of each partition and key with an amount above 5."""
        logs = {
            partition: [(r[0], r[1], _worth(r[2])) for r in records if _has_key(r)]
            for partition, records in self._topics["orders"].items()
        }
        groups = sorted(members(logs).items())
        return [
            {"key": city, "n": len(one.numbers), "total": _total(one.numbers),
             "timestamp": one.time, "deleted": False}
            for city, one in groups
        ]  # fmt: skip

    def names(self) -> list[Row]:
        """Return the added and removed users, grouped by the last character of their names."""
        numbers: list[str] = []
        logs: dict[int, list[tuple[str, int, tuple[str, float] | None]]] = {}
        for partition, log in self.logs["users"].items():
            logs[partition] = []
            for key, time, name in log:
                row = None
                if name is not None:
                    row = "x" if name[-1] in "13" else "y", len(numbers)
                    numbers.append(name)
                logs[partition].append((key, time, row))
        calls = Functions(
            start,
            lambda number, text: f"{text}+{numbers[int(number or 0)]}",
            lambda number, text: f"{text}-{numbers[int(number or 0)]}",
            lambda left, right: f"{left};{right}",
        )
        return [
            {"key": group, "s": text, "timestamp": time, "deleted": False}
            for group, (text, time) in sorted(folded(logs, calls).items())
        ]

    def _with_keyless(self) -> Mapping[int, Sequence[tuple[str, int, str | None]]]:
        return {
            partition: [
                ("", record[1], _text(record[2], "id"))
                for record in records
                if not isinstance(record, bytes)
            ]
            for partition, records in self._topics["orders"].items()
        }


def _has_key(record: Record | bytes) -> TypeGuard[tuple[str, int, Mapping[str, Any] | None]]:
    return not isinstance(record, bytes) and record[0] is not None


def _worth(order: Mapping[str, Any] | None) -> tuple[str, float] | None:
    return (order["city"], order["amount"]) if order and order["amount"] > 5 else None


def _total(numbers: Iterable[float | None]) -> int | None:
    found = [int(number) for number in numbers if number is not None]
    return reduce(add, found) if found else None


def _text(value: Mapping[str, Any] | None, column: str) -> str | None:
    return None if value is None else str(value[column])


def _start(time: int) -> int:
    return time // SIZE_MS * SIZE_MS


def _closed(time: int, stream_time: int) -> bool:
    return _start(time) + SIZE_MS <= stream_time - GRACE_MS


def _in_order(records: Iterable[Arrived]) -> list[Arrived]:
    return sorted(records, key=lambda one: (one.time, one.partition, one.offset))


def _add(rows: dict[str, Row], key: str, record: Arrived) -> None:
    row = rows.setdefault(key, {"n": 0, "ids": [], "timestamp": 0})
    row["n"] += 1
    row["ids"].append(record.value)
    row["timestamp"] = max(row["timestamp"], record.time)


def _rows(rows: Mapping[tuple[str, int], Row], close: int) -> list[Row]:
    return [
        {
            "key": key, "window_start": begin, "window_end": begin + SIZE_MS, **rows[key, begin],
            "final": begin + SIZE_MS <= close, "deleted": False,
        }
        for key, begin in sorted(rows, key=lambda place: str((*place, place[1] + SIZE_MS)))
    ]  # fmt: skip


def _unwindowed(rows: Mapping[str, Row]) -> list[Row]:
    return [{"key": key, **rows[key], "deleted": False} for key in sorted(rows)]
