"""Check checkpoints: state versions of prepared batches, state files, and other JSON files."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pyarrow as pa

from oriel.pipeline.commit import SinkDefinition, StateVersions
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.operations.verification.findings import (
    RESTORE,
    Check,
    Finding,
    Site,
    first_line,
    rebuild,
)
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.state import named_digest
from oriel.storage import CommitRecord, StorageError, current_files, is_sink_name, without_digest
from oriel.storage.dead_letters import read_replays
from oriel.storage.files import file_digest
from oriel.storage.monitoring import STATUS_FILE

_STATE_VERSION = re.compile(r"(\d+)(?:\.\d+)?\.json")
#: The file with which a sink records that a batch is in its output topic.
_PUBLISHED = re.compile(r"published-(\d{12})\.json")
#: A last field that is as long as a digest, but has another name.
_DAMAGED_DIGEST = re.compile(rb',"[^"]*":"[^"]{21}"\}$')
#: The cause in the message of an error about a damaged state version.
_CAUSE = re.compile(r"is damaged \((.+)\)\.")
#: The number of state versions that a start can need. It commits the newest batch, or computes it
#: again from the version before. Older versions are leftovers.
_NEEDED = 2
_JSON_ERRORS = (CheckpointError, KeyError, TypeError, ValueError)


def store_of(state: Path) -> str:
    """Return the name of the store or sink of a state directory, without the generation."""
    return state.name.partition("@")[0]


def versions_of(state: Path) -> StateVersions:
    """Return the versions of a state. To load a version of another application fails."""
    return StateVersions(state, sync=False, application=application_of(state.parent.parent))


def application_of(checkpoint: Path) -> str | None:
    """Return the application id of a checkpoint, or None if it cannot be read."""
    try:
        content = current_files().read(checkpoint / "application.json")
        return str(orjson.loads(without_digest(content))["application"])
    except (OSError, KeyError, TypeError, ValueError):
        # Another check reports the file.
        return None


def prepared_batches(state: Path) -> list[int]:
    """Return the prepared batches that a state directory has files of, ascending."""
    matches = filter(None, map(_STATE_VERSION.fullmatch, current_files().names(state)))
    return sorted({int(match[1]) for match in matches})


class CheckpointFiles(Check):
    """Check the JSON files of a checkpoint, except for state versions."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return site.checkpoints

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        files = current_files()
        states = [subject / "state" / name for name in files.names(subject / "state")]
        for directory in (subject, subject / "epochs", *states):
            for name in sorted(files.names(directory)):
                if not name.endswith(".json") or name.startswith(".") or name == STATUS_FILE:
                    continue
                if directory.parent.name == "state" and _STATE_VERSION.fullmatch(name):
                    continue
                try:
                    content = files.read(directory / name)
                    site.count(len(content))
                    _parse(subject, directory, name, content)
                except FileNotFoundError:
                    continue
                except _JSON_ERRORS as error:
                    problem = f"the file is damaged ({first_line(error)})"
                    yield Finding(directory / name, problem, RESTORE)
        if files.is_directory(subject / "lock"):
            yield Finding(subject / "lock", "the file is a directory", "Delete the directory")
        application = subject / "application.json"
        if states and not files.exists(application):
            yield Finding(application, "the file is missing", RESTORE)
        elif found := _other_application(subject, states):
            yield Finding(application, found, RESTORE)


def _other_application(checkpoint: Path, states: Iterable[Path]) -> str | None:
    """Return the problem if ``application.json`` has an id that no state has."""
    own, owners = application_of(checkpoint), set()
    for state in states:
        for batch in prepared_batches(state)[-_NEEDED:]:
            # The state version is damaged, or an earlier version of Oriel wrote no owner.
            with suppress(OSError, KeyError, TypeError, ValueError):
                content = current_files().read(StateVersions(state, sync=False).path(batch))
                owners.add(str(orjson.loads(without_digest(content))["owner"]["application"]))
    if own is None or not owners or own in owners:
        return None
    return f"the file is of application {own}, the states are of {', '.join(sorted(owners))}"


