"""Draw SVG pictures of rows on one axis: records as marks, windows and table rows as bars.

The pictures have one file per theme. The page shows the file of the reader's theme.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from tools.how_it_works import THEMES, Theme

#: Widths in pixels: the labels, the axis with the marks and bars, and the notes.
LABEL_WIDTH, PLOT_WIDTH, NOTE_WIDTH = 182, 420, 230
_MARGIN, _ROW_HEIGHT, _AXIS_HEIGHT, _BAR_HEIGHT = 10, 38, 40, 26
TEXT_SIZE = 14
#: A safe width of a character in a sans-serif font, as a share of its size.
_CHARACTER_WIDTH = 0.58


class Mark(NamedTuple):
    """A record at its place on the axis. A mark that is not used is hollow."""

    at: float
    text: str
    is_used: bool = True


class Bar(NamedTuple):
    """A window, a row of a table or a range, from one place on the axis to another."""

    start: float
    end: float
    text: str = ""
    is_ours: bool = True


class Row(NamedTuple):
    """A row: its label, its bars and marks, a vertical line (if any), and a note at the right."""

    label: str
    bars: Sequence[Bar] = ()
    marks: Sequence[Mark] = ()
    line: float | None = None
    note: str = ""


class RowPicture(NamedTuple):
    """A picture. ``ticks`` are places on the axis with their texts."""

    name: str
    title: str
    description: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[Row]

    def x(self, at: float) -> float:
        """Return the pixel of a place on the axis."""
        share = (at - self.low) / (self.high - self.low)
        return round(_MARGIN + LABEL_WIDTH + share * PLOT_WIDTH, 1)

    def too_wide(self) -> list[str]:
        """Return the texts that do not fit the space that they have."""
        spaces = [(row.label, float(LABEL_WIDTH)) for row in self.rows]
        spaces += [(row.note, float(NOTE_WIDTH)) for row in self.rows]
        spaces += [
            (bar.text, self.x(bar.end) - self.x(bar.start)) for row in self.rows for bar in row.bars
        ]
        return [text for text, width in spaces if len(text) * TEXT_SIZE * _CHARACTER_WIDTH > width]


def files_of(pictures: Sequence[RowPicture]) -> dict[str, str]:
    """Return the content of each file by its name."""
    return {
        f"{picture.name}-{name}.svg": "\n".join(_lines(picture, theme)) + "\n"
        for picture in pictures
        for name, theme in THEMES.items()
    }


def _lines(picture: RowPicture, theme: Theme) -> Iterator[str]:
    width = 2 * _MARGIN + LABEL_WIDTH + PLOT_WIDTH + NOTE_WIDTH
    height = _AXIS_HEIGHT + _ROW_HEIGHT * len(picture.rows) + _MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{TEXT_SIZE}">'
    )
    yield f"<title>{escape(picture.title)}</title><desc>{escape(picture.description)}</desc>"
    bottom = height - _MARGIN
    for at, text in picture.ticks:
        x = picture.x(at)
        yield (
            f'<line x1="{x}" y1="{_AXIS_HEIGHT - 12}" x2="{x}" y2="{bottom}" '
            f'stroke="{theme.border}" stroke-width="0.5" stroke-dasharray="2 3"/>'
        )
        yield _text(x, _AXIS_HEIGHT - 18, text, theme.note, "middle")
    for index, row in enumerate(picture.rows):
        yield from _row(picture, row, _AXIS_HEIGHT + _ROW_HEIGHT * index, theme)
    yield "</svg>"


def _row(picture: RowPicture, row: Row, top: int, theme: Theme) -> Iterator[str]:
    middle = top + _ROW_HEIGHT // 2
    yield _text(_MARGIN, middle + 5, row.label, theme.text, "start")
    for bar in row.bars:
        left, right = picture.x(bar.start), picture.x(bar.end)
        yield (
            f'<rect x="{left}" y="{middle - _BAR_HEIGHT // 2}" width="{round(right - left, 1)}" '
            f'height="{_BAR_HEIGHT}" rx="4" fill="{theme.ours if bar.is_ours else theme.box}" '
            f'stroke="{theme.border}"/>'
        )
        if bar.text:
            yield _text(round((left + right) / 2, 1), middle + 5, bar.text, theme.text, "middle")
    if row.line is not None:
        x = picture.x(row.line)
        yield (
            f'<line x1="{x}" y1="{top + 3}" x2="{x}" y2="{top + _ROW_HEIGHT - 3}" '
            f'stroke="{theme.arrow}" stroke-width="2"/>'
        )
    for mark in row.marks:
        x = picture.x(mark.at)
        yield (
            f'<circle cx="{x}" cy="{middle}" r="6" stroke="{theme.text}" stroke-width="1.5" '
            f'fill="{theme.text if mark.is_used else theme.box}"/>'
        )
        yield _text(round(x + 10, 1), middle + 5, mark.text, theme.text, "start")
    if row.note:
        yield _text(
            _MARGIN + LABEL_WIDTH + PLOT_WIDTH + 12, middle + 5, row.note, theme.note, "start"
        )


def _text(x: float, y: int, text: str, color: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
