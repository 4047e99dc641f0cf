"""Every error that the storage package raises, one class per situation.

    StorageError
    |-- UnknownStore            a store of this name does not exist (yet)
    |-- StoreNotReady           the store exists, but its index cannot be read now: retry
    |-- IndexDamaged            the index is damaged: the tailer rebuilds it, retry
    |-- BehindPositionBound     the index has not reached the required position
    |-- VersionNotFound         the table never had this version
    |-- VersionGone             the table had this version, but it was cleaned up
    |-- HistoryLost             the version belongs to a history that a restore ended
    |-- TableReadTooLarge       a read of the table has more rows than allowed
    |-- TableReadTimeout        a read of the table needs more time than allowed
    |-- InvalidCursor           a page token that this store did not issue
    |-- KeyTypeMismatch         a key or key prefix that does not have the store's key type
    |-- InvalidDefinition       a store definition that cannot be used
    |-- IncompatibleStore       a topology that does not match the existing table
    |-- ForeignCheckpoint       checkpoint and table do not belong together
    |-- ObjectStoreFailed       the object store can't be used; also an ``OSError``
    `-- CorruptLog              the table is damaged, other than by a torn newest log entry
        `-- MissingDataFile     a data file of a version does not exist

All classes derive from ``StorageError``. They do not derive from ``ValueError``, so that a broad
handler for invalid numbers does not hide a storage error.
"""


class StorageError(Exception):
    """Base of all errors of this package."""


class UnknownStore(StorageError):
    """A store of this name does not exist. The message has the existing names."""


class StoreNotReady(StorageError):
    """The store exists but cannot be read yet (its index is being built). A retry can succeed."""


class IndexDamaged(StoreNotReady):
    """The index cannot be read. The tailer rebuilds it from the table. A retry can succeed."""


class BehindPositionBound(StorageError):
    """The index has not reached the position that a request requires (KIP-796 NOT_UP_TO_BOUND)."""


class VersionNotFound(StorageError):
    """The table does not have this version yet. The message has the existing versions."""


class VersionGone(StorageError):
    """Files that the version needs were cleaned up. The message has the remaining versions."""


class HistoryLost(StorageError):
    """The version belongs to a history that a restore ended, or that the log no longer knows."""


class TableReadTooLarge(StorageError):
    """The result has more rows than one read can have. The message says how to request fewer."""


class TableReadTimeout(StorageError):
    """The time of one read is over. Narrower bounds need less time."""


class InvalidCursor(StorageError):
    """The page token was not issued for this store, key and direction."""


class KeyTypeMismatch(StorageError):
    """The string is not a key of this store's type. The message describes the keys."""


class InvalidDefinition(StorageError):
    """A store definition breaks a rule. The message names it."""


class IncompatibleStore(StorageError):
    """The table has another definition of the store. The message names the difference."""


class ForeignCheckpoint(StorageError):
    """The checkpoint does not belong to the table. A run would lose or repeat records."""


class ObjectStoreFailed(StorageError, OSError):
    """The object store does not respond, denies access, or does not have the bucket."""


class CorruptLog(StorageError):
    """The table is damaged, other than by a torn newest log entry, and cannot be read safely."""


class MissingDataFile(CorruptLog):
    """A data file of a version does not exist, because it was vacuumed or deleted by hand."""
