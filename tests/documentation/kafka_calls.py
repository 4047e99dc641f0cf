"""The rows of docs/reference/kafka-streams-calls.md, and Kafka Streams' own list of methods."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.documentation.pages import blocks
from tests.tidy.project import ROOT
from tests.windows.kafka_peer import class_path

PAGE = ROOT / "docs" / "reference" / "kafka-streams-calls.md"

#: What stands in the column "here" where there is no code.
NO = "no"

_STREAMS = "org.apache.kafka.streams"
_KSTREAM = f"{_STREAMS}.kstream"
_STATE = f"{_STREAMS}.state"
#: The classes that the page has, by their sections.
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
    """A row of the page: Kafka's methods, and the pieces of code that stand for them here.

    ``overload`` is what the row says in brackets of the arguments that it is about, or "".
    ``status`` is ``NO`` where there is no code, else "".
    """

    line: int
    kafka_class: str
    methods: tuple[str, ...]
    overload: str
    codes: tuple[str, ...]
    status: str
    remark: str

    @property
    def place(self) -> str:
        """Class and methods, as a failed test tells them."""
        return f"{self.line}:{self.kafka_class}.{'/'.join(self.methods)}"


def rows() -> list[Row]:
    """Every row of the page's classes."""
    found = []
    section = ""
    for line, text in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("## "):
            section = text.removeprefix("## ")
        elif section and text.startswith("| `"):
            found.append(_row(line, section, text))
    return found


def _row(line: int, section: str, text: str) -> Row:
    methods, here, remark = (cell.strip() for cell in text.strip("|").split(" | ", 2))
    names = tuple(_CODE.findall(methods))
    overload = re.search(r"\((.*)\)", methods)
    codes = tuple(_CODE.findall(here))
    status = _CODE.sub("", here).strip()
    told = overload[1] if overload else ""
    return Row(line, section, names, told, codes, status, remark.strip(" |"))


def prepared() -> str:
    """The code in front of the tables, which the rows go on from."""
    return "\n".join(block.text for block in blocks(PAGE))


def published_calls(target: Path) -> set[tuple[str, str]]:
    """Class and name of each public method and constructor of the published jars.

    Those that are deprecated or that every object has are left out. ``target`` is where the
    peer program is compiled.
    """
    full = {f"{package}.{name.replace('.', '$')}": name for name, package in CLASSES.items()}
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(target), "oriel.Calls", *full]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    pairs = (line.split() for line in told.splitlines())
    return {(full[of_class], call) for of_class, call in pairs}
