"""Write docs/decisions/README.md: each decision record with its outcome, by topic.

    python -m tools.decisions

The index is derived from the headers of the records. A test compares the committed page with
``page()`` and checks the headers with ``problems()``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "decisions"
PAGE = RECORDS / "README.md"

#: Topic in a header -> heading of the index. A record is listed under its first topic.
TOPICS = {
    "windows": "Windows",
    "aggregates": "Aggregates and functions",
    "time": "Stream time, lateness and final rows",
    "joins": "Joins and tables",
    "updates": "Updates and flattened records",
    "state": "State",
    "recovery": "Commit and recovery",
    "batches": "Batches, Spark and clusters",
    "decoding": "Decoding and row-wise steps",
    "kafka": "Kafka and dead letters",
    "tables": "Delta tables",
    "index": "Index",
    "reads": "Reads and keys",
    "push": "Event streams and alerts",
    "security": "Limits and security",
    "dashboard": "Dashboard",
    "tests": "Tests",
    "performance": "Benchmarks and performance",
    "documentation": "Documentation",
    "packaging": "Packages and installation",
    "damage": "Damage",
}

#: Numbers without a record -> the reason.
UNUSED = dict.fromkeys(
    ("0040", "0050", "0054", "0116"),
    "The number was not used. No commit on any branch contains a record with it.",
)

#: The parts of a record, in their order.
PARTS = ("Context", "Decision", "Consequences", "Alternatives")

_LINK = re.compile(r"\[(\d{4})\]\((\d{4})-[a-z0-9-]+\.md\)")
_FIELD = re.compile(r"^- ([A-Z][a-z ]+): ((?:.|\n(?=  ))+)$", re.MULTILINE)
_STATUS = re.compile(r"accepted|(?:amended|superseded) by \d{4}(?:(?:, \d{4})* and \d{4})?")
_REVERSE = {"Amended by": "Amends", "Superseded by": "Supersedes"}

_INTRODUCTION = """# Decisions

<!-- Written by python -m tools.decisions. Change the headers of the records instead. -->

A decision record explains one choice: the context, the decision, its consequences and the
rejected alternatives. Each record is listed once, under its main topic. The line "Also" names
records of other topics that concern the topic.

| status | meaning |
|---|---|
| accepted | the record is valid as written |
| amended by NNNN | a later record changes a part of it, which the header describes |
| superseded by NNNN | a later record replaces it |

To add a record, copy [the template](template.md), use the next number, and run
`python -m tools.decisions`.
"""


@dataclass(frozen=True)
class Record:
    """One decision record: its file name and text."""

    name: str
    text: str

    @property
    def number(self) -> str:
        """Return the four digits of the file name."""
        return self.name[:4]

    @property
    def title(self) -> str:
        """Return the text of the first line."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @cached_property
    def fields(self) -> dict[str, list[str]]:
        """Return the values of each header field. Only "Amended by" can occur repeatedly."""
        found: dict[str, list[str]] = {}
        for name, value in _FIELD.findall(self.text.partition("\n\n**Context.**")[0]):
            found.setdefault(name, []).append(" ".join(value.split()))
        return found

    def field(self, name: str) -> str:
        """Return the value of a field, empty if it is missing."""
        return " ".join(self.fields.get(name, []))

    @property
    def topics(self) -> list[str]:
        """Return the topics, the main topic first."""
        return self.field("Topics").split(", ")

    def linked(self, name: str) -> list[str]:
        """Return the numbers that a field links to, in order."""
        return sorted(number for number, _ in _LINK.findall(self.field(name)))


def records() -> list[Record]:
    """Return all records by number."""
    return [
        Record(path.name, path.read_text(encoding="utf-8"))
        for path in sorted(RECORDS.glob("[0-9]*.md"))
    ]


def file_name(number: str, title: str) -> str:
    """Return the file name of a record, which consists of number and title."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("'", "")).strip("-")
    return f"{number}-{words}.md"


def problems(found: list[Record]) -> Iterator[str]:
    """Yield what is wrong with the headers, parts, names and numbers of the records."""
    for record in found:
        for problem in _problems_of(record):
            yield f"{record.name}: {problem}"
    for name, reverse in _REVERSE.items():
        there = {(record.number, n) for record in found for n in record.linked(name)}
        back = {(n, record.number) for record in found for n in record.linked(reverse)}
        for old, new in sorted(there ^ back):
            yield f'{old}: "{name}: {new}" and "{reverse}: {old}" in {new} must occur together'
    numbers = [record.number for record in found]
    for number in sorted({n for n in numbers if numbers.count(n) > 1} | set(UNUSED) & set(numbers)):
        yield f"{number}: the number is used more than once, or is listed as unused"
    last = int(max(numbers, default="0"))
    for missing in sorted({f"{n:04}" for n in range(1, last)} - set(numbers) - set(UNUSED)):
        yield f"{missing}: the number is missing. Add a record, or a reason to UNUSED."


def _problems_of(record: Record) -> Iterator[str]:
    if record.name != file_name(record.number, record.title):
        yield f"the file name must be {file_name(record.number, record.title)}"
    for name in ("Status", "Date", "Topics", "Outcome"):
        if len(record.fields.get(name, [])) != 1:
            yield f"the header must have one line {name}"
    status = record.field("Status")
    if not _STATUS.fullmatch(status):
        yield f"the status must be accepted, amended by NNNN or superseded by NNNN, not {status}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", record.field("Date")):
        yield f"the date must be YYYY-MM-DD, not {record.field('Date')}"
    if unknown := set(record.topics) - set(TOPICS):
        yield f"the topics must be in TOPICS: {', '.join(sorted(unknown))}"
    named = sorted(re.findall(r"\d{4}", status))
    kind = status.partition(" by ")[0].capitalize() + " by"
    if named != record.linked(kind) or sum(len(record.linked(n)) for n in _REVERSE) != len(named):
        yield "the status must name exactly the records in the lines Amended by or Superseded by"
    parts = re.findall(rf"^\*\*({'|'.join(PARTS)})\.\*\*", record.text, re.MULTILINE)
    if tuple(parts) != PARTS:
        yield f"the parts must be {', '.join(PARTS)}, not {', '.join(parts)}"


def _row(record: Record) -> str:
    decision = f"[{record.number} {record.title}]({record.name})"
    return f"| {decision} | {record.field('Outcome')} | {record.field('Status')} |"


def page() -> str:
    """Return the text of the index."""
    found = records()
    lines = [_INTRODUCTION]
    for topic, heading in TOPICS.items():
        listed = [record for record in found if record.topics[0] == topic]
        also = [record for record in found if topic in record.topics[1:]]
        lines += [f"## {heading}", ""]
        if listed:
            lines += ["| decision | outcome | status |", "|---|---|---|", *map(_row, listed), ""]
        if also:
            links = ", ".join(f"[{record.number}]({record.name})" for record in also)
            lines += [f"Also: {links}", ""]
    lines += ["## Numbers without a record", "", "| number | reason |", "|---|---|"]
    lines += [f"| {number} | {reason} |" for number, reason in UNUSED.items()]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the index."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
