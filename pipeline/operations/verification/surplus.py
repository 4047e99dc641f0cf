"""Find files of a data directory that nothing refers to. They are harmless."""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.operations.verification.findings import Check, Finding, Site
from oriel.pipeline.operations.verification.states import (
    is_state_of_store,
    prepared_batches,
    store_of,
    versions_of,
)
from oriel.storage import current_files
from oriel.storage.delta import LOG_DIRECTORY, has_table

_CAN_STAY = "It can stay: the pipeline removes it when no batch can need it"
_DELETE = "Delete it if no process of Oriel runs"

#: The names of directories and files that a data directory can have.
_KNOWN = {"tables", "checkpoints", "index", "replayed", "rebuilds", "logs", "final", "topologies"}
_LOCK = re.compile(r"\.tailer.*\.lock|lost\+found")


class SurplusFiles(Check):
    """Report unknown names, and files that no table version and no state version refers to."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return [site.layout.root, *site.tables, *site.states]

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        if subject == site.layout.root:
            yield from _of_directory(site)
        elif subject.parent == site.layout.tables:
            view = site.table(subject)
            # The files that a damaged log refers to are unknown.
            names = () if view.problems else sorted(current_files().names(subject))
            for name in names:
                if name == LOG_DIRECTORY or name in view.live or name in view.removed:
                    continue
                # Other names are directories of partitions and markers of other tools.
                if name.endswith(".parquet"):
                    problem = "no version of the table refers to the data file"
                    yield Finding(subject / name, problem, _CAN_STAY, is_damage=False)
        else:
            yield from _of_state(site, subject)


def _of_directory(site: Site) -> Iterator[Finding]:
    layout, files = site.layout, current_files()
    for name in sorted(files.names(layout.root)):
        if name not in _KNOWN and not _LOCK.fullmatch(name):
            problem = "no part of a data directory has this name"
            yield Finding(layout.root / name, problem, _DELETE, is_damage=False)
    for name in sorted(files.names(layout.tables)):
        if not has_table(layout.tables / name):
            path = layout.tables / name
            yield Finding(path, "it is not a table", _DELETE, is_damage=False)
    for name in sorted(files.names(layout.index_formats)):
        current = layout.indexes.name
        if name.startswith("_format-") and name.partition("-shard-")[0] != current:
            problem = f"the indexes do not have the format of this version, {current}"
            action = "Delete the directory if no other version of Oriel serves this data directory"
            yield Finding(layout.index_formats / name, problem, action, is_damage=False)
    for name in sorted(files.names(layout.root / "rebuilds")):
        problem = "a rebuild of this store runs, or was interrupted"
        action = "Run the rebuild again, or delete the directory"
        yield Finding(layout.rebuild(name), problem, action, is_damage=False)


def _of_state(site: Site, state: Path) -> Iterator[Finding]:
    table = site.layout.table(store_of(state)) if is_state_of_store(state) else None
    definition = site.table(table).definition if table is not None and has_table(table) else None
    if definition is not None and definition.state_name != state.name:
        problem = f"the table refers to the state {definition.state_name}"
        yield Finding(state, problem, _CAN_STAY, is_damage=False)
        return
    versions, named = versions_of(state), set[str]()
    for batch in prepared_batches(state):
        try:
            prepared = versions.load(batch)
        except CheckpointError:
            # Another check reports it, and the files that it refers to are unknown.
            return
        named |= set() if prepared is None else prepared.state_files
    for name in sorted(current_files().names(state)):
        if name.endswith(".arrow") and name not in named:
            problem = "no state version refers to the state file"
            yield Finding(state / name, problem, _CAN_STAY, is_damage=False)
