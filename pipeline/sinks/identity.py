"""Which batch the marker of a transaction is of."""

from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.state import segment_id
from oriel.storage.files import digest


def batch_identity(prepared: PreparedBatch) -> str:
    """Return what distinguishes a prepared batch from all others, also from those of its number.

    A restore from a backup and a rebuild prepare other batches with the same numbers. The names of
    their files are random, and they stay the same if a batch is read again.
    """
    segments = (segment_id(name) for of_task in prepared.segments.values() for name in of_task)
    files = (file.path for file in prepared.files)
    return digest("\n".join(sorted([*segments, *files])).encode())
