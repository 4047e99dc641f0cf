"""A live rebuild that waits for the user before it replaces a store: its files and its messages.

DATA/rebuilds/<store>/tables/<store>    the new table
DATA/rebuilds/<store>/position.json     its version at the end of a batch of the pipeline
DATA/rebuilds/<store>/accepted          created by ``oriel diff --accept``
"""

from typing import NamedTuple

import orjson

from oriel.storage import DataLayout, current_files, with_digest, without_digest


class HeldPosition(NamedTuple):
    """A point at which the old table and the new one have read the same records.

    Attributes:
        batch: The batch of the pipeline.
        version: The version of the new table.
    """

    batch: int
    version: int


class HeldRebuild:
    """The directory of the rebuild of one store."""

    def __init__(self, layout: DataLayout, store: str) -> None:
        """Use the directory of ``store`` in the data directory of the pipeline."""
        self.layout = DataLayout(layout.rebuild(store))
        self._position = self.layout.root / "position.json"
        self._accepted = self.layout.root / "accepted"

    def write_position(self, position: HeldPosition) -> None:
        """Write the point up to which the new table can be compared."""
        content = with_digest(orjson.dumps(position._asdict()))
        current_files().replace(self._position, content, sync=False)

    def position(self) -> HeldPosition | None:
        """Return the newest point, None if no rebuild of the store waits."""
        try:
            content = current_files().read(self._position)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return HeldPosition(**orjson.loads(without_digest(content)))

    def accept(self) -> None:
        """Let the rebuild replace the store."""
        current_files().replace(self._accepted, b"", sync=False)

    @property
    def is_accepted(self) -> bool:
        """Whether the rebuild can replace the store."""
        return current_files().exists(self._accepted)
