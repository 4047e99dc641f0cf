"""Check every reader of a damaged file: ``python -m tests.system.damage.flips DATA SCRATCH``.

The process reads commands with a path, one per line. It prints the problems of the responses of the
file's readers as a JSON list. The test needs a separate process, because a damaged index can end
it.
"""

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import orjson

from oriel.pipeline.commit import SinkDefinition
from oriel.pipeline.errors import PipelineError
from oriel.storage import DataLayout, StorageError, disk_problem
from oriel.storage.delta import LOG_DIRECTORY, DeltaLog
from oriel.storage.layout import DEAD_LETTERS
from oriel.storage.tailer import stores_with_tables
from tests.system.damage import readers
from tests.system.damage.readers import Known, Place, Refused, Unclear

#: A message about damage must contain a solution from this list.
SOLUTION = re.compile(
    r"[Rr]estore|rebuil|[Rr]emove|[Dd]elete|[Rr]etry|again|back from a backup|start .*empty|"
    r"[Uu]pgrade|[Rr]ead the store again|give .* up|[Nn]ame the (folder|directory)|--name|"
    r"[Rr]un the|another backup|[Ii]t is at version|Request a version"
)
Reader = Callable[[Place, str], Any]


#: This fraction (1 in 8) of damaged indexes is read as if the writer was killed, in a process.
_KILLED_WRITERS = 8
#: This many readers read a damaged file. Other damages test the other readers.
_READERS = 3
#: The readers of files by their path, and the group of the path with their subject.
_READERS_OF: dict[str, tuple[int, list[Reader]]] = {
    r"tables/([^/]+)/.*": (1, [
        readers.served_dead_letters, readers.listed_dead_letters, readers.compacted,
    ]),
    r"checkpoints/[^/]+/state/(to\([^/]+)/.*": (1, [readers.opened_sink]),
    r"checkpoints/[^/]+/state/([^/@]+).*": (1, [readers.opened_store]),
    r"checkpoints/[^/]+/status\.json": (0, [readers.health]),
    r"checkpoints/([^/]+)/.*": (1, [readers.opened_checkpoint]),
    r"index/[^/]+/[^/]+": (0, [readers.health]),
    r"replayed/.*": (0, [readers.served_dead_letters, readers.listed_dead_letters]),
    r"backup/.*": (0, [readers.restored, readers.verified_backup]),
}  # fmt: skip


class Readers:
    """The readers of each file, and their results for the intact directory."""

    def __init__(self, data: Path, scratch: Path) -> None:
        layout = DataLayout(data)
        logs = {path.name: _log(path) for path in layout.checkpoints.iterdir()}
        self._place = Place(data, scratch, dict(_known(layout)), logs)
        self._wanted: dict[tuple[Reader, str], list[Any]] = {}
        self._draws = 0

    def learn(self, path: Path) -> None:
        """Record the results of the readers of an intact file."""
        for reader, subject in self._readers(path, is_every=True):
            if (reader, subject) not in self._wanted:
                self._wanted[reader, subject] = list(self._right(reader, subject))

    def wrong(self, path: Path) -> tuple[list[str], bool]:
        """Return the problems of the readers of a damaged file, and whether a reader rejects it."""
        wrong, is_refused = [], False
        self._draws += 1
        every = self._readers(path, is_every=False)
        for reader, subject in Random(self._draws).sample(every, min(len(every), _READERS)):
            read_name = f"{reader.__name__}({subject})"
            try:
                found = _read(reader, self._place, subject)
            except Refused as refused:
                is_refused = True
                wrong += [f"{read_name}: {problem}" for problem in _unclear(path, str(refused))]
            except Unclear as unclear:
                wrong.append(f"{read_name}: {unclear}")
            else:
                if found not in self._wanted[reader, subject]:
                    wrong.append(
                        f"{read_name}: {_difference(found, self._wanted[reader, subject])}"
                    )
        if is_refused:
            wrong += self._not_found(path)
        return wrong, is_refused

    def _right(self, reader: Reader, subject: str) -> Iterator[Any]:
        """Yield each right result of a reader: the file can be whole, or its version is deleted."""
        found = _read(reader, self._place, subject)
        yield found
        if reader is readers.opened_store:
            # The pipeline computes the state of a damaged prepared batch again.
            yield {**found, "prepared": None, "state": {}}
            # A store that has committed its newest batch does not need the batch before it.
            yield {**found, "starts": {}}
            # Without the stream times that were set, the earlier ones count again.
            known = self._place.stores[subject]
            state = known.checkpoint / "state" / known.definition.state_name
            for override in state.glob("clock-*.json"):
                with _renamed(override):
                    yield _read(reader, self._place, subject)
        if reader is readers.opened_sink:
            # Without a note, the newest batch is published again.
            yield {**found, "published": None}
        table = self._place.layout.tables / subject
        if (table / LOG_DIRECTORY).is_dir():
            # An incomplete newest entry is not committed yet.
            newest = max((table / LOG_DIRECTORY).glob("*.json"))
            with _renamed(newest), suppress(Refused):
                yield _read(reader, self._place, subject)

    def _not_found(self, path: Path) -> Iterator[str]:
        """Yield why ``oriel verify`` does not find a damaged file."""
        if path.parts[0] == "backup":
            return
        damaged = self._place.data / path
        if damaged.parent.name == LOG_DIRECTORY and not damaged.exists():
            # Without the newest entry, the table is at the previous version, which is not damage.
            return
        # A digest mismatch is reported for the file that has the digest.
        names = {damaged, damaged.with_suffix(".parquet"), *damaged.parents}
        # The stream times that were set belong to the prepared batch next to them.
        names.add(damaged.with_name(damaged.name.removeprefix("clock-")))
        try:
            findings = _read(readers.findings, self._place, str(path))
        except (Refused, Unclear) as error:
            yield f"oriel verify: {error}"
        else:
            if names.isdisjoint(one.path for one in findings):
                yield f"oriel verify does not name it: {findings}"

    def _readers(self, path: Path, *, is_every: bool) -> list[tuple[Reader, str]]:
        """Return the readers of a file with their subjects."""
        match path.parts:
            case ["tables", str(store), *_] if store != DEAD_LETTERS:
                return self._readers_of_table(store)
            case ["index", _, str(store), _, *_]:
                # The tailer's own files are not in a store's directory.
                found: list[Reader] = [readers.verified_index]
                if is_every or self._draws % _KILLED_WRITERS == 0:
                    found.append(readers.index_of_killed_writer)
                return [(reader, store) for reader in found]
        for pattern, (group, found) in _READERS_OF.items():
            match_ = re.fullmatch(pattern, path.as_posix())
            if match_ is not None:
                return [(reader, match_[group] if group else "") for reader in found]
        message = f"nobody reads {path}"
        raise ValueError(message)

    def _readers_of_table(self, store: str) -> list[tuple[Reader, str]]:
        known = self._place.stores[store]
        found: list[Reader] = [
            readers.rebuilt, readers.changes, readers.opened_store, readers.compacted,
        ]  # fmt: skip
        if known.definition.window.kind.is_windowed:
            found.append(readers.final_rows)
        versions = [f"{store}@{known.version}", f"{store}@{known.version // 2}"]
        return [(reader, store) for reader in found] + [(readers.as_of, v) for v in versions]


