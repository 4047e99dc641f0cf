"""Rewrite the JSON objects of MAP columns as lists, because Arrow's reader does not read maps.

``{"a": 1, "b": 2}`` becomes ``[{"key":"a","value":1},{"key":"b","value":2}]``. The search for the
objects reads all lines of a block at once. It only finds brackets, commas and colons outside of
strings, and Arrow still checks all values. A line is parsed alone if it has unbalanced brackets,
escaped quotes or backslashes, an escape in a name, blanks before a colon, or a list in a MAP
column.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.decoding.json_lines.arrow_values import types_in
from oriel.pipeline.windows import Flags, Ints

_MARKS = np.isin(np.arange(256), list(b'"{}[]:,'))
_QUOTE, _BACKSLASH, _COLON, _COMMA, _LIST = b'"\\:,['
_OBJECT, _END = b"{}"
#: In ASCII, a square bracket is a brace without this bit.
_BRACE_BIT = 0x20

#: The texts that replace the marks of an object, by their place in it.
_TEXTS = {"open": b'[{"key":', "colon": b',"value":', "comma": b'},{"key":', "close": b"}]"}
_EMPTY_TEXTS = {"open": b"[", "close": b"]"}


def has_map(column_type: pa.DataType) -> bool:
    """Return whether a type contains a map at any depth."""
    return any(map(pa.types.is_map, types_in(column_type)))


def maps_as_lists(
    lines: pa.BinaryArray, skipped: Flags, row_type: pa.StructType
) -> tuple[pa.BinaryArray, Flags]:
    """Rewrite the objects of the MAP columns of ``row_type``.

    Args:
        lines: The lines, without nulls.
        skipped: The lines to leave out.
        row_type: The type of the lines.

    Returns:
        The lines, and which lines were left out, including ``skipped``.
    """
    found = BlockBytes(lines)
    marks = _Marks(found, skipped)
    marks.visit(row_type, marks.openers(1))
    replaced = marks.replacements()
    return _replaced(found, replaced), marks.left_out


class _Marks:
    """The brackets, colons and commas outside of strings.

    Attributes:
        left_out: The lines that are not rewritten.
        positions: The position of each mark.
        characters: The character of each mark.
        depths: The depth of each mark. A bracket has the depth of its content.
    """

    def __init__(self, found: BlockBytes, skipped: Flags) -> None:
        """Find the marks of all lines that can be rewritten."""
        self._data = found.data
        positions = np.flatnonzero(_MARKS[found.data])
        characters = found.data[positions]
        is_quote = characters == _QUOTE
        lines, quotes, quotes_by_line = _by_line(positions, found.starts, is_quote)
        left_out = skipped | (quotes_by_line % 2 == 1)
        left_out[found.line_indexes(_unsafe_escapes(found.data, positions, is_quote))] = True
        is_outside = ~is_quote & (quotes % 2 == 0) & ~left_out[lines]
        self.positions, self.characters = positions[is_outside], characters[is_outside]
        self._lines = lines[is_outside]
        brackets = self.characters | _BRACE_BIT
        self._opens, self._closes = brackets == _OBJECT, brackets == _END
        steps = self._opens.astype(np.int8) - self._closes.astype(np.int8)
        _, depths, open_by_line = _by_line(self.positions, found.starts, steps)
        self.depths = depths + self._closes
        left_out |= open_by_line != 0
        left_out[self._lines[self.depths < 1]] = True
        colons = self.characters == _COLON
        left_out[self._lines[colons & (self._data[self.positions - 1] != _QUOTE)]] = True
        self.left_out = left_out
        self._maps: list[Ints] = []
        self._by_depth: dict[int, Ints] = {}

    def openers(self, depth: int) -> Ints:
        """Return the opening brackets at a depth, in order."""
        if depth not in self._by_depth:
            self._by_depth[depth] = np.flatnonzero(self._opens & (self.depths == depth))
        return self._by_depth[depth]

    def visit(self, column_type: pa.DataType, values: Ints) -> None:
        """Find the objects of maps in ``values``, the opening brackets of values of one type."""
        types = pa.types
        if not len(values) or not has_map(column_type):
            return
        bracket = _LIST if types.is_list(column_type) else _OBJECT
        fits = self.characters[values] == bracket
        if types.is_map(column_type):
            # Arrow's reader would accept a list.
            self.left_out[self._lines[values[~fits]]] = True
        values = values[fits]
        children = self._children(values)
        if types.is_list(column_type):
            self.visit(column_type.value_type, children)
            return
        children = children[self.characters[children - 1] == _COLON]
        if types.is_map(column_type):
            self._maps.append(values)
            self.visit(column_type.item_type, children)
            return
        for field in column_type:
            if has_map(field.type):
                # The string before the colon is the name of the field.
                quoted = json.dumps(field.name, ensure_ascii=False).encode()
                starts = self.positions[children - 1] - len(quoted)
                is_named: Flags = starts >= 0
                for offset, byte in enumerate(quoted):
                    is_named &= self._data[np.maximum(starts, 0) + offset] == byte
                self.visit(field.type, children[is_named])

    def replacements(self) -> Mapping[bytes, Ints]:
        """Return text -> the positions of the marks that it replaces."""
        replaced: dict[bytes, list[Ints]] = {}
        for values in self._maps:
            depths = self.depths[values]
            for depth in np.unique(depths):
                for text, marks in self._in_objects(values[depths == depth], depth):
                    replaced.setdefault(text, []).append(self.positions[marks])
        return {text: np.concatenate(some) for text, some in replaced.items()}

    def _in_objects(self, values: Ints, depth: int) -> Sequence[tuple[bytes, Ints]]:
        """Return the texts for the marks of objects, and leave out lines with invalid objects."""
        inside = np.flatnonzero((self.depths == depth) & ~self._opens)
        openers = self.openers(depth)
        place = np.searchsorted(openers, inside) - 1
        is_value = np.zeros(len(openers), np.bool_)
        is_value[np.searchsorted(openers, values)] = True
        inside, place = inside[is_value[place]], place[is_value[place]]
        characters, closes = self.characters[inside], self._closes[inside]
        # Each object has its marks in a row: colons and commas in turn, and the closing bracket.
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        sizes = np.diff(np.append(starts, len(place)))
        number = np.arange(len(place)) - np.repeat(starts, sizes)
        is_last = np.zeros(len(place), np.bool_)
        is_last[starts + sizes - 1] = True
        is_empty = np.repeat(sizes == 1, sizes)
        expected = np.where(number % 2 == 0, _COLON, _COMMA)
        expected[is_last] = _END
        is_invalid = (characters != expected) | (is_last & ~is_empty & (number % 2 == 0))
        self.left_out[self._lines[inside[is_invalid]]] = True
        first, is_empty_object = openers[place[starts]], sizes == 1
        return [
            (_TEXTS["open"], first[~is_empty_object]),
            (_EMPTY_TEXTS["open"], first[is_empty_object]),
            (_TEXTS["close"], inside[closes & ~is_empty]),
            (_EMPTY_TEXTS["close"], inside[closes & is_empty]),
            (_TEXTS["colon"], inside[characters == _COLON]),
            (_TEXTS["comma"], inside[characters == _COMMA]),
        ]

    def _children(self, values: Ints) -> Ints:
        """Return the opening brackets directly within ``values``, at any depth."""
        children = [np.zeros(0, np.int64)]
        for depth in np.unique(self.depths[values]).tolist():
            inner, outer = self.openers(depth + 1), self.openers(depth)
            is_value = np.zeros(len(outer), np.bool_)
            is_value[np.searchsorted(outer, values[self.depths[values] == depth])] = True
            children.append(inner[is_value[np.searchsorted(outer, inner) - 1]])
        return np.concatenate(children)


def _unsafe_escapes(data: Any, marks: Ints, is_quote: Flags) -> Ints:
    """Return the positions of backslashes in names, or before a quote or another backslash."""
    backslashes = np.flatnonzero(data[:-1] == _BACKSLASH)
    following = data[backslashes + 1]
    is_unsafe = (following == _QUOTE) | (following == _BACKSLASH)
    # A name ends at the first quote after the backslash, and a colon follows it.
    quotes = marks[is_quote]
    ends = np.searchsorted(quotes, backslashes)
    has_end = ends < len(quotes)
    after = np.minimum(quotes[ends[has_end]] + 1, len(data) - 1)
    is_unsafe[has_end] |= data[after] == _COLON
    unsafe: Ints = backslashes[is_unsafe]
    return unsafe


def _by_line(positions: Ints, starts: Ints, steps: Any) -> tuple[Any, Any, Any]:
    """Return the line of each position, the sum of steps up to it in its line, and sums by line."""
    first = np.append(np.searchsorted(positions, starts), len(positions))
    counts = np.diff(first)
    lines = np.repeat(np.arange(len(starts), dtype=np.int32), counts)
    sums = np.zeros(len(steps) + 1, np.int32)
    np.cumsum(steps, out=sums[1:])
    before = sums[first]
    return lines, sums[1:] - np.repeat(before[:-1], counts), np.diff(before)


def _replaced(found: BlockBytes, replaced: Mapping[bytes, Ints]) -> pa.BinaryArray:
    """Return the lines with a text at each of the positions."""
    if not replaced:
        return found.lines
    positions = np.concatenate(list(replaced.values()))
    added = np.repeat(
        [len(text) - 1 for text in replaced], [len(each) for each in replaced.values()]
    )
    order = np.argsort(positions)
    positions, moved = positions[order], np.concatenate([[0], np.cumsum(added[order])])
    data = np.empty(len(found.data) + moved[-1], np.uint8)
    is_kept = np.ones(len(data), np.bool_)
    texts = []
    for text, marks in replaced.items():
        starts = marks + moved[np.searchsorted(positions, marks)]
        texts.append((text, starts))
        for place in range(1, len(text)):
            is_kept[starts + place] = False
    data[is_kept] = found.data
    for text, starts in texts:
        for place, byte in enumerate(text):
            data[starts + place] = byte
    bounds = np.append(found.starts, len(found.data)).astype(np.int32)
    bounds += moved[np.searchsorted(positions, bounds)].astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(found.starts), buffers)