def _parse(checkpoint: Path, directory: Path, name: str, content: bytes) -> None:
    """Read a JSON file of a checkpoint as the pipeline does."""
    fields = orjson.loads(_checked_content(content))
    if directory == checkpoint and name == "application.json":
        str(fields["application"])
    elif name.startswith("published-"):
        CommitRecord(**fields)
    elif name == "sink.json":
        SinkDefinition.recorded(checkpoint, store_of(directory))


def _checked_content(content: bytes) -> bytes:
    """Return a JSON object without its digest.

    Raises:
        ValueError: The digest does not match the content, or the name of the digest is damaged.
    """
    json_object = without_digest(content)
    if json_object == content and _DAMAGED_DIGEST.search(content):
        message = "the name of its digest is damaged"
        raise ValueError(message)
    return json_object


class States(Check):
    """Check the state versions of each store, and the state files that they refer to."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return site.states

    def find(self, site: Site, subject: Path, only: Collection[Path] | None) -> Iterator[Finding]:
        if not current_files().is_directory(subject):
            return
        versions = versions_of(subject)
        loaded: list[PreparedBatch] = []
        batches = prepared_batches(subject)
        for batch in batches:
            try:
                with suppress(FileNotFoundError):
                    _checked_content(current_files().read(versions.path(batch)))
                prepared = versions.load(batch)
            except (CheckpointError, ValueError) as error:
                cause = _CAUSE.search(str(error))
                reason = cause[1] if cause else first_line(error)
                problem = f"the state version is damaged ({reason})"
                yield Finding(versions.path(batch), problem, rebuild(store_of(subject)))
                continue
            # The pipeline can delete the state version meanwhile.
            if prepared is not None:
                site.count(0)
                loaded += [prepared] if batch >= batches[-1] - 1 else []
        # The newest batch of a sink that is in its output topic.
        marks = filter(None, map(_PUBLISHED.fullmatch, current_files().names(subject)))
        published = max((int(match[1]) for match in marks), default=-1)
        if published > max(batches, default=-1):
            problem = f"batch {published} is in the output topic, but its state version is missing"
            yield Finding(versions.path(published), problem, RESTORE)
        for name in sorted({name for prepared in loaded for name in prepared.state_files}):
            path = subject / name
            if only is not None and path not in only:
                continue
            found = _segment_problem(site, path)
            if found is not None:
                yield Finding(path, found, rebuild(store_of(subject)))


class ReplayMarks(Check):
    """Check the marks of dead letters that were replayed."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return [site.layout.replayed]

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        try:
            read_replays(site.layout)
        except StorageError as error:
            problem = "the marks of replayed dead letters are damaged"
            action = f"{RESTORE}. Without it, `oriel dead-letters replay` sends all records again"
            yield Finding(subject, f"{problem} ({type(error.__cause__).__name__})", action)


def _segment_problem(site: Site, path: Path) -> str | None:
    """Return the problem of a state file, or None."""
    try:
        with current_files().open(path) as source:
            site.count(source.size())
            named = named_digest(path.name)
            if named is not None:
                if file_digest(source) == named:
                    return None
                return "the state file does not have the digest in its name"
            # A file of an earlier version of Oriel has no digest in its name.
            file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                file.get_batch(number).validate(full=True)
    except FileNotFoundError:
        return "the state file is missing"
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"the state file cannot be read ({first_line(error)})"
    return None


def newest_prepared(state: Path) -> PreparedBatch | None:
    """Return the newest prepared batch that can be read, or None."""
    versions = versions_of(state)
    for batch in reversed(prepared_batches(state)[-_NEEDED:]):
        with suppress(CheckpointError):
            prepared = versions.load(batch)
            if prepared is not None:
                return prepared
    return None


def is_state_of_store(state: Path) -> bool:
    """Return whether a state belongs to a store. A sink has a state, but no table."""
    return not is_sink_name(store_of(state))