@contextmanager
def _renamed(path: Path) -> Iterator[None]:
    """Rename a file for the time of a ``with`` block, as if it were deleted."""
    renamed = path.rename(path.with_suffix(".aside"))
    try:
        yield
    finally:
        renamed.rename(path)


def _known(layout: DataLayout) -> Iterator[tuple[str, Known]]:
    for store in stores_with_tables(layout):
        snapshot = DeltaLog(layout.table(store)).snapshot()
        names = [path.parents[1].name for path in layout.checkpoints.glob(f"*/state/{store}")]
        batch = -1 if snapshot.record is None else snapshot.record.batch
        application = snapshot.definition.application
        checkpoint = layout.checkpoint(names[0])
        yield store, Known(snapshot.definition, checkpoint, application, batch, snapshot.version)
    for directory in layout.checkpoints.glob("*/state/to(*)"):
        checkpoint = directory.parents[1]
        defined = SinkDefinition.recorded(checkpoint, directory.name)
        assert defined is not None
        application = orjson.loads((checkpoint / "application.json").read_bytes())["application"]
        yield directory.name, Known(defined, checkpoint, application)


def _log(checkpoint: Path) -> dict[str, str]:
    recorded: dict[str, str] = orjson.loads((checkpoint / "log.json").read_bytes())
    return {name: text for name, text in recorded.items() if name != "digest"}


def _read(reader: Reader, place: Place, subject: str) -> Any:
    """Return the result of a reader.

    Raises:
        Refused: The reader reports the problem to its user.
        Unclear: The reader fails in another way.
    """
    try:
        return reader(place, subject)
    except (PipelineError, StorageError) as error:
        raise Refused(str(error)) from error
    except OSError as error:
        # Commands print disk errors in this form.
        problem = disk_problem(error)
        if problem is None:
            raise Unclear(str(error)) from error
        raise Refused(problem) from error
    except (Refused, Unclear):
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__} at {last.filename}:{last.lineno}: {error}"
        raise Unclear(message) from error


def _unclear(path: Path, text: str) -> Iterator[str]:
    """Yield why a message is not clear."""
    if not SOLUTION.search(text):
        yield f"no solution: {text}"
    if not any(part in text for part in path.parts) and not re.search(r"version \d+", text):
        yield f"no name: {text}"


def _difference(found: Any, wanted: list[Any]) -> str:
    """Return a short description of the difference from the right results."""
    if isinstance(found, dict) and isinstance(wanted[0], dict):
        names = [name for name in found if found[name] != wanted[0].get(name)]
        return f"other {names}: {str([found[name] for name in names])[:300]}"
    return f"{str(found)[:300]} not {str(wanted)[:300]}"


def main(arguments: list[str]) -> None:
    """Check each path from stdin, after the lines with intact files."""
    logging.disable(logging.CRITICAL)
    data, scratch = map(Path, arguments)
    checked = Readers(data, scratch)
    responses, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        command, path = orjson.loads(line)
        found = None
        if command == "learn":
            checked.learn(Path(path))
        else:
            found = checked.wrong(Path(path))
        responses.write(orjson.dumps(found).decode() + "\n")
        responses.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
