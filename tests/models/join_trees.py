"""The slow model of joins behind joins of streams: every result that ever comes, from whole logs.

Pure Python, quadratic, and sharing nothing with the engines. It knows no batches and no clocks of
other partitions: when all logs have ended, a record is alone if nothing in time pairs with it. A
row is what a stream has: a record, an element, or a result of a join. Its stream time is that of
its record's own partition when it came, of a result the greatest of its records'.

    left late    l.t + max(after, 0) + G < l.st
    right late   r.t + max(before, 0) + G < r.st
    pair         one key, neither late, r.t in [l.t - before, l.t + after]
    alone        in time, and no pair
    result       the greater time of its rows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Key, time, value: one text, or in a flattened stream the texts of the elements.
Record = tuple[str, int, Sequence[str]]
Logs = Mapping[int, Sequence[Record]]


@dataclass(frozen=True)
class Leaf:
    """A topic, whose value is one ``column``; ``flat``: its records are taken apart."""

    topic: str
    flat: bool = False
    column: str = ""


@dataclass(frozen=True)
class Merged:
    """Several topics with one column as one stream."""

    leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class Node:
    """A join of streams; results whose texts hold ``without`` (empty: none) are filtered out.

    Each of the others becomes an element for each of ``endings``, if there are any: the first
    column's text with that behind it.
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
    """A row of a stream: for each column the text and its place, None where it has none."""

    key: str
    time: int
    stream_time: int
    texts: tuple[str | None, ...]
    places: tuple[str | None, ...]

    @property
    def numbers(self) -> list[list[int]]:
        """Partition, offset and perhaps element of each place that it has."""
        return [[int(part) for part in place.split("/")[1:]] for place in self.places if place]


@dataclass
class Late:
    """How many records, elements, and results of joins came too late for a join.

    (Not of merged streams, which a join may have to read for each stream on the other side.)
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
        """The rows of a stream."""
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
    """How many columns a stream has."""
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


def _alone(row: Row, before: tuple[None, ...], behind: tuple[None, ...]) -> Row:
    texts, places = (*before, *row.texts, *behind), (*before, *row.places, *behind)
    return Row(row.key, row.time, row.stream_time, texts, places)
