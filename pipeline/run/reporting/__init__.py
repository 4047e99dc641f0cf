"""The reports of a run: log lines, a summary, and a status file.

Input: the committed batches of a run, and the ends of its log. Output: log lines about batches and
dead letters on stderr, the summary as JSON on stdout (``Progress``), and the status file in the
checkpoint, which other processes read (``RunReport``).
"""

from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.run.reporting.run_report import RunReport, note_rebuilt

__all__ = ["Progress", "RunReport", "note_rebuilt"]
