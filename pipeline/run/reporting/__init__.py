"""The reports of a run: progress and rejected records on stderr, and its status in a file."""

from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.run.reporting.run_report import RunReport, note_rebuilt

__all__ = [
    "Progress",
    "RunReport",
    "note_rebuilt",
]
