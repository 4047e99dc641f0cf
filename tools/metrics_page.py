"""Write the page of all metrics from the code that exports them.

    python -m tools.metrics_page

A test compares the committed page with ``page()``.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from prometheus_client.core import Metric

from oriel.app.routes import index_metrics
from oriel.app.telemetry import Metrics
from oriel.storage.monitoring import metric_families, overview

if TYPE_CHECKING:
    from oriel.app.reads import StoreCatalog

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

#: prometheus_client knows the labels of a family of requests only once it has a sample.
_REQUEST_LABELS = {
    "oriel_http_request_seconds": ("operation", "store"),
    "oriel_http_errors": ("operation", "store", "status"),
}
_FLAGS = {
    "oriel_pipeline_up", "oriel_tailer_up", "oriel_index_state", "oriel_partition_idle",
    "oriel_partition_holds_windows_open",
}  # fmt: skip

_TEMPLATE = Path(__file__).with_suffix(".template")


def page() -> str:
    """Return the whole page."""
    lines = [_TEMPLATE.read_text(encoding="utf-8")]
    for title, metrics in _groups().items():
        lines += [f"## {title}", "", "| metric | type | labels | unit | meaning |"]
        lines += ["|---|---|---|---|---|", *map(_row, metrics), ""]
    return "\n".join(lines).rstrip() + "\n"


def _groups() -> dict[str, list[Metric]]:
    """Return the families of an empty data directory, which have names and texts but no values."""
    with TemporaryDirectory() as data:
        groups = metric_families(overview(Path(data)))
    groups["Indexes"] += index_metrics(cast("StoreCatalog", _NoStores()))
    return groups | {"Requests": [*Metrics(lambda _name: False).families()]}


class _NoStores:
    """A catalog without stores."""

    def names(self) -> Sequence[str]:
        """Return nothing."""
        return ()


def _row(metric: Metric) -> str:
    """Return the row of a family, with the name of its samples."""
    name = metric.name + "_total" * (metric.type == "counter")
    labels = ", ".join(f"`{label}`" for label in _labels(metric))
    text = re.sub(r"(--[a-z-]+[a-z]|\b_count\b|\b[a-z]+_[a-z]+\b)", r"`\1`", metric.documentation)
    return f"| `{name}` | {metric.type} | {labels} | {_unit(metric.name)} | {text} |"


def _labels(metric: Metric) -> Sequence[str]:
    """Return the labels of a family. Families of requests have them in their class only."""
    if metric.name in _REQUEST_LABELS:
        return _REQUEST_LABELS[metric.name]
    return tuple(getattr(metric, "_labelnames", ()))


def _unit(name: str) -> str:
    """Return the unit that the end of a name says."""
    if name.endswith("_time_seconds"):
        return "s since 1970"
    for end, unit in {"_seconds": "s", "_bytes": "bytes", "_offset": "offset"}.items():
        if name.endswith(end):
            return unit
    if name == "oriel_partition_lag":
        return "records or bytes"
    return "0 or 1" if name in _FLAGS else ""


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
