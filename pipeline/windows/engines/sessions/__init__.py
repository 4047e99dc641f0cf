"""Door of oriel.pipeline.windows.engines.sessions."""

from oriel.pipeline.windows.engines.sessions.session_folds import SessionFoldEngine
from oriel.pipeline.windows.engines.sessions.sessions import SessionWindowEngine

__all__ = [
    "SessionFoldEngine",
    "SessionWindowEngine",
]
