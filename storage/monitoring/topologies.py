"""The topologies that pipelines run, for other processes.

    DATA/topologies/<application>.json     replaced at each start of a pipeline

The files are informational. A pipeline does not read them.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from oriel.storage.drawing import Drawing
from oriel.storage.files import current_files, replace_file, with_digest, without_digest
from oriel.storage.layout import DataLayout

_SUFFIX = ".json"


@dataclass(frozen=True)
class RecordedTopology:
    """The topology of a pipeline.

    Attributes:
        application: The name of the pipeline.
        started_ms: When the pipeline started with this topology.
        drawing: The topology.
    """

    application: str
    started_ms: int
    drawing: Drawing


def record_topology(layout: DataLayout, application: str, drawing: Drawing) -> None:
    """Replace the recorded topology of a pipeline."""
    content = {
        "application": application,
        "started_ms": time.time_ns() // 1_000_000,
        **asdict(drawing),
    }
    current_files().make_directory(layout.topologies, sync=False)
    path = layout.topologies / f"{application}{_SUFFIX}"
    replace_file(path, with_digest(orjson.dumps(content)), sync=False)


def recorded_topologies(layout: DataLayout) -> Iterator[RecordedTopology]:
    """Yield the topologies of a data directory by name, without damaged files."""
    for name in sorted(current_files().names(layout.topologies)):
        if not name.endswith(_SUFFIX) or name.startswith("."):
            continue
        try:
            content = without_digest(current_files().read(layout.topologies / name))
            fields: dict[str, Any] = orjson.loads(content)
            drawing = Drawing.from_fields(fields)
            yield RecordedTopology(fields["application"], fields["started_ms"], drawing)
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            continue
