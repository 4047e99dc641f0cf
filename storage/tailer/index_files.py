"""The files of the generation that a tailer writes, and the deletion of expired windows."""

from pathlib import Path

from oriel.storage.errors import IndexDamaged
from oriel.storage.index import IndexDirectory, IndexState, IndexWriter, data_bytes


class IndexFiles:
    """The files of one generation: open while versions arrive, closed while the store is idle."""

    def __init__(self, generation: Path) -> None:
        """Use the files of this generation. They are not opened yet."""
        self.generation = generation
        self._writer: IndexWriter | None = None
        self._bytes_seen = data_bytes(generation)

    @property
    def is_open(self) -> bool:
        """True if the files are open."""
        return self._writer is not None

    def writer(self, state: IndexState | None = None) -> IndexWriter:
        """Return the writer of the generation. Open it if it is closed.

        Args:
            state: The state that a closed index must have. None: any.

        Raises:
            IndexDamaged: the files were deleted, cut off or replaced.
        """
        if self._writer is None:
            # LMDB would create a deleted file again.
            if data_bytes(self.generation) < max(1, self._bytes_seen):
                message = "the index was deleted or cut off"
                raise IndexDamaged(message)
            self._writer = IndexWriter(self.generation)
            if state is not None and self._writer.state() != state:
                message = "the index differs from the index that was closed"
                raise IndexDamaged(message)
        return self._writer

    def forget_dead_readers(self) -> None:
        """Free the slots of readers whose process died, if the files are open."""
        if self._writer is not None:
            self._writer.forget_dead_readers()

    def close(self) -> None:
        """Close the files until ``writer`` is called again."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def why_lost(self, directory: IndexDirectory) -> str | None:
        """Return why the files are not the current index of the store any more, or None."""
        if directory.current() != self.generation:
            return "the index was deleted"
        size = data_bytes(self.generation)
        if size < self._bytes_seen:
            return "the index was cut off"
        self._bytes_seen = size
        return None


class Sweep:
    """Deletes expired windows from an index in steps.

    A sweep visits every key, so it starts only when a tenth of the retention has passed since the
    last one. So expired windows need about a tenth more space.
    """

    def __init__(self) -> None:
        #: None between two sweeps.
        self._resume_key: bytes | None = None
        #: The least visible time when the last sweep started.
        self._swept_ms = 0

    def step(self, files: IndexFiles, state: IndexState) -> bool:
        """Delete some windows. Return True if the sweep is not complete."""
        retention_ms = state.definition.retention_ms
        if retention_ms is None:
            return False
        if self._resume_key is None:
            if state.earliest_ms - self._swept_ms < max(1, retention_ms // 10):
                return False
            self._swept_ms = state.earliest_ms
            self._resume_key = b""
        self._resume_key = files.writer(state).sweep(self._resume_key)
        return self._resume_key is not None
