"""Every reader of the files of a data directory, in one process and without Spark.

A reader returns what it has read, or raises the error that a user would see. Readers that write use
``Place.scratch``, with copies of the files that they change.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa

from oriel.app.server import Service
from oriel.pipeline.commit import (
    Checkpoint,
    SinkDefinition,
    SinkTopic,
    StateVersions,
    StoreBatches,
    StoreTables,
    check_log,
)
from oriel.pipeline.operations import compact, verify
from oriel.pipeline.operations.backups import restore
from oriel.pipeline.operations.dead_letters import command as dead_letters
from oriel.pipeline.operations.verification import CHECKS, Check, Finding, Site, confirmed
from oriel.pipeline.plan import StorePlans
from oriel.pipeline.run.batches.final_rows import final_rows_up_to
from oriel.pipeline.state import open_segment
from oriel.storage import DataLayout, ScanRange, StoreDefinition
from oriel.storage.delta import arrow_type
from oriel.storage.index import IndexDirectory, IndexReader, raise_findings, trust
from oriel.storage.index.check import find_damage
from oriel.storage.index.directory import write_marker
from oriel.storage.index.reading.reader import _open_readers as open_indexes
from oriel.storage.layout import DEAD_LETTERS
from oriel.storage.tailer import require_verifications
from tests.app.api_client import ApiClient
from tests.system.damage.served import follow

#: More rows than any store of the campaign has.
_ROWS_MAX = 1_000


class Refused(Exception):
    """A reader rejects a file. The text is the message for its user."""


class Unclear(Exception):
    """A reader fails without an error message for its user."""


@dataclass(frozen=True)
class Known:
    """The definition and state of a store that a pipeline has from its topology."""

    definition: Any
    checkpoint: Path
    application: str
    batch: int = -1
    version: int = -1


@dataclass(frozen=True)
class Place:
    """The data directory, and a directory for the readers' output.

    Attributes:
        data: The data directory.
        scratch: The directory for files that readers write.
        stores: The stores and sinks by name.
        logs: The event log that each checkpoint records.
    """

    data: Path
    scratch: Path
    stores: dict[str, Known]
    logs: dict[str, dict[str, str]]

    @property
    def layout(self) -> DataLayout:
        """Return the layout of the data directory."""
        return DataLayout(self.data)

    def copy(self, *paths: str) -> DataLayout:
        """Return the layout of a new data directory with copies of some paths."""
        target = self.scratch / "copy"
        shutil.rmtree(target, ignore_errors=True)
        for path in paths:
            if (self.data / path).is_dir():
                shutil.copytree(self.data / path, target / path, dirs_exist_ok=True)
        return DataLayout(target)

    def with_index(self, store: str = "") -> DataLayout:
        """Return the layout with a copy of a store's index, or without indexes."""
        layout = DataLayout(self.data, self.scratch / "index")
        shutil.rmtree(layout.indexes, ignore_errors=True)
        if store:
            shutil.copytree(self.layout.index(store), layout.index(store))
        return layout


@cache
def _service(data: Path) -> ApiClient:
    """Return a client of a cached service, because a start is slower than a request."""
    return ApiClient(Service(data))


def _get(layout: DataLayout, *targets: str) -> list[Any]:
    client = _service(layout.root)
    return [_body(client, target) for target in targets]


def _body(client: ApiClient, target: str) -> Any:
    response = client.get(target)
    if response.status == 200:
        return response.json
    text = response.json.get("detail", "")
    if response.status in {404, 410, 503}:
        raise Refused(text)
    message = f"{target}: status {response.status}: {text}"
    raise Unclear(message)


def _rows(body: dict[str, Any]) -> dict[str, Any]:
    assert body["next_cursor"] is None
    rows = body.get("windows", body.get("rows"))
    return {"rows": rows, "offsets": body["position"]["offsets"]}


def _all(store: str) -> str:
    return f"/v1/stores/{store}/all?limit=1000"


def as_of(place: Place, subject: str) -> Any:
    """Read a version of a table through the service: ``STORE@VERSION``."""
    store, _, version = subject.partition("@")
    (body,) = _get(place.layout, f"{_all(store)}&as_of_version={version}")
    return _rows(body)


