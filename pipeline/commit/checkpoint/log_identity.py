"""Check that a pipeline reads its own log, because offsets mean other records in another log.

CHECKPOINT/log.json    the identity of the log at the last start of the pipeline
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.storage import current_files, replace_file, with_digest, without_digest


def check_log(checkpoint: Path, identity: Mapping[str, str], *, sync: bool) -> None:
    """Record the identity of the log that the pipeline reads.

    A checkpoint without a batch accepts every log, because it has no offsets. A checkpoint of an
    earlier version does not contain an identity, so it also accepts every log.

    Args:
        checkpoint: The directory of the checkpoint.
        identity: The parts of the identity by name.
        sync: Whether the file is forced to disk.

    Raises:
        CheckpointError: the offsets belong to another log, or the file is damaged.
    """
    path = checkpoint / "log.json"
    try:
        recorded: dict[str, str] = orjson.loads(without_digest(current_files().read(path)))
    except FileNotFoundError:
        # The checkpoint is new, or an earlier version has written it.
        recorded = {}
    except ValueError as error:
        message = f"{path} is damaged ({error}). Remove the file if the log is still the same log"
        raise CheckpointError(message) from error
    # Before a batch is prepared, no offset refers to a record, so the log can be replaced.
    if _has_prepared(checkpoint / "state"):
        # An earlier version did not record all parts, so only common parts are compared.
        for part in sorted(recorded.keys() & identity.keys()):
            if recorded[part] != identity[part]:
                message = (
                    f"the pipeline in {checkpoint} has read another {part} ({recorded[part]}, but "
                    f"this one is {identity[part]}), so its offsets refer to other records. Read "
                    "the log of this pipeline, or start again with an empty data directory"
                )
                raise CheckpointError(message)
    # After the check, so a rejected log never replaces the recorded one. An equal identity is not
    # written again, which saves a sync per start.
    if recorded != identity:
        content = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)
        # A digest needs an object with at least one field.
        replace_file(path, with_digest(content) if identity else content, sync=sync)


def _has_prepared(state: Path) -> bool:
    """Return True if any store has prepared a batch."""
    files = current_files()
    return any(
        # The name of a version begins with its batch. The files ``clock-<n>.json``, ``sink.json``
        # and ``published-<n>.json`` are not versions.
        fnmatch(name, "[0-9]*.json")
        for store in files.names(state)
        for name in files.names(state / store)
    )
