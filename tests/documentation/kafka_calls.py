"""The rows of docs/reference/kafka-streams-calls.md, and Kafka Streams' own list of methods."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.documentation.pages import blocks
from tests.tidy.project import ROOT
from tests.windows.kafka_peer import class_path

PAGE = ROOT / "docs" / "reference" / "kafka-streams-calls.md"

#: The column "Oriel" of a method without a counterpart.
NO = "no"

_STREAMS = "org.apache.kafka.streams"
_KSTREAM = f"{_STREAMS}.kstream"
_STATE = f"{_STREAMS}.state"
#: The classes of the page. A row without a class is in the section of its class.
CLASSES = {
    "StreamsBuilder": _STREAMS,
    "KStream": _KSTREAM,
    "KTable": _KSTREAM,
    "GlobalKTable": _KSTREAM,
    "KGroupedStream": _KSTREAM,
    "KGroupedTable": _KSTREAM,
    "TimeWindowedKStream": _KSTREAM,
    "SessionWindowedKStream": _KSTREAM,
    "CogroupedKStream": _KSTREAM,
    "TimeWindowedCogroupedKStream": _KSTREAM,
    "SessionWindowedCogroupedKStream": _KSTREAM,
    "BranchedKStream": _KSTREAM,
    "Branched": _KSTREAM,
    "TimeWindows": _KSTREAM,
    "SlidingWindows": _KSTREAM,
    "SessionWindows": _KSTREAM,
    "JoinWindows": _KSTREAM,
    "UnlimitedWindows": _KSTREAM,
    "EmitStrategy": _KSTREAM,
    "Suppressed": _KSTREAM,
    "Suppressed.BufferConfig": _KSTREAM,
    "Materialized": _KSTREAM,
    "Grouped": _KSTREAM,
    "Joined": _KSTREAM,
    "StreamJoined": _KSTREAM,
    "Consumed": _KSTREAM,
    "Produced": _KSTREAM,
    "Repartitioned": _KSTREAM,
    "TableJoined": _KSTREAM,
    "Topology": _STREAMS,
    "TopologyTestDriver": _STREAMS,
    "TestInputTopic": _STREAMS,
    "TestOutputTopic": _STREAMS,
    "ReadOnlyKeyValueStore": _STATE,
    "ReadOnlyWindowStore": _STATE,
    "ReadOnlySessionStore": _STATE,
}

_CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """A row of the page: methods of Kafka Streams, and the code for Oriel.

    ``calls`` has pairs of class and method. ``overload`` is the text in parentheses about their
    arguments, or "". ``status`` is ``NO`` if the row has no code, otherwise "".
    """

    line: int
    calls: tuple[tuple[str, str], ...]
    overload: str
    codes: tuple[str, ...]
    status: str
    note: str

    @property
    def place(self) -> str:
        """Return line, classes and methods, for failures of tests."""
        return f"{self.line}:{'/'.join('.'.join(call) for call in self.calls)}"


def rows() -> list[Row]:
    """Return every row of the tables of classes."""
    found = []
    section = ""
    for line, text in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("## "):
            section = text.removeprefix("## ")
        elif section and text.startswith("| `"):
            found.append(_row(line, section, text))
    return found


def _row(line: int, section: str, text: str) -> Row:
    methods, oriel, *note = (cell.strip() for cell in text.strip("| ").split(" | ", 2))
    calls = tuple(_call(section, name) for name in _CODE.findall(methods))
    overload = re.search(r"\((.*)\)", methods)
    codes = tuple(_CODE.findall(oriel))
    status = _CODE.sub("", oriel).strip()
    return Row(line, calls, overload[1] if overload else "", codes, status, "".join(note))


def _call(section: str, name: str) -> tuple[str, str]:
    """Return class and method of a name such as "count" or "Grouped.as"."""
    if "." not in name:
        return section, name
    kafka_class, _, method = name.rpartition(".")
    return kafka_class, method


def prepared() -> str:
    """Return the code before the tables, which the rows use."""
    return "\n".join(block.text for block in blocks(PAGE))


def published_calls(target: Path) -> set[tuple[str, str]]:
    """Return class and name of each public method and constructor of the published jars.

    Deprecated methods and the methods of every object are left out. ``target`` is the directory
    for the compiled Java program.
    """
    full = {f"{package}.{name.replace('.', '$')}": name for name, package in CLASSES.items()}
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(target), "oriel.Calls", *full]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    pairs = (line.split() for line in found.splitlines())
    return {(full[of_class], call) for of_class, call in pairs}
