"""Spark's errors as one line for people and as a kind for programs."""

import re
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException

#: Spark's codes before and after the message: ``[DIVIDE_BY_ZERO] ... SQLSTATE: 22012``.
_CODE = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w{5}")
#: The position in an SQL text at the end of a line: ``; line 1 pos 4`` or ``;line 1 pos 4;``.
_SQL_POSITION = re.compile(r";? *line (\d+) pos (\d+);?$")
#: Suggestions of internal columns (``__keep``), which a user cannot write.
_OWN_COLUMN = re.compile(r"`__\w+`, |(, )?`__\w+`")
#: The beginning of Spark's message about a query that ended, before the cause.
_QUERY_ENDED = re.compile(r"^Query .*\[id = [^]]*\] terminated with (?:exception|error): ")
_TRACE = "Traceback (most recent call last):"
_NO_SUGGESTION = " Did you mean one of the following? []."


def first_line(error: Exception) -> str:
    """Return the first line of an error's message that has words, without codes.

    For a Java exception, it describes the root cause, because Spark adds the exceptions around it.
    For a Python exception in a worker, it is the line after the stack trace.
    """
    if isinstance(error, Py4JJavaError):
        cause = _first_cause(error)
        text = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    else:
        text = str(error)
    lines: Iterable[str] = text.splitlines()
    if isinstance(error, PythonException):
        after_trace = text.partition(_TRACE)[2].splitlines()
        lines = [*(line for line in after_trace if not line.startswith(" ")), *lines]
    lines = (line.strip() for line in lines)
    line = _CODE.sub("", next(filter(None, lines), type(error).__name__))
    line = _CODE.sub("", _QUERY_ENDED.sub("", line))
    line = _SQL_POSITION.sub(r" (line \1, pos \2)", _OWN_COLUMN.sub("", line))
    return line.replace(_NO_SUGGESTION, "").strip(" ;")


def error_kind(error: Exception) -> str:
    """Return Spark's error condition, the Java class of the root cause, or the class of the error.

    The kind is the same for any record that fails in the same way. It does not depend on values in
    the message.
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
