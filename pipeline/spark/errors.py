"""What Spark's errors say, in one line for people."""

import re
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException

#: Spark's name of an error, before and behind the words: ``[DIVIDE_BY_ZERO] ... SQLSTATE: 22012``.
_CODE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w{5}")
#: The place in a SQL text at the end of a line: ``; line 1 pos 4`` or ``;line 1 pos 4;``.
_SQL_POSITION = re.compile(r";? *line (\d+) pos (\d+);?$")
#: Suggested columns of the pipeline's own (``__keep``), which a user can't write.
_OWN_COLUMN = re.compile(r"`__\w+`, |(, )?`__\w+`")
#: How Spark begins what it says of a query that ended, before what ended it.
_QUERY_ENDED = re.compile(r"^Query .*\[id = [^]]*\] terminated with (?:exception|error): ")
_TRACE = "Traceback (most recent call last):"
_NO_SUGGESTION = " Did you mean one of the following? []."


def first_line(error: Exception) -> str:
    """The first line of the error's message that has words, without codes.

    A Java exception is described by its first cause: those around it are Spark's own way. One of
    Python in a worker is described by the line behind its trace.
    """
    if isinstance(error, Py4JJavaError):
        cause = _first_cause(error)
        text = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    else:
        text = str(error)
    lines: Iterable[str] = text.splitlines()
    if isinstance(error, PythonException):
        behind = text.partition(_TRACE)[2].splitlines()
        lines = [*(line for line in behind if not line.startswith(" ")), *lines]
    lines = (line.strip() for line in lines)
    line = _CODE.sub("", next(filter(None, lines), type(error).__name__))
    line = _CODE.sub("", _QUERY_ENDED.sub("", line))
    line = _SQL_POSITION.sub(r" (line \1, pos \2)", _OWN_COLUMN.sub("", line))
    return line.replace(_NO_SUGGESTION, "").strip(" ;")


def error_kind(error: Exception) -> str:
    """Spark's error condition, or the class of the first cause.

    The same for another record that fails in the same way, whatever values the message names.
    """
    if isinstance(error, Py4JJavaError):
        return str(_first_cause(error).getClass().getName())
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition or type(error).__name__


def _first_cause(error: Py4JJavaError) -> Any:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return cause
