"""Slow reference model of the updates of joined tables, computed as in Kafka Streams.

Pure Python, record by record, without code of the engines. A join is a tree: the number of a table,
or (how, left, right). Each table record is forwarded up the tree. A join combines the update of one
input with the current row of the other input, if any. It forwards the joined row before and after
the update, and each can be None. It forwards nothing in these cases:

    inner     the other input has no row
    left      update from the right: the left input has no row; update from the left: no row
              existed before, none exists now, and the right input has none
    outer     from either input: no row existed before, none exists now, and the other input
              has none
    a filter  (of a table) no row existed before and none exists now, if a join above or a
              grouping needs old rows: a left join needs those of its left input, an outer join
              those of both
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.models.joins import Arrived, Tree

#: Values by table.
Values = dict[int, str]


@dataclass(frozen=True)
class JoinedUpdate:
    """An update that a node of the tree forwards: its row before and after, and the time."""

    old: Values | None
    new: Values | None
    time: int


def tables_of(tree: Tree) -> set[int]:
    """Return the numbers of the tree's tables."""
    return {tree} if isinstance(tree, int) else tables_of(tree[1]) | tables_of(tree[2])


class Model:
    """The tables, and the updates that the tree emits for each record of a batch."""

    def __init__(
        self, tree: Tree, filtered: frozenset[int], *, wants_old: bool, wrong: str = ""
    ) -> None:
        """Begin with empty tables. ``wrong`` names a rule to break, for the canary."""
        self.tree, self.filtered, self.wants_old, self.wrong = tree, filtered, wants_old, wrong
        self.tables: list[dict[str, Arrived]] = [{} for _ in tables_of(tree)]
        #: The rare cases that occurred.
        self.marks: set[str] = set()

    def process(
        self, given: Sequence[tuple[int, Arrived]]
    ) -> list[tuple[int, Arrived, JoinedUpdate | None]]:
        """Return each record with its update, in apply order."""
        return [
            (side, record, self._take(side, record))
            for side, record in sorted(given, key=self._place)
        ]

    def state(self) -> set[tuple[Any, ...]]:
        """Return table, key, value and time of every row."""
        return {
            (side, row.key, row.value, row.time)
            for side, table in enumerate(self.tables)
            for row in table.values()
        }

    def _place(self, one: tuple[int, Arrived]) -> tuple[int, int, int, int]:
        side, record = one
        time = record.time if self.wrong == "order" else record.stream_time
        return time, side, record.partition, record.offset

    def _take(self, side: int, record: Arrived) -> JoinedUpdate | None:
        table = self.tables[side]
        had = table.pop(record.key, None)
        if had is not None and had.time > record.time:
            self.marks.add("a newer record with an earlier time")
        if had is not None and had.partition != record.partition:
            self.marks.add("a key of several partitions")
        if record.value is not None:
            table[record.key] = record
        elif self.wrong == "deletion" and had is not None:
            table[record.key] = had
        old = None if had is None or had.value is None else {side: had.value}
        return self._update(self.tree, side, record, old, wanted=self.wants_old)

    def _update(
        self, part: Tree, side: int, record: Arrived, old: Values | None, *, wanted: bool
    ) -> JoinedUpdate | None:
        if isinstance(part, int):
            row = self.tables[side].get(record.key)
            new = None if row is None or row.value is None else {side: row.value}
            if wanted and side in self.filtered and old is None and new is None:
                self.marks.add("a filter emits no update")
                return None if self.wrong != "filter" else JoinedUpdate(old, new, record.time)
            return JoinedUpdate(old, new, record.time)
        how, left, right = part
        from_left = side in tables_of(left)
        below, other = (left, right) if from_left else (right, left)
        wanted |= how == "outer" or (how == "left" and from_left)
        update = self._update(below, side, record, old, wanted=wanted)
        if update is None:
            return None
        met = self._row(other, record.key)
        if met is None and (how == "inner" or (how == "left" and not from_left)):
            return None
        if met is None and update.old is None and update.new is None:
            self.marks.add(f"{how}: no row existed")
            return None
        alone = how == "outer" or (how == "left" and not from_left)
        values, time = met or ({}, -1)
        if not isinstance(self.tree, int) and part != self.tree and update.new is None and alone:
            self.marks.add("a nested join continues without a match")

        def joined(row: Values | None) -> Values | None:
            if row is None:
                return dict(values) if met is not None and alone else None
            return row | values

        time = update.time if self.wrong == "time" else max(update.time, time)
        return JoinedUpdate(joined(update.old), joined(update.new), time)

    def _row(self, part: Tree, key: str) -> tuple[Values, int] | None:
        """Return the row of a node for a key, and the time of the row."""
        if isinstance(part, int):
            row = self.tables[part].get(key)
            return None if row is None or row.value is None else ({part: row.value}, row.time)
        how, *parts = part
        left, right = (self._row(each, key) for each in parts)
        has_row = {"inner": left and right, "left": left, "outer": left or right}
        if not has_row[how]:
            return None
        rows = [row for row in (left, right) if row is not None]
        values = {table: value for row in rows for table, value in row[0].items()}
        return values, max(time for _, time in rows)
