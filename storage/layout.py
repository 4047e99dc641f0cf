"""Where each thing lives below the data directory.

    DATA/tables/<store>/               one Delta table per store
    DATA/tables/_dead_letters/         the dead-letter Delta table
    DATA/checkpoints/<application>/    Spark's checkpoint and the engine's state
    DATA/index/_format-<n>/<store>/    the disposable LMDB index
    DATA/replayed/                     which dead letters were replayed
    DATA/rebuilds/<store>/             what `oriel rebuild` computes, until it is in its place
    DATA/logs/                         what Spark and Java say (``pipeline/spark/log_file.py``)

The index is LMDB's, on a disk of its machine. Where the data are objects it has a folder of its
own.

A store name can't begin with an underscore, so it never meets ``_dead_letters``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from oriel.storage.errors import InvalidDefinition
from oriel.storage.shards import ALL_KEYS, Shard

_STORE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

#: How the names of sinks begin.
_SINK = "to("

DEAD_LETTERS = "_dead_letters"

#: Rises with every change of what an index holds or how it is written. It stands in the folder's
#: name: two versions of the program on one data directory never see each other's indexes.
INDEX_FORMAT = 5


@dataclass(frozen=True)
class DataLayout:
    """The paths below one data directory."""

    root: Path
    #: Where the indexes are, None: below ``root``.
    index_root: Path | None = None
    #: Whose keys the indexes have.
    shard: Shard = ALL_KEYS

    @property
    def tables(self) -> Path:
        """Parent folder of all Delta tables."""
        return self.root / "tables"

    @property
    def indexes(self) -> Path:
        """Parent folder of all indexes of this program's format."""
        # Services of several shards may have one data directory.
        of_shard = "" if self.shard.is_all else f"-shard-{self.shard.number}-of-{self.shard.count}"
        return self.index_formats / f"_format-{INDEX_FORMAT}{of_shard}"

    @property
    def index_formats(self) -> Path:
        """Parent folder of the indexes of all formats."""
        return self.index_root or self.root / "index"

    @property
    def dead_letters(self) -> Path:
        """The dead-letter table."""
        return self.tables / DEAD_LETTERS

    @property
    def replayed(self) -> Path:
        """Which dead letters were sent again."""
        return self.root / "replayed" / f"{DEAD_LETTERS}.jsonl"

    def table(self, store: str) -> Path:
        """The Delta table of ``store``."""
        return self.tables / check_store_name(store)

    def index(self, store: str) -> Path:
        """The index folder of ``store``."""
        return self.indexes / check_store_name(store)

    @property
    def checkpoints(self) -> Path:
        """Parent folder of all checkpoints."""
        return self.root / "checkpoints"

    def rebuild(self, store: str) -> Path:
        """Where ``store`` is computed again: a data directory of its own."""
        return self.root / "rebuilds" / store

    def checkpoint(self, application: str) -> Path:
        """Checkpoint folder of the streaming query of one topology."""
        return self.checkpoints / application


def sink_name(topic: str) -> str:
    """What the sink is called that writes a stream's records to ``topic``: as no store can be."""
    return f"{_SINK}{topic})"


def is_sink_name(name: str) -> bool:
    """Whether a sink is called so, and no store."""
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
