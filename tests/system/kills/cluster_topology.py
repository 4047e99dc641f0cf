"""Stores with every kind of windows, every kind of join, and functions from two files.

`oriel run` imports this file. Workers import the functions of ``kinds_topology``, a module next to
it. They receive the functions of this file as code.
"""

from typing import Any

from kinds_topology import add_every_kind  # type: ignore[import-not-found]

from oriel import JoinWindows, StreamsBuilder, TimeWindows, collect_list, count, sum

_WINDOWS = TimeWindows.of_size_and_grace(20, 30)
_WITHIN = JoinWindows.of_time_difference_and_grace(0, 4).after(8).before(5)


def start() -> str:
    """Return the aggregate without orders."""
    return ""


def append(_key: str, value: dict[str, Any], aggregate: str) -> str:
    """Append an order."""
    return f"{aggregate},{value['id']}"


def put_together(_key: str, left: str, right: str) -> str:
    """Append the orders of one partition to those of another."""
    return f"{left};{right}"


builder = StreamsBuilder()
add_every_kind(builder, ["update"])
_orders = builder.stream("orders", "id STRING, city STRING, amount BIGINT")
_paid = builder.stream("paid", "pid STRING, paid BIGINT")
_users, _accounts = (
    builder.table("users", "name STRING"),
    builder.table("accounts", "balance STRING"),
)
_both = _orders.group_by_key().cogroup(n=count(), ids=collect_list("id"))
_both = _both.cogroup(_paid.group_by_key(), m=count(), total=sum("paid")).windowed_by(_WINDOWS)
_both.aggregate().materialize("cogroup")
_matched = _orders.outer_join(_paid, _WITHIN).group_by("coalesce(city, 'nowhere')")
_matched.windowed_by(_WINDOWS).aggregate(n=count(), ids=collect_list("id")).materialize("matched")
_named = _orders.left_join(_users).group_by("coalesce(name, '?')")
_named.aggregate(n=count(), ids=collect_list("id")).materialize("named")
_folded = _orders.group_by_key().windowed_by(_WINDOWS)
_folded.aggregate(start, append, put_together, "s STRING").materialize("folded")
_users.outer_join(_accounts).materialize("both_tables")
topology = builder.build()
