"""Write the picture of README.md and docs/index.md: ``python -m tools.how_it_works``.

The picture shows how records become results. It is one SVG file per theme in docs/pictures/. A test
compares the committed files with ``pictures()``.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

_WIDTH, _HEIGHT = 950, 264
#: The size of a box, and of the text in it.
BOX_WIDTH, _BOX_HEIGHT = 150, 64
TITLE_SIZE, NOTE_SIZE = 16, 12

_DESCRIPTION = (
    "Records go from Kafka through the pipeline into Delta tables. The service reads the tables "
    "and returns windows over HTTP and to the dashboard. SQL engines read the tables directly."
)


class Theme(NamedTuple):
    """The colors of a picture."""

    box: str
    border: str
    ours: str
    text: str
    note: str
    arrow: str


THEMES: Mapping[str, Theme] = {
    "light": Theme("#ffffff", "#8c959f", "#ddf4ff", "#1f2328", "#59636e", "#59636e"),
    "dark": Theme("#161b22", "#6e7681", "#0c2d4d", "#e6edf3", "#9da7b1", "#9da7b1"),
}


class Box(NamedTuple):
    """A box of the picture: its upper left corner, and whether it is a process of Oriel."""

    title: str
    note: str
    x: int
    y: int
    is_ours: bool = False

    @property
    def left(self) -> tuple[int, int]:
        """The middle of the left edge."""
        return self.x, self.y + _BOX_HEIGHT // 2

    @property
    def right(self) -> tuple[int, int]:
        """The middle of the right edge."""
        return self.x + BOX_WIDTH, self.y + _BOX_HEIGHT // 2

    @property
    def top(self) -> tuple[int, int]:
        """The middle of the upper edge."""
        return self.x + BOX_WIDTH // 2, self.y

    @property
    def bottom(self) -> tuple[int, int]:
        """The middle of the lower edge."""
        return self.x + BOX_WIDTH // 2, self.y + _BOX_HEIGHT


_KAFKA = Box("Kafka", "or an event log", 20, 60)
_PIPELINE = Box("Pipeline", "oriel run, on Spark", 210, 60, is_ours=True)
_DELTA = Box("Delta tables", "one per store", 400, 60)
_SERVICE = Box("Service", "oriel serve", 590, 60, is_ours=True)
_HTTP = Box("HTTP", "reads and changes", 780, 16)
_DASHBOARD = Box("Dashboard", "in your browser", 780, 104)
_SQL = Box("SQL", "Spark, DuckDB, Polars", 400, 180)

BOXES = (_KAFKA, _PIPELINE, _DELTA, _SERVICE, _HTTP, _DASHBOARD, _SQL)
_ARROWS = (
    (_KAFKA.right, _PIPELINE.left),
    (_PIPELINE.right, _DELTA.left),
    (_DELTA.right, _SERVICE.left),
    (_SERVICE.right, _HTTP.left),
    (_SERVICE.right, _DASHBOARD.left),
    (_DELTA.bottom, _SQL.top),
)


def main() -> int:
    """Write the committed files."""
    for path, content in pictures().items():
        path.write_text(content, encoding="utf-8")
    return 0


def pictures() -> dict[Path, str]:
    """Return each file with its content."""
    return {
        _PICTURES / f"how-it-works-{name}.svg": picture(theme) for name, theme in THEMES.items()
    }


def picture(theme: Theme) -> str:
    """Return the picture in one theme, as SVG."""
    return "\n".join(_lines(theme)) + "\n"


def _lines(theme: Theme) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" text-anchor="middle">'
    )
    yield f"<title>How Oriel works</title><desc>{escape(_DESCRIPTION)}</desc>"
    yield (
        '<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{theme.arrow}"/></marker>'
    )
    for (x1, y1), (x2, y2) in _ARROWS:
        # A small space between an arrow and its boxes.
        dx, dy = (0, 4) if x1 == x2 else (4, 0)
        yield (
            f'<line x1="{x1 + dx}" y1="{y1 + dy}" x2="{x2 - dx}" y2="{y2 - dy}" '
            f'stroke="{theme.arrow}" stroke-width="2" marker-end="url(#end)"/>'
        )
    for box in BOXES:
        middle = box.x + BOX_WIDTH // 2
        yield (
            f'<rect x="{box.x}" y="{box.y}" width="{BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="8" '
            f'fill="{theme.ours if box.is_ours else theme.box}" stroke="{theme.border}"/>'
        )
        yield (
            f'<text x="{middle}" y="{box.y + 28}" font-size="{TITLE_SIZE}" font-weight="600" '
            f'fill="{theme.text}">{escape(box.title)}</text>'
        )
        yield (
            f'<text x="{middle}" y="{box.y + 48}" font-size="{NOTE_SIZE}" '
            f'fill="{theme.note}">{escape(box.note)}</text>'
        )
    yield "</svg>"


if __name__ == "__main__":
    sys.exit(main())
