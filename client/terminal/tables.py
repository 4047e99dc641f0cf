"""Write text for terminals: tables, sparklines, times."""

from collections.abc import Iterable, Sequence

from oriel.client.records import Row, StoreSummary, Version, Window, datetime_of

_BARS = "▁▂▃▄▅▆▇█"
_CELL_MAX = 60


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a header line. Numbers are right-aligned, None becomes a dash."""
    body = [[cell(value) for value in row] for row in rows]
    at_right = [bool(body) and all(_is_number(row[at]) for row in body) for at in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, at_right, strict=True)
        ).rstrip()
        for line in [list(head), *body]
    ]
    return "\n".join(lines)


def cell(value: object) -> str:
    """Return a value as short text, without control characters of the terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = printable(str(value))
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def printable(text: str) -> str:
    r"""Return the text with escaped unprintable characters, for example ``\x1b``."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def sparklines(windows: Sequence[Window]) -> list[str]:
    """Return one line per numeric aggregate, from the oldest window to the newest.

    ``windows`` has the newest window first. A null value becomes a gap.
    """
    if len(windows) < 2:
        return []
    names = list(windows[0])
    width = max(map(len, names), default=0)
    lines = []
    for name in names:
        values = [window[name] for window in reversed(windows)]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if numbers and len(numbers) + values.count(None) == len(values):
            least, greatest = min(numbers), max(numbers)
            bars = "".join(" " if v is None else _bar(v, least, greatest) for v in values)
            lines.append(f"{name.ljust(width)}  {bars}  {cell(least)} … {cell(greatest)}")
    return lines


def time_of(time_ms: int | None) -> str | None:
    """Return a time in UTC, with milliseconds only if they are not 0."""
    if time_ms is None:
        return None
    try:
        time = datetime_of(time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    digits = "milliseconds" if time_ms % 1000 else "seconds"
    return time.replace(tzinfo=None).isoformat(" ", digits)


def windows_table(windows: Sequence[Window]) -> str:
    """Return windows, one per line, and their sparklines."""
    if not windows:
        return ""
    names = list(windows[0])
    rows = [
        [time_of(w.start_ms), time_of(w.end_ms), *(w[name] for name in names), w.final]
        for w in windows
    ]
    text = table(["start (UTC)", "end (UTC)", *map(printable, names), "final"], rows)
    return "\n".join([text, *_after_a_gap(sparklines(windows))])


def versions_table(versions: Sequence[Version]) -> str:
    """Return versions of a key, one per line."""
    names = list(versions[0])
    rows = [
        [time_of(one.valid_from_ms), time_of(one.valid_to_ms), *(one[name] for name in names)]
        for one in versions
    ]
    return table(["valid from (UTC)", "valid to (UTC)", *map(printable, names)], rows)


def items_of_keys_table(items: Sequence[Window | Row]) -> str:
    """Return windows or rows of many keys, one per line."""
    names = list(items[0])
    head = ["key", *map(printable, names), "newest record (UTC)"]
    rows = [
        [item.key, *(item[name] for name in names), time_of(item.timestamp_ms)] for item in items
    ]
    if not isinstance(items[0], Window):
        return table(head, rows)
    windows = [item for item in items if isinstance(item, Window)]
    times = [[time_of(w.start_ms), time_of(w.end_ms), w.final] for w in windows]
    return table(
        [*head, "start (UTC)", "end (UTC)", "final"],
        [[*row, *of_window] for row, of_window in zip(rows, times, strict=True)],
    )


def stores_table(stores: Sequence[StoreSummary]) -> str:
    """Return stores, one per line."""
    rows = [
        [
            store.name,
            store.kind if store.ready else "not ready",
            ", ".join(store.aggregates),
            None if store.position is None else store.position.version,
            time_of(store.close_ms),
        ]
        for store in stores
    ]
    return table(["store", "windows", "aggregates", "version", "final up to (UTC)"], rows)


def _bar(value: float, least: float, greatest: float) -> str:
    # Halves keep the difference of two large doubles finite.
    span = greatest / 2 - least / 2
    share = (value / 2 - least / 2) / span if span else 0.0
    return _BARS[round(share * (len(_BARS) - 1))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True


def _after_a_gap(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []
