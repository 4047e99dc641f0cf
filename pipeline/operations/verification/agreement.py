"""Compare tables with states, and states with event logs and the topics of Kafka."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from oriel.pipeline.language import of_topics
from oriel.pipeline.operations.verification.findings import RESTORE, Check, Finding, Site, rebuild
from oriel.pipeline.operations.verification.states import (
    application_of,
    is_state_of_store,
    newest_prepared,
    prepared_batches,
    store_of,
)
from oriel.pipeline.operations.verification.table_views import TableView
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import StoreDefinition, current_files, without_digest
from oriel.storage.delta import has_table

if TYPE_CHECKING:
    # This module imports Spark, which only a check with Kafka needs.
    from oriel.pipeline.sources import TopicLog

#: The file of a checkpoint with the ids of the topics that the pipeline reads from Kafka.
_KAFKA_RECORD = "kafka.json"
#: The topic id that brokers without topic ids return.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_OTHER_RECORDS = (
    "The offsets refer to other records. Connect to the cluster of this pipeline with --kafka, or "
    "start it again with an empty data directory"
)
_COUNTED = ("applied", "late", "dead_lettered", "filtered")


class TablesAndStates(Check):
    """Compare the table of each store with the newest prepared batch of its state."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return filter(is_state_of_store, site.states)

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        store = store_of(subject)
        table = site.layout.table(store)
        if not prepared_batches(subject):
            # The first batch is not prepared yet, or a rebuild was killed.
            return
        if not has_table(table):
            if _is_in_topology(subject):
                yield Finding(table, f"the table of store {store!r} is missing", rebuild(store))
            return
        view = site.table(table)
        definition = view.definition
        prepared = newest_prepared(subject)
        if view.problems or prepared is None:
            # Other checks report these problems.
            return
        if definition is None:
            yield Finding(table, "the table has no definition of a store", rebuild(store))
        elif definition.state_name == subject.name and _is_in_topology(subject):
            yield from _differences(subject, prepared, view, definition)


def _is_in_topology(state: Path) -> bool:
    """Return whether the state of a store is at most one batch older than the newest state.

    The state of a store that was removed from the topology stays at an older batch.
    """
    directory = state.parent
    batches = [prepared_batches(directory / name)[-1:] for name in current_files().names(directory)]
    newest = max((batch for found in batches for batch in found), default=-1)
    return prepared_batches(state)[-1] >= newest - 1


def _differences(
    state: Path, prepared: PreparedBatch, view: TableView, definition: StoreDefinition
) -> Iterator[Finding]:
    application = application_of(state.parent.parent)
    if application is not None and definition.application != application:
        problem = f"the table belongs to application {definition.application}"
        problem += f", but the checkpoint belongs to {application}"
        yield Finding(view.directory, problem, RESTORE)
        return
    action = rebuild(definition.name)
    prepared_record, recorded = prepared.record, view.transactions.get(definition.application, -1)
    # A batch is prepared before it is committed.
    if recorded == prepared_record.batch + 1:
        path = state / f"{recorded:012d}.json"
        problem = f"the table has batch {recorded}, but its state version is missing"
        yield Finding(path, problem, "Start the pipeline. It computes this state again")
    elif recorded not in {prepared_record.batch - 1, prepared_record.batch}:
        problem = f"the table is at batch {recorded}"
        problem += f", but the state in {state} is at batch {prepared_record.batch}"
        yield Finding(view.directory, problem, action)
    record = view.record
    if record is not None and record.batch == recorded == prepared_record.batch:
        for name in ("offsets", "counters"):
            of_table, of_state = getattr(record, name), getattr(prepared_record, name)
            if of_table != of_state:
                problem = f"the {name} of batch {recorded} are {_text(of_table)} in the table"
                problem += f", but {_text(of_state)} in the state in {state}"
                yield Finding(view.directory, problem, action)
    decision = state / f"{prepared_record.batch:012d}.json"
    for place, one in ((decision, prepared_record), (view.directory, record)):
        if one is None:
            continue
        counted = sum(one.counters.get(name, 0) for name in _COUNTED)
        if one.counters.get("input", counted) != counted:
            counters = _text(one.counters)
            problem = f"the counters of batch {one.batch} do not add up to the input: {counters}"
            yield Finding(place, problem, action)


