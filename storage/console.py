"""What processes say on stderr: lines for people or, for programs, one JSON object a line.

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "application": "flights",
     "event": "batch", "message": "batch 7: ...", "batch": 7, "stores": {...}}

``time``, ``level``, ``event`` and ``message`` are in each line; what is said through ``logging``,
too, has the module as its ``event``, and an error that nobody expected its ``trace``.
"""

import argparse
import logging
import sys
import threading
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import orjson

LOG_FORMATS = ("text", "json")

#: The names of our modules begin with it, and events don't.
_PACKAGE = "oriel."


@dataclass
class _Console:
    """How this process speaks: as JSON with these fields in each line, or as text."""

    as_json: bool = False
    fields: dict[str, str] = field(default_factory=dict)


_console = _Console()


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--log-format`` to a command line."""
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default="text",
        help="write log lines to stderr as text, or as one JSON object per line. Default: text",
    )  # fmt: skip


def set_up_console(
    log_format: str, *, level: int = logging.WARNING, text: str = "%(message)s", **fields: str
) -> None:
    """Let this process speak in one of ``LOG_FORMATS``, with ``fields`` in each JSON line.

    ``text`` is the format of what comes through ``logging`` from ``level`` on, for people.
    """
    _console.as_json = log_format == "json"
    _console.fields = fields
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Handler):
            root.removeHandler(handler)
    root.addHandler(_Handler(text))
    root.setLevel(level)
    if _console.as_json:
        sys.excepthook = _unexpected
        threading.excepthook = _unexpected_in_thread


def say(event: str, line: str, *, level: str = "info", **fields: Any) -> None:
    """Say ``line``; a program also gets the ``event`` that it tells of, and its ``fields``."""
    sys.stderr.write(f"{_json(level, event, line, fields) if _console.as_json else line}\n")
    sys.stderr.flush()


def one_line(text: str) -> str:
    """Escape line breaks, control characters and other characters that cannot be printed.

    A client chooses parts of some log lines. Without this, it could write lines of its own.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _json(level: str, event: str, line: str, fields: dict[str, Any]) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = {"time": now, "level": level, **_console.fields, "event": event, "message": line}
    return orjson.dumps({**said, **fields}, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class _Handler(logging.StreamHandler[Any]):
    """What comes through ``logging``, on the stderr of the moment."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(text))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        if not _console.as_json:
            return super().format(record)
        fields = {}
        if record.exc_info:
            fields["trace"] = "".join(traceback.format_exception(*record.exc_info))
        event = record.name.removeprefix(_PACKAGE)
        return _json(record.levelname.lower(), event, record.getMessage(), fields)


def _unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    said = "".join(traceback.format_exception(kind, error, trace))
    say("failure", f"{kind.__name__}: {error}", level="critical", trace=said)


def _unexpected_in_thread(hook: threading.ExceptHookArgs) -> None:
    if hook.exc_value is not None:
        _unexpected(hook.exc_type, hook.exc_value, hook.exc_traceback)
