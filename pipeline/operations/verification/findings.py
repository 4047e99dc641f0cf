"""The base class of checks, their findings, and the data directory that they share."""

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from oriel.pipeline.operations.verification.table_views import TableView, read_view
from oriel.storage import DataLayout, current_files, uri
from oriel.storage.delta import table_directories

if TYPE_CHECKING:
    # This module imports Spark, which only a check with Kafka needs.
    from oriel.pipeline.sources import TopicLog

#: The action for a file whose content exists nowhere else.
RESTORE = "Restore it from a backup"


@dataclass(frozen=True)
class Finding:
    """One line of the result.

    Attributes:
        path: The file or directory.
        problem: The problem, as the end of a sentence about the path.
        action: What the operator can do.
        is_damage: True for a damaged file, False for a file that nothing refers to.
    """

    path: Path
    problem: str
    action: str
    is_damage: bool = True

    def __str__(self) -> str:
        return f"{uri(self.path)}: {self.problem}. {self.action}."

    def fields(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        kind = "damage" if self.is_damage else "surplus"
        texts = {"problem": self.problem, "action": self.action}
        return {"finding": kind, "path": uri(self.path), **texts}


@dataclass
class Site:
    """The data directory that is checked. It caches tables and topics between checks."""

    layout: DataLayout
    event_log: Path | None = None
    #: Returns a topic of Kafka, or None if the topic does not exist.
    fetch_topic: "Callable[[str], TopicLog | None] | None" = None
    #: The numbers of files and bytes that were read, for the progress line and the summary.
    files: int = 0
    bytes: int = 0
    shows_progress: bool = field(default_factory=sys.stderr.isatty)
    _tables: dict[Path, TableView] = field(default_factory=dict)
    _topics: "dict[str, TopicLog | None]" = field(default_factory=dict)

    def table(self, directory: Path) -> TableView:
        """Return a table as its log describes it. The result is cached until ``forget``."""
        if directory not in self._tables:
            self._tables[directory] = read_view(directory)
        return self._tables[directory]

    def topic(self, name: str) -> "TopicLog | None":
        """Return a topic of Kafka, None if it is missing. The result is cached until ``forget``."""
        assert self.fetch_topic is not None
        if name not in self._topics:
            self._topics[name] = self.fetch_topic(name)
        return self._topics[name]

    def forget(self) -> None:
        """Clear the cache, so that logs of tables and topics are read again."""
        self._tables.clear()
        self._topics.clear()

    def count(self, size: int) -> None:
        """Count a file of ``size`` bytes that was read, and update the progress line."""
        self.files += 1
        self.bytes += size
        if self.shows_progress:
            line = f"\r{self.files:,} files, {self.bytes / 1e6:,.0f} MB"
            print(line, end="", file=sys.stderr, flush=True)

    def clear_progress(self) -> None:
        """Clear the progress line before another line is printed."""
        if self.shows_progress and self.files:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def tables(self) -> list[Path]:
        """The directories of tables."""
        return table_directories(self.layout.tables)

    @property
    def checkpoints(self) -> list[Path]:
        """The directories of checkpoints."""
        names = sorted(current_files().names(self.layout.checkpoints))
        return [self.layout.checkpoint(name) for name in names]

    @property
    def states(self) -> list[Path]:
        """The state directories of stores and sinks, of all generations."""
        directories = [checkpoint / "state" for checkpoint in self.checkpoints]
        return [
            directory / name
            for directory in directories
            for name in sorted(current_files().names(directory))
        ]


class Check(ABC):
    """One kind of check. To add a kind, write a subclass and add it to ``CHECKS``."""

    #: Whether the check also applies to the files of a backup.
    of_backups: ClassVar[bool] = True

    @abstractmethod
    def subjects(self, directory: Site) -> Iterable[Path]:
        """Return the paths to check one after the other, for example of tables or states."""

    @abstractmethod
    def find(
        self, directory: Site, subject: Path, only: Collection[Path] | None
    ) -> Iterator[Finding]:
        """Yield the findings of one subject.

        Args:
            directory: The data directory.
            subject: A path that ``subjects`` returned.
            only: The paths to check a second time. A check can skip other files. None: all files.
        """


def rebuild(store: str) -> str:
    """Return the action for a damaged file of a store's table or state."""
    command = f"`oriel rebuild {shlex.quote(store)}`"
    return f"{RESTORE}, or compute the store again from its topics with {command}"


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, without a period at its end."""
    return (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
