"""Write log lines to stderr, as text for people or as one JSON object per line for programs.

    {"time": "2026-01-31T12:00:00.123Z", "level": "info", "application": "flights",
     "event": "batch", "message": "batch committed: batch=7 ...", "batch": 7, "stores": {...}}

Each line has ``time``, ``level``, ``event`` and ``message``. A line of Python's ``logging`` has its
module as ``event``, and an unexpected error has its ``trace``. A line of text is the message: the
event, then ``key=value`` (``log_line``). docs/reference/logs.md lists all events.
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

#: The names of modules of Oriel begin with it. Events do not.
_PACKAGE = "oriel."


@dataclass
class _Console:
    """The log format of this process, and the fields of each JSON line."""

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
    """Set the log format of this process.

    Args:
        log_format: one of ``LOG_FORMATS``.
        level: the least level of lines of Python's ``logging``.
        text: the format of these lines as text.
        fields: fields of each JSON line.
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
    """Write a log line. As JSON, it also has ``event`` and ``fields``."""
    sys.stderr.write(f"{_json(level, event, line, fields) if _console.as_json else line}\n")
    sys.stderr.flush()


def log_line(event: str, **fields: Any) -> str:
    """Return the text of a log line: the event, then ``key=value``.

    A value with spaces or quotes is quoted as in JSON, because a client can choose it.

    Example:
        ``log_line("store rebuilt", store="orders", batch=7)`` is
        ``store rebuilt: store=orders batch=7``.
    """
    return f"{event}: {' '.join(f'{name}={_quoted(value)}' for name, value in fields.items())}"


def _quoted(value: Any) -> str:
    text = str(value)
    is_plain = text and not any(one.isspace() or one == '"' for one in text)
    return text if is_plain else orjson.dumps(text).decode()


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
    """Writes lines of Python's ``logging`` to the current stderr."""

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
