"""Every error that the storage package raises, one class per situation.

    StorageError
    |-- UnknownStore            no store of that name exists (yet)
    |-- StoreNotReady           the store exists, its index cannot answer now: retry
    |-- IndexDamaged            the index cannot be read: the tailer rebuilds it, retry
    |-- BehindPositionBound     the caller demands a newer position than the index has
    |-- VersionNotFound         the table never had a version of that number
    |-- VersionGone             the table had that version, and has it no more
    |-- TableReadTooLarge       a read of the table itself holds more than one may
    |-- TableReadTimeout        a read of the table itself takes longer than one may
    |-- InvalidCursor           a page token that this store did not give out
    |-- UnfitKey                a key, or beginning of keys, that is not of the store's key type
    |-- InvalidDefinition       a store definition that cannot be used
    |-- IncompatibleStore       a topology that does not fit the table that is there
    |-- ForeignCheckpoint       checkpoint and table do not belong together
    |-- ObjectStoreFailed       the object store can't be used; an ``OSError`` as well
    `-- CorruptLog              the table's log is damaged beyond its newest entry
        `-- MissingDataFile     a version names a data file that is not there

All derive from ``Exception`` by way of ``StorageError``; none is a ``ValueError``, so
that no broad handler for bad numbers swallows a storage fault.
"""


class StorageError(Exception):
    """Base of all errors of this package."""


class UnknownStore(StorageError):
    """No store of that name exists; the names that do are in the message."""


class StoreNotReady(StorageError):
    """The store exists but cannot answer yet (index being built); a retry will do."""


class IndexDamaged(StoreNotReady):
    """The index cannot be read; the tailer rebuilds it from the table, a retry will do."""


class BehindPositionBound(StorageError):
    """The index has not reached the position that the caller demands (KIP-796 NOT_UP_TO_BOUND)."""


class VersionNotFound(StorageError):
    """The table has no such version yet; those that it has are in the message."""


class VersionGone(StorageError):
    """What the version needs was cleaned up; the versions that are left are in the message."""


class HistoryLost(StorageError):
    """The version is of a history that a restore ended, or that the log does not know any more."""


class TableReadTooLarge(StorageError):
    """More rows than one read may hold; the message says how to ask for fewer."""


class TableReadTimeout(StorageError):
    """The time of one read is over; narrower bounds take less."""


class InvalidCursor(StorageError):
    """The page token was not given out for this store, key and direction."""


class UnfitKey(StorageError):
    """The text is no key of this store's type; the message says what its keys look like."""


class InvalidDefinition(StorageError):
    """A store definition breaks a rule; the message names it."""


class IncompatibleStore(StorageError):
    """The table was made by another definition of the store; the message names the difference."""


class ForeignCheckpoint(StorageError):
    """The checkpoint does not belong to the table: going on would lose or repeat records."""


class ObjectStoreFailed(StorageError, OSError):
    """The object store does not answer, refuses access, or lacks the bucket."""


class CorruptLog(StorageError):
    """The Delta log is damaged at a place that can't be stepped back over safely."""


class MissingDataFile(CorruptLog):
    """A version names a data file that is not there: vacuumed meanwhile, or deleted by hand."""
