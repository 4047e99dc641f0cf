"""The slow model of tables joined by a foreign key: record by record, from the definition.

Pure Python. A joined row has the key of the left row; it is of the left row that counts for that
key, and of the right row that counts for the key that the left one names. Which record counts,
``tests.slow_joins`` says. Its time is the greater of both records', a right deletion's too.
"""

from tests.slow_joins import Logs, counting

#: Left value, right value, time.
Row = tuple[str, str | None, int]


def foreign_key_of(value: str) -> str | None:
    """What a left value ``NAME>KEY`` names; ``NAME>`` names nothing."""
    return value.partition(">")[2] or None


def joined_by_foreign_key(left_logs: Logs, right_logs: Logs, how: str) -> dict[str, Row]:
    """The row of each left key that has one."""
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
