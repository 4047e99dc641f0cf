"""What a check of a data directory finds, and what all checks share while they run."""

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from oriel.pipeline.operations.verification.table_views import TableView, read_view
from oriel.storage import DataLayout, current_files, uri
from oriel.storage.delta import table_folders

if TYPE_CHECKING:
    # It imports Spark, which a check without Kafka does without.
    from oriel.pipeline.sources import TopicLog

#: What restores a file that nothing else contains.
RESTORE = "Restore it from a backup"


@dataclass(frozen=True)
class Finding:
    """One line of the result: a damaged file, or a file that nothing refers to (``is_damage``)."""

    path: Path
    problem: str
    action: str
    is_damage: bool = True

    def __str__(self) -> str:
        return f"{uri(self.path)}: {self.problem}. {self.action}."

    def fields(self) -> dict[str, Any]:
        """Return the JSON object for programs."""
        kind = "damage" if self.is_damage else "surplus"
        texts = {"problem": self.problem, "action": self.action}
        return {"finding": kind, "path": uri(self.path), **texts}


@dataclass
class Site:
    """The data directory that is checked, with its tables as their logs describe them."""

    layout: DataLayout
    event_log: Path | None = None
    #: Asks Kafka for a topic, which is None if it does not exist.
    ask_topic: "Callable[[str], TopicLog | None] | None" = None
    #: What the progress line and the summary count.
    files: int = 0
    bytes: int = 0
    shows_progress: bool = field(default_factory=sys.stderr.isatty)
    _tables: dict[Path, TableView] = field(default_factory=dict)
    _topics: "dict[str, TopicLog | None]" = field(default_factory=dict)

    def table(self, folder: Path) -> TableView:
        """Return a table as its log describes it; the log is read once until ``forget``."""
        if folder not in self._tables:
            self._tables[folder] = read_view(folder)
        return self._tables[folder]

    def topic(self, name: str) -> "TopicLog | None":
        """Return a topic of Kafka; it is asked for once until ``forget``."""
        assert self.ask_topic is not None
        if name not in self._topics:
            self._topics[name] = self.ask_topic(name)
        return self._topics[name]

    def forget(self) -> None:
        """Read the logs of tables again from here on, and ask for topics again."""
        self._tables.clear()
        self._topics.clear()

    def count(self, size: int) -> None:
        """Count a file that was read."""
        self.files += 1
        self.bytes += size
        if self.shows_progress:
            line = f"\r{self.files:,} files, {self.bytes / 1e6:,.0f} MB"
            print(line, end="", file=sys.stderr, flush=True)

    def clear_progress(self) -> None:
        """End the progress line, before another line is printed."""
        if self.shows_progress and self.files:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @property
    def tables(self) -> list[Path]:
        """The directories of tables."""
        return table_folders(self.layout.tables)

    @property
    def checkpoints(self) -> list[Path]:
        """The directories of checkpoints."""
        names = sorted(current_files().names(self.layout.checkpoints))
        return [self.layout.checkpoint(name) for name in names]

    @property
    def states(self) -> list[Path]:
        """The directories of stores' states, of all generations."""
        folders = [checkpoint / "state" for checkpoint in self.checkpoints]
        return [
            folder / name for folder in folders for name in sorted(current_files().names(folder))
        ]


class Check(ABC):
    """One kind of check. ``CHECKS`` is the registry: a new kind is a class and a row there."""

    #: Whether the check also applies to the files of a backup.
    of_backups: ClassVar[bool] = True

    @abstractmethod
    def subjects(self, site: Site) -> Iterable[Path]:
        """Return what is checked one after the other: tables, states, ..."""

    @abstractmethod
    def find(self, site: Site, subject: Path, only: Collection[Path] | None) -> Iterator[Finding]:
        """Check one subject; ``only``: these paths are checked again, others need not be."""


def rebuild(store: str) -> str:
    """Return what replaces a file of a store's table or state."""
    command = f"`oriel rebuild {shlex.quote(store)}`"
    return f"{RESTORE}, or compute the store again from its topics with {command}"


def first_line(error: Exception) -> str:
    """Return the text of an error for one line, without its own end of sentence."""
    return (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