def rebuilt(place: Place, store: str) -> Any:
    """Build the index of a store from its table, and read all rows."""
    layout = place.with_index()
    _follow(layout, store)
    return _indexed(layout, store)


def _indexed(layout: DataLayout, store: str) -> Any:
    """Read all rows of an index, like a worker that opens it."""
    reader = IndexReader(IndexDirectory(layout.index(store)))
    try:
        with reader.snapshot() as snapshot:
            page = snapshot.scan(ScanRange(limit=_ROWS_MAX))
            assert page.next_after is None
            return page.entries, snapshot.state.offsets
    finally:
        reader.close()


def changes(place: Place, store: str) -> Any:
    """Read the changes since the first version, with an intact index."""
    (body,) = _get(place.layout, f"/v1/stores/{store}/changes?since_version=0")
    return {name: body[name] for name in ("changes", "through_version", "next_cursor")}


def verified_index(place: Place, store: str) -> Any:
    """Read the index after the tailer has verified or rebuilt it."""
    layout = place.with_index(store)
    require_verifications(layout)
    _follow(layout, store)
    return _indexed(layout, store)


def index_of_killed_writer(place: Place, store: str) -> Any:
    """Read an index without a digest, because its writer was killed."""
    layout = place.with_index(store)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for mark in layout.index(store).glob("generation-*/WRITTEN"):
        # As the writer does, which continues if the damage prevents it.
        write_marker(mark, f"open {boot}")
    require_verifications(layout)
    with patch.object(trust, "verify_in_subprocess", _look_in_fork):
        _follow(layout, store)
    return _indexed(layout, store)


def _look_in_fork(generation: Path) -> None:
    """Check a generation in a fork, because a new Python process is slower than the check."""
    with tempfile.TemporaryFile("w+") as found:
        process = os.fork()
        if process == 0:
            try:
                found.write(find_damage(generation) or "")
                found.flush()
            finally:
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        found.seek(0)
        problem = found.read()
    raise_findings(generation, code or bool(problem), problem, "")


def _follow(layout: DataLayout, store: str) -> None:
    problem = follow(layout, store)
    if problem is not None:
        raise Refused(problem)


def opened_store(place: Place, store: str) -> Any:
    """Open the table and the state of a store, like a start of the pipeline."""
    known = place.stores[store]
    states = known.checkpoint.relative_to(place.data) / "state" / known.definition.state_name
    layout = place.copy(f"tables/{store}", "tables/_dead_letters", str(states))
    tables = StoreTables(layout, known.definition, _types(known.definition), sync=False)
    return _recovered(layout.root / states, tables, known)


def _types(definition: StoreDefinition) -> dict[str, pa.DataType]:
    return {each.name: arrow_type(each.type) for each in definition.aggregates}


def _recovered(states: Path, tables: StoreTables | SinkTopic, known: Known) -> Any:
    versions = StateVersions(states, sync=False, application=known.application)
    is_sink = isinstance(tables, SinkTopic)
    plans = SimpleNamespace(store=SimpleNamespace(is_sink=is_sink, name=tables.definition.name))
    plans.select_columns = lambda _key_groups: None
    batches = StoreBatches(cast("StorePlans", plans), tables, versions, tasks=2)
    recovered = batches.recover()
    if recovered is None:
        # The first batch is rejected if the table has other batches.
        batches.begin(0, {})
    assert recovered is not None
    prepared = versions.prepared(recovered.batch)
    files = sorted(prepared.state_files) if prepared is not None else []
    state = {name: open_segment(states, name) for name in files}
    return {
        "batch": recovered.batch, "starts": recovered.starts, "ends": recovered.ends,
        "prepared": prepared, "state": {name: _content(table) for name, table in state.items()},
    }  # fmt: skip


