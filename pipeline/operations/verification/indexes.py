"""Check indexes: the file, and each row against the table."""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from oriel.pipeline.operations.verification.findings import Check, Finding, Site, first_line
from oriel.storage import ALL_KEYS, Shard, StorageError, current_files, errors
from oriel.storage.delta import has_table
from oriel.storage.index import (
    IndexDirectory,
    damage,
    data_bytes,
    index_differences,
    verify_in_subprocess,
)

_SHARD = re.compile(r"(?P<format>_format-\d+)(?:-shard-(?P<number>\d+)-of-(?P<count>\d+))?")
_REBUILD = "Delete the directory of this index: the service rebuilds it from the table"


class Indexes(Check):
    """Check the index of each store, in the format that this version of Oriel reads."""

    of_backups = False

    def subjects(self, site: Site) -> Iterable[Path]:
        formats = site.layout.index_formats
        for name in sorted(current_files().names(formats)):
            match = _SHARD.fullmatch(name)
            if match is None or match["format"] != site.layout.indexes.name:
                continue
            stores = sorted(current_files().names(formats / name))
            # The names of the tailer's own files begin with an underscore.
            yield from (formats / name / store for store in stores if not store.startswith("_"))

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        table = site.layout.table(subject.name)
        generation = IndexDirectory(subject).current()
        if generation is None:
            if any(subject.glob("generation-*")):
                problem = "it refers to an index that does not exist"
                yield Finding(subject / "CURRENT", problem, _REBUILD)
            return
        path = generation / "data.mdb"
        site.count(data_bytes(generation))
        found = damage(generation)
        if found is not None:
            yield Finding(path, f"the index is damaged ({found})", _REBUILD)
            return
        if not has_table(table) or site.table(table).problems:
            # Another check reports the problem of the table.
            return
        try:
            for problem in _problems(generation, table):
                yield Finding(path, problem, _REBUILD)
        except errors.IndexDamaged as error:
            yield Finding(path, first_line(error), _REBUILD)
        except StorageError as error:
            problem = f"the index cannot be compared with the table ({first_line(error)})"
            yield Finding(path, problem, "Repeat the check when the service has caught up")


def _problems(generation: Path, table: Path) -> Iterator[str]:
    shard = _SHARD.fullmatch(generation.parent.parent.name)
    assert shard is not None
    verify_in_subprocess(generation)
    shard_keys = Shard(int(shard["number"]), int(shard["count"])) if shard["count"] else ALL_KEYS
    yield from index_differences(generation, table, shard_keys)
