"""The results of checks, and the subject that they check."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar


class Level(StrEnum):
    """The severity of a result. Only a ``PROBLEM`` changes the exit code to 1."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Result:
    """One line: what a check found, and what to do about it (empty if nothing is to be done)."""

    level: Level
    found: str
    action: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.action}." if self.action else f"{self.found}."


def ok(found: str) -> Result:
    """Return that nothing is wrong."""
    return Result(Level.OK, found)


def warning(found: str, action: str) -> Result:
    """Return what can become a problem."""
    return Result(Level.WARNING, found, action)


def problem(found: str, action: str) -> Result:
    """Return what keeps a pipeline or a service from working."""
    return Result(Level.PROBLEM, found, action)


@dataclass(frozen=True)
class Subject:
    """The things that the command line names. None or empty: the check is left out.

    ``kafka`` has bootstrap servers as HOST:PORT, ``url`` is the address of a running service.
    """

    data: Path | None = None
    index: Path | None = None
    event_log: Path | None = None
    kafka: tuple[str, ...] = ()
    url: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None


class Check(ABC):
    """One kind of check. ``CHECKS`` is the registry: a new kind is a class and a row there."""

    name: ClassVar[str]

    @abstractmethod
    def results(self, subject: Subject) -> Iterator[Result]:
        """Yield what the check found, and nothing if the subject has nothing to check.

        Raises:
            OSError: The system rejects a request. The command reports it as a problem.
            ModuleNotFoundError: A package is missing. The command leaves the check out, because
                ``Packages`` reports the package.
        """
