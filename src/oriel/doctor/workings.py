"""Checks of the processes over a data directory: pipelines, stores, indexes, the event log."""

from collections.abc import Iterator
from typing import ClassVar

from oriel.doctor.results import Check, Result, Subject, ok, problem, warning


class Pipelines(Check):
    """Whether each pipeline runs and commits batches."""

    name: ClassVar[str] = "pipelines"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.data is None:
            return
        from oriel.storage import DataLayout  # noqa: PLC0415 - see the package
        from oriel.storage.monitoring import pipeline_overviews  # noqa: PLC0415 - see the package

        pipelines = list(pipeline_overviews(DataLayout(subject.data)))
        if not pipelines:
            yield warning(f"No pipeline has run in {subject.data}", "Start one: `oriel run`")
        for pipeline in pipelines:
            if pipeline.problem is not None:
                yield _sentences(pipeline.problem)
            else:
                yield ok(f"Pipeline {pipeline.pipeline} is {pipeline.state}")


class Stores(Check):
    """Whether the index of each store follows its table, where a service has ever run."""

    name: ClassVar[str] = "stores"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.data is None:
            return
        from oriel.storage.monitoring import overview  # noqa: PLC0415 - see the package

        seen = overview(subject.data, subject.index)
        if seen.stores and not seen.tailer.alive:
            yield warning("No service runs on this directory", "Start one: `oriel serve`")
            return
        problems = {one.name: one.index.problem for one in seen.stores if one.index is not None}
        for name, message in problems.items():
            if message:
                found = f"Store {name}: {message.rstrip('.')}"
                yield problem(found, "Read the messages of `oriel serve`")
        followed = list(problems.values()).count(None)
        if followed:
            yield ok(f"A service follows {followed:,} of {len(seen.stores):,} stores")


class EventLog(Check):
    """Whether the event log has topics that this user can read."""

    name: ClassVar[str] = "event log"

    def results(self, subject: Subject) -> Iterator[Result]:
        log = subject.event_log
        if log is None:
            return
        layout = "An event log has files TOPIC/PARTITION.jsonl"
        if not log.is_dir():
            yield problem(f"{log} is not a directory", layout)
            return
        files = sorted(log.glob("*/*.jsonl"))
        if not files:
            yield warning(f"{log} has no topic", layout)
            return
        for file in files:
            with file.open("rb"):
                pass
        topics = {file.parent.name for file in files}
        yield ok(f"{log} has {len(files):,} partitions of {len(topics):,} topics")


def _sentences(text: str) -> Result:
    """Return a problem whose action is its last sentence."""
    found, _, action = text.rstrip(".").rpartition(". ")
    return problem(found, action)
