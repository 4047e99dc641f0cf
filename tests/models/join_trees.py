"""Slow reference model of chained stream joins: every result, computed from the whole logs.

Pure Python, quadratic, and without code of the engines. The model has no batches, and it ignores
the stream time of other partitions. Because all logs have ended, a record is unmatched if no record
in time matches it. A row of a stream is a record, a flattened record, or a join result. The stream
time of a record is the stream time of its partition when the record arrives. A join result has the
greatest stream time of its records.

    left late    l.t + max(after, 0) + G < l.st
    right late   r.t + max(before, 0) + G < r.st
    pair         one key, neither late, r.t in [l.t - before, l.t + after]
    alone        in time, and no pair
    result       the greater time of its rows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Key, time, and the value: one string, or the strings of all flattened records.
Record = tuple[str, int, Sequence[str]]
Logs = Mapping[int, Sequence[Record]]


@dataclass(frozen=True)
class Leaf:
    """A topic with one value ``column``. If ``flat``, each record is flattened."""

    topic: str
    flat: bool = False
    column: str = ""


@dataclass(frozen=True)
class Merged:
    """Several topics with one column, merged into one stream."""

    leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class Node:
    """A join of streams.

    Results with a string that contains ``without`` are dropped, unless ``without`` is empty. If
    ``endings`` is not empty, each remaining result is flattened into one record per ending. The
    ending is appended to the first column's string.
    """

    how: str
    before: int
    after: int
    grace: int
    left: "Tree"
    right: "Tree"
    without: str = ""
    endings: tuple[str, ...] = ()


Tree = Node | Merged | Leaf


@dataclass(frozen=True)
class Row:
    """A row of a stream: the string and the source position of each column, or None."""

    key: str
    time: int
    stream_time: int
    texts: tuple[str | None, ...]
    places: tuple[str | None, ...]

    @property
    def numbers(self) -> list[list[int]]:
        """Return partition, offset and, if flattened, the index of each source position."""
        return [[int(part) for part in place.split("/")[1:]] for place in self.places if place]


@dataclass
class Late:
    """How many records, flattened records and join results were late for a join.

    Late records of merged streams do not count, because a join can read such a stream several
    times.
    """

    records: int = 0
    elements: int = 0
    results: int = 0


@dataclass
class Model:
    """Joins the logs of topics."""

    logs: Mapping[str, Logs]
    late: Late = field(default_factory=Late)

    def rows(self, tree: Tree) -> list[Row]:
        """Return the rows of a stream."""
        if isinstance(tree, Leaf):
            return list(_read(tree, self.logs[tree.topic]))
        if isinstance(tree, Merged):
            return [row for leaf in tree.leaves for row in self.rows(leaf)]
        left = self._in_time(tree.left, max(tree.after, 0) + tree.grace)
        right = self._in_time(tree.right, max(tree.before, 0) + tree.grace)
        pairs = [
            (one, other)
            for one in left
            for other in right
            if one.key == other.key and -tree.before <= other.time - one.time <= tree.after
        ]
        results = [_both(*pair) for pair in pairs]
        if tree.how in {"left", "outer"}:
            matched = {one for one, _ in pairs}
            none = (None,) * columns_in(tree.right)
            results += [_alone(one, (), none) for one in left if one not in matched]
        if tree.how == "outer":
            matched = {other for _, other in pairs}
            none = (None,) * columns_in(tree.left)
            results += [_alone(other, none, ()) for other in right if other not in matched]
        left_in = [
            result
            for result in results
            if not tree.without or not any(tree.without in (text or "") for text in result.texts)
        ]
        if not tree.endings:
            return left_in
        return [
            _element(result, number, ending)
            for result in left_in
            for number, ending in enumerate(tree.endings)
        ]

    def _in_time(self, tree: Tree, lag: int) -> list[Row]:
        rows = self.rows(tree)
        in_time = [row for row in rows if row.time + lag >= row.stream_time]
        number = len(rows) - len(in_time)
        if isinstance(tree, Node):
            self.late.results += number
        elif isinstance(tree, Leaf) and tree.flat:
            self.late.elements += number
        elif isinstance(tree, Leaf):
            self.late.records += number
        return in_time


def columns_in(tree: Tree) -> int:
    """Return how many columns a stream has."""
    return columns_in(tree.left) + columns_in(tree.right) if isinstance(tree, Node) else 1


def _read(leaf: Leaf, logs: Logs) -> list[Row]:
    rows = []
    for partition, log in logs.items():
        stream_time = -1
        for offset, (key, time, texts) in enumerate(log):
            if texts:
                stream_time = max(stream_time, time)
            place = f"{leaf.topic}/{partition}/{offset}"
            for number, text in enumerate(texts):
                within = f"{place}/{number}" if leaf.flat else place
                rows.append(Row(key, time, stream_time, (text,), (within,)))
    return rows


def _both(left: Row, right: Row) -> Row:
    return Row(
        left.key,
        max(left.time, right.time),
        max(left.stream_time, right.stream_time),
        left.texts + right.texts,
        left.places + right.places,
    )


def _element(row: Row, number: int, ending: str) -> Row:
    first, *others = row.texts
    last = max(place for place, there in enumerate(row.places) if there)
    place = f"{row.places[last]}/{number}"
    return replace(
        row,
        texts=(None if first is None else first + ending, *others),
        places=(*row.places[:last], place, *row.places[last + 1 :]),
    )


def _alone(row: Row, before: tuple[None, ...], after: tuple[None, ...]) -> Row:
    texts, places = (*before, *row.texts, *after), (*before, *row.places, *after)
    return Row(row.key, row.time, row.stream_time, texts, places)