def _text(fields: Mapping[str, object]) -> str:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()


class EventLogs(Check):
    """Compare the offsets of the newest prepared batch of each state with the event log."""

    of_backups = False

    def subjects(self, site: Site) -> Iterable[Path]:
        return site.states if site.event_log is not None else ()

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        assert site.event_log is not None
        prepared = newest_prepared(subject) if prepared_batches(subject) else None
        if prepared is None:
            return
        for topic, partitions in sorted(of_topics(prepared.record.offsets).items()):
            for partition, offset in sorted(partitions.items()):
                path = site.event_log / topic / f"{partition}.jsonl"
                problem = _log_problem(path, offset)
                if problem is not None:
                    problem_text = (
                        f"{problem}, but store {store_of(subject)!r} has read up to {offset:,}"
                    )
                    yield Finding(
                        path, problem_text, f"{RESTORE}, or name the log of this pipeline"
                    )


def _log_problem(path: Path, offset: int) -> str | None:
    if offset == 0:
        return None
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < offset:
                return f"the file has {size:,} bytes"
            file.seek(offset - 1)
            return None if file.read(1) == b"\n" else f"no line ends at {offset:,}"
    except FileNotFoundError:
        return "the file is missing"


class KafkaTopics(Check):
    """Compare the offsets of the newest prepared batch of each state with the topics in Kafka."""

    of_backups = False

    def subjects(self, site: Site) -> Iterable[Path]:
        states = site.states if site.fetch_topic is not None else ()
        return (state for state in states if has_kafka_record(state.parent.parent))

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        prepared = newest_prepared(subject) if prepared_batches(subject) else None
        if prepared is None or not _is_in_topology(subject):
            return
        path = subject / f"{prepared.record.batch:012d}.json"
        known: Mapping[str, str] = {}
        # Another check reports a damaged file.
        with suppress(FileNotFoundError, KeyError, TypeError, ValueError):
            content = current_files().read(subject.parent.parent / _KAFKA_RECORD)
            known = orjson.loads(without_digest(content))["topic_ids"]
        for topic, partitions in sorted(of_topics(prepared.record.offsets).items()):
            log, store = site.topic(topic), store_of(subject)
            # Without a topic id, the topic can be the same one.
            known_id = known.get(topic)
            if log is None or not (known_id in {None, _NO_ID, log.id} or log.id == _NO_ID):
                problem = "does not exist" if log is None else "was deleted and created again"
                problem_text = (
                    f"topic {topic!r} {problem} in Kafka, but store {store!r} has read it"
                )
                yield Finding(path, problem_text, _OTHER_RECORDS)
                continue
            for partition, offset in sorted(partitions.items()):
                found = _partition_problem(log, partition, offset)
                if found is not None:
                    problem_text = (
                        f"partition {partition} of topic {topic!r} {found[0]} in Kafka, but "
                    )
                    yield Finding(
                        path, f"{problem_text}store {store!r} has read up to {offset:,}", found[1]
                    )


def has_kafka_record(checkpoint: Path) -> bool:
    """Return whether the pipeline of a checkpoint reads Kafka."""
    return current_files().exists(checkpoint / _KAFKA_RECORD)


def _partition_problem(log: "TopicLog", partition: str, offset: int) -> tuple[str, str] | None:
    """Return the problem of a partition that was read up to ``offset``, and what to do."""
    if partition not in log.latest:
        return ("does not exist", _OTHER_RECORDS) if offset else None
    if offset > log.latest[partition]:
        return f"ends at {log.latest[partition]:,}", _OTHER_RECORDS
    if offset < log.earliest[partition]:
        return f"begins at {log.earliest[partition]:,}", (
            "Kafka deleted records before they were read. Start the pipeline with "
            "`--on-data-loss continue`, or with an empty data directory"
        )
    return None
