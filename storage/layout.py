"""The paths of all data below the data directory.

    DATA/tables/<store>/               one Delta table per store
    DATA/tables/_dead_letters/         the Delta table of dead letters
    DATA/final/<store>/                the Delta table of the final rows of a store, if it has one
    DATA/checkpoints/<application>/    Spark's checkpoint and the state of the engine
    DATA/index/_format-<n>/<store>/    the LMDB index, which can be deleted
    DATA/replayed/                     which dead letters were replayed
    DATA/rebuilds/<store>/             output of `oriel rebuild`, until it replaces the table
    DATA/topologies/                   the topology of each pipeline, for the service
    DATA/logs/                         logs of Spark and Java (``pipeline/spark/log_file.py``)

The index is an LMDB file, so it must be on a local disk. If the data directory is in an object
store, the index has its own directory.

A store name can't start with an underscore, so it never equals ``_dead_letters``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.errors import InvalidDefinition
from oriel.storage.shards import ALL_KEYS, Shard

_STORE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

#: The start of the names of sinks.
_SINK = "to("

DEAD_LETTERS = "_dead_letters"

#: Increases with every change of the content or encoding of an index. It is a part of the directory
#: name, so two versions of the program in one data directory never use each other's indexes.
INDEX_FORMAT = 5


@dataclass(frozen=True)
class DataLayout:
    """The paths below one data directory."""

    root: Path
    #: The directory of the indexes. None: below ``root``.
    index_root: Path | None = None
    #: The keys that the indexes have.
    shard: Shard = ALL_KEYS

    @property
    def tables(self) -> Path:
        """The parent directory of all Delta tables."""
        return self.root / "tables"

    @property
    def indexes(self) -> Path:
        """The parent directory of all indexes in this program's format."""
        # Services of several shards can share one data directory.
        shard_suffix = (
            "" if self.shard.is_all else f"-shard-{self.shard.number}-of-{self.shard.count}"
        )
        return self.index_formats / f"_format-{INDEX_FORMAT}{shard_suffix}"

    @property
    def index_formats(self) -> Path:
        """The parent directory of the indexes of all formats."""
        return self.index_root or self.root / "index"

    @property
    def dead_letters(self) -> Path:
        """The dead-letter table."""
        return self.tables / DEAD_LETTERS

    @property
    def replayed(self) -> Path:
        """The file that records which dead letters were sent again."""
        return self.root / "replayed" / f"{DEAD_LETTERS}.jsonl"

    def table(self, store: str) -> Path:
        """Return the path of the Delta table of ``store``."""
        return self.tables / check_store_name(store)

    def final_table(self, store: str) -> Path:
        """Return the path of the Delta table of the final rows of ``store``."""
        return self.root / "final" / check_store_name(store)

    def index(self, store: str) -> Path:
        """Return the path of the index of ``store``."""
        return self.indexes / check_store_name(store)

    @property
    def checkpoints(self) -> Path:
        """The parent directory of all checkpoints."""
        return self.root / "checkpoints"

    @property
    def topologies(self) -> Path:
        """The directory of the topologies that pipelines have recorded."""
        return self.root / "topologies"

    def rebuild(self, store: str) -> Path:
        """Return the data directory in which ``store`` is computed again."""
        return self.root / "rebuilds" / store

    def checkpoint(self, application: str) -> Path:
        """Return the checkpoint directory of the streaming query of one topology."""
        return self.checkpoints / application


def sink_name(topic: str) -> str:
    """Return the name of the sink that writes to ``topic``. It is not a valid name of a store."""
    return f"{_SINK}{topic})"


def is_sink_name(name: str) -> bool:
    """Return True if a name is the name of a sink, and not of a store."""
    return name.startswith(_SINK)


def check_store_name(store: str) -> str:
    """Return ``store`` if it is a valid store name.

    Raises:
        InvalidDefinition: the name is not 1 to 128 letters, digits, dots, underscores
            or hyphens beginning with a letter or digit.
    """
    if not isinstance(store, str) or not _STORE_NAME.fullmatch(store):
        message = (
            f"store name {store!r} is not valid. Use 1 to 128 letters, digits, '.', '_' or '-', "
            "and begin with a letter or digit"
        )
        raise InvalidDefinition(message)
    return store
