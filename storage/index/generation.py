"""A generation of an index, open for reading, with what is checked before each read of it."""

import os
from pathlib import Path

import lmdb

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.environment import STATE_KEY, Environment, open_for_reading, storage_error
from oriel.storage.index.folder import damage, mark_damaged
from oriel.storage.index.state import IndexState


class OpenGeneration:
    """An open generation and its state, read again only when a transaction changed it."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            IndexDamaged: its file can't be an intact index, or a reader said so.
            StoreNotReady: it can't be opened now; a retry may do.
        """
        self.path = path
        reason = damage(path)
        if reason is not None:
            message = f"index {path.parent.name!r} is damaged ({reason}); it is being rebuilt"
            raise IndexDamaged(message)
        try:
            self.environment: Environment = open_for_reading(path)
        except IndexDamaged as error:
            mark_damaged(path, str(error))
            raise
        self._file = os.open(path / "data.mdb", os.O_RDONLY)
        self._promised_bytes = 0
        self._state_txn_id = -1
        self._state: IndexState | None = None

    def begin(self) -> "lmdb.Transaction[bytes]":
        """Begin a read transaction, after a look at the file's size.

        Raises:
            IndexDamaged: the file was cut off.
        """
        if os.fstat(self._file).st_size < self._promised_bytes:
            message = f"index {self.path.parent.name!r} was cut off; it is being rebuilt"
            mark_damaged(self.path, message)
            raise IndexDamaged(message)
        try:
            return self.environment.env.begin()
        except lmdb.Error as error:
            raise self.failed(error) from error

    def state(self, txn: "lmdb.Transaction[bytes]") -> IndexState:
        """The state that a read transaction sees."""
        transaction_id = txn.id()
        if self._state is None or transaction_id != self._state_txn_id:
            self._state = self._read_state(txn)
            self._state_txn_id = transaction_id
            self._promised_bytes = self.environment.promised_bytes()
        return self._state

    def failed(self, error: lmdb.Error) -> StoreNotReady:
        """Translate an LMDB error, and tell the tailer when it means damage."""
        translated = storage_error(error, self.path)
        if isinstance(translated, IndexDamaged):
            mark_damaged(self.path, str(error))
        return translated

    def close(self) -> None:
        """Close the files."""
        self.environment.env.close()
        os.close(self._file)

    def _read_state(self, txn: "lmdb.Transaction[bytes]") -> IndexState:
        try:
            return IndexState.from_json(txn.get(STATE_KEY, db=self.environment.meta))
        except lmdb.Error as error:
            raise self.failed(error) from error
        except IndexDamaged as error:
            mark_damaged(self.path, str(error))
            raise
