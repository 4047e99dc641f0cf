"""The registry of checks, and how they run."""

import json
from collections.abc import Iterator, Sequence

from oriel.doctor.connections import Brokers, Certificate, Port, Service
from oriel.doctor.directories import CommitTimes, Disk, ObjectStore, Rights
from oriel.doctor.machine import Clock, Java, Memory, OpenFiles, Packages, Python
from oriel.doctor.results import Check, Result, Subject, problem
from oriel.doctor.workings import EventLog, Pipelines, Stores

#: Each kind of check. The first ones find why later ones would find more.
CHECKS: Sequence[Check] = (
    Python(),
    Packages(),
    Java(),
    Memory(),
    OpenFiles(),
    Clock(),
    Rights(),
    Disk(),
    ObjectStore(),
    CommitTimes(),
    EventLog(),
    Brokers(),
    Pipelines(),
    Stores(),
    Port(),
    Certificate(),
    Service(),
)


def examined(subject: Subject, checks: Sequence[Check] = CHECKS) -> Iterator[tuple[str, Result]]:
    """Yield the name of each check with what it found."""
    for check in checks:
        try:
            for result in check.results(subject):
                yield check.name, result
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == "oriel":
                raise
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            yield check.name, problem(message, "Run the command as the user of Oriel")


def as_json(name: str, result: Result) -> str:
    """Return a result as one JSON object for programs."""
    fields = {"check": name, "level": result.level, "found": result.found, "action": result.action}
    return json.dumps(fields)
