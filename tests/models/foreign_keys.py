"""Slow reference models of foreign-key joins, computed record by record from the definition.

Pure Python. A joined row has the key of the left row. It combines the current left record of that
key with the current right record of the key that the left record references. The module
``tests.models.joins`` defines which record of a key is current. The row has the greater time of
both records, even if the right record is a tombstone.

The function ``joined_by_foreign_key`` returns the rows. ``Updates`` returns the row after each
record.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.models.joins import Arrived, Logs, counting

#: Left value, right value, time.
Row = tuple[str, str | None, int]


def foreign_key_of(value: str) -> str | None:
    """Return ``KEY`` of the left value ``NAME>KEY``, or None if the value is ``NAME>``."""
    return value.partition(">")[2] or None


def joined_by_foreign_key(left_logs: Logs, right_logs: Logs, how: str) -> dict[str, Row]:
    """Return the joined row of each left key that has one."""
    right = counting(right_logs)
    rows: dict[str, Row] = {}
    for key, record in counting(left_logs).items():
        if record.value is None:
            continue
        named = foreign_key_of(record.value)
        found = None if named is None else right.get(named)
        value = None if found is None else found.value
        if how == "left" or value is not None:
            time = record.time if found is None else max(record.time, found.time)
            rows[key] = (record.value, value, time)
    return rows


@dataclass(frozen=True)
class RowUpdate:
    """The update that a record causes for a left key: the joined row, or two None values.

    ``side`` is the input of the ``cause``: 0 for a left record, 1 for a right record.
    """

    key: str
    time: int
    left: str | None
    right: str | None
    side: int
    cause: Arrived


class Updates:
    """Kafka Streams' update rules for foreign-key joins, record by record.

    ``wrong`` names a rule to break, for the canary.

    A left record emits an update if its key has or had a row. An inner join emits none if the new
    row references no existing right row, and the row before referenced nothing or the same key. A
    right record emits an update for each left row that references its key, in the order of the left
    keys' bytes.

    An update for a left record has the greater time of the left record and the right row. If the
    new left row references nothing and the join is inner, the right row of the previous reference
    counts instead. An update for a right record has the time of the right record.
    """

    def __init__(self, how: str, *, filters_right: bool = False, wrong: str = "") -> None:
        """Begin with empty tables.

        With ``filters_right``, a tombstone for a key without a right row emits nothing.
        """
        self.how, self.filters_right, self.wrong = how, filters_right, wrong
        self.rows: tuple[dict[str, Arrived], dict[str, Arrived]] = ({}, {})
        #: The rare cases that occurred.
        self.marks: set[str] = set()

    def process(self, given: Sequence[tuple[int, Arrived]]) -> list[RowUpdate]:
        """Return the updates in apply order."""

        def place(one: tuple[int, Arrived]) -> tuple[int, int, int, int]:
            side, record = one
            first = -side if self.wrong == "sides" else side
            return record.stream_time, first, record.partition, record.offset

        updates = []
        for side, record in sorted(given, key=place):
            updates += self._right(record) if side else self._left(record)
        return updates

    def _left(self, record: Arrived) -> list[RowUpdate]:
        rows, right_rows = self.rows
        old = rows.pop(record.key, None)
        if record.value is not None:
            rows[record.key] = record
        named = foreign_key_of(old.value) if old and old.value else None
        names = foreign_key_of(record.value) if record.value else None
        met = right_rows.get(names or "")
        time = max(record.time, met.time if met else -1)
        if old is None and record.value is None:
            return []
        if self.how == "inner":
            if names is None:
                if named is None:
                    return []
                before = right_rows.get(named)
                time = max(record.time, before.time if before else -1)
                self.marks.add("no reference any more")
            elif met is None:
                if named is None or (named == names and self.wrong != "same"):
                    self.marks.add("no right row, as before")
                    return []
                self.marks.add("reference to a missing row")
        if named and names and named != names:
            self.marks.add("reference to another key")
        if self.how == "inner" and met is None:
            return [RowUpdate(record.key, time, None, None, 0, record)]
        return [RowUpdate(record.key, time, record.value, met.value if met else None, 0, record)]

    def _right(self, record: Arrived) -> list[RowUpdate]:
        rows, right_rows = self.rows
        old = right_rows.pop(record.key, None)
        if record.value is not None:
            right_rows[record.key] = record
        if old is None and record.value is None:
            self.marks.add("deletion of a missing row")
            if self.filters_right:
                return []
        hear = [
            left
            for left in sorted(rows.values(), key=lambda row: row.key.encode())
            if left.value and foreign_key_of(left.value) == record.key
        ]
        if len(hear) > 1:
            self.marks.add("several subscribers")
        if any(left.time > record.time for left in hear):
            self.marks.add("an earlier right record")
        is_deleted = self.how == "inner" and record.value is None
        return [
            RowUpdate(
                left.key,
                max(record.time, left.time) if self.wrong == "time" else record.time,
                None if is_deleted else left.value,
                record.value,
                1,
                record,
            )
            for left in hear
        ]
