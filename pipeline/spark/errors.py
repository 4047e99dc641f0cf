"""What Spark's errors say, in one line for people."""

import re
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

#: What Spark calls an error by, for programs.
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w{5}")
#: Where the text's line ends with a place in it, written in two ways.
_PLACE = re.compile(r";? *line (\d+) pos (\d+);?$")
#: Suggestions that name columns of our own are of no use.
_OURS = re.compile(r"`__\w+`, |(, )?`__\w+`")
_NO_SUGGESTION = " Did you mean one of the following? []."


def told(error: Exception) -> str:
    """The first line of Spark's message that says something, without codes.

    A Java exception without words of Spark's is told by its first cause.
    """
    lines = [line.strip() for line in _text(error).splitlines()]
    first = next(filter(None, lines), type(error).__name__)
    line = _PLACE.sub(r" (line \1, pos \2)", _OURS.sub("", _CLASS.sub("", first)))
    return line.replace(_NO_SUGGESTION, "").strip(" ;")


def kind(error: Exception) -> str:
    """What sort of error it is: the same for another record that fails in the same way."""
    if isinstance(error, Py4JJavaError):
        return str(_first_cause(error).getClass().getName())
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition or type(error).__name__


def _text(error: Exception) -> str:
    if not isinstance(error, Py4JJavaError):
        return str(error)
    cause = _first_cause(error)
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"


def _first_cause(error: Py4JJavaError) -> Any:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return cause