def _content(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def opened_sink(place: Place, sink: str) -> Any:
    """Open the state of a sink, like a start of the pipeline."""
    known = place.stores[sink]
    layout = place.copy(str(known.checkpoint.relative_to(place.data)), "tables/_dead_letters")
    directory = layout.checkpoint(known.checkpoint.name)
    defined = known.definition
    assert isinstance(defined, SinkDefinition)
    with Checkpoint(directory, sync=False) as checkpoint:
        topic = SinkTopic(layout, checkpoint, defined, lambda *_: None, sync=False)
    found = _recovered(topic.table_directory, topic, known)
    return {**found, "published": topic.newest_record()}


def opened_checkpoint(place: Place, name: str) -> Any:
    """Open a checkpoint, like a start of the pipeline."""
    path = f"checkpoints/{name}"
    layout = place.copy(path)
    directory = layout.checkpoint(name)
    check_log(directory, place.logs[name], sync=False)
    with Checkpoint(directory, sync=False) as checkpoint:
        # A start then reads the states of its stores, which name the application.
        for state in sorted((directory / "state").iterdir()):
            versions = checkpoint.versions(state.name)
            versions.load(versions.newest())
        return checkpoint.application


def final_rows(place: Place, store: str) -> Any:
    """Read the final rows of a store, like the stores over it."""
    known = place.stores[store]
    states = known.checkpoint / "state" / known.definition.state_name
    prepared = StateVersions(states, sync=False).prepared(known.batch)
    rows = final_rows_up_to(place.layout.table(store), known.batch, prepared)
    return sorted(map(str, rows.to_pylist()))


def compacted(place: Place, store: str) -> Any:
    """Compact a table, then read it through the service."""
    layout = place.copy(f"tables/{store}")
    _command(compact.main, store, "--data", layout.root, "--all")
    if store == DEAD_LETTERS:
        return _dead_letters(layout)
    _follow(layout, store)
    return _indexed(layout, store)


def served_dead_letters(place: Place, _store: str) -> Any:
    """List and count dead letters through the service."""
    return _dead_letters(place.layout)


def _dead_letters(layout: DataLayout) -> Any:
    page, counts = _get(layout, "/v1/deadLetters?limit=1000", "/v1/deadLetters/count")
    dead_letters = sorted(page["letters"], key=str)
    return dead_letters, {name: counts[name] for name in counts if name != "version"}


def listed_dead_letters(place: Place, _store: str) -> Any:
    """List dead letters with the command."""
    return sorted(_command(dead_letters.main, "list", "--json", "--data", place.data).splitlines())


def restored(place: Place, _path: str) -> Any:
    """Restore the backup, and return the content of all its files."""
    target = place.scratch / "restored"
    shutil.rmtree(target, ignore_errors=True)
    _command(restore.main, "--from", place.data / "backup", "--data", target)
    found = {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()}
    return {str(path.relative_to(target)): content for path, content in found.items()}


def health(place: Place, _path: str) -> Any:
    """Request the pages on the state of the service.

    Return nothing, because all values can vary.
    """
    client = _service(place.data)
    for target in ("/healthz", "/readyz", "/metrics", "/v1/status", "/v1/stores"):
        response = client.get(target)
        if response.status not in {200, 503}:
            message = f"{target}: status {response.status}: {response.body[:300]!r}"
            raise Unclear(message)


def _command(main: Callable[[list[str]], int], *arguments: object) -> str:
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = main([str(argument) for argument in arguments])
    if code:
        raise Refused(errors.getvalue())
    return output.getvalue()


@dataclass(frozen=True)
class _Near(Check):
    """A check that is limited to the subjects that contain a path."""

    check: Check
    path: Path

    def subjects(self, site: Site) -> list[Path]:
        return [one for one in self.check.subjects(site) if self.path.is_relative_to(one)]

    def find(self, site: Site, subject: Path, only: Any) -> Any:
        return self.check.find(site, subject, only)


def findings(place: Place, path: str) -> list[Finding]:
    """Return the damage that ``oriel verify`` finds near a path."""
    # The command has a process of its own. LMDB opens a file only once per process.
    for reader in list(open_indexes):
        reader.close()
    site = Site(place.layout, shows_progress=False)
    checks = [_Near(check, place.data / path) for check in CHECKS]
    return [finding for finding in confirmed(site, checks) if finding.is_damage]


def verified_backup(place: Place, _path: str) -> None:
    """Check the backup with ``oriel verify``. Findings are on stdout, errors on stderr."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = verify.main(["--backup", str(place.data / "backup")])
    if code:
        raise Refused(output.getvalue() + errors.getvalue())
