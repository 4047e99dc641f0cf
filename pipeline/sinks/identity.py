"""The identity of a batch, which the marker of a transaction contains."""

from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.state import segment_id
from oriel.storage.files import digest


def batch_identity(prepared: PreparedBatch) -> str:
    """Return a digest that identifies a prepared batch, also among batches with the same number.

    A restore from a backup and a rebuild prepare other batches with the same numbers. The digest
    is of the names of the batch's files. They are random, and stay the same if the batch is read
    again.
    """
    segments = (segment_id(name) for names in prepared.segments.values() for name in names)
    files = (file.path for file in prepared.files)
    return digest("\n".join(sorted([*segments, *files])).encode())
