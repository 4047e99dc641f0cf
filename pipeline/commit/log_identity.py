"""Which log a checkpoint's offsets belong to: read from another one they would mean other records.

CHECKPOINT/log.json    what the log said of itself when the pipeline last started
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.storage import current_files, replace_file, with_digest, without_digest


def settle_log(checkpoint: Path, identity: Mapping[str, str], *, sync: bool) -> None:
    """Remember that the pipeline reads the log of ``identity``, a text for each part of it.

    A checkpoint without a batch has no offsets that could be wrong, and one of an earlier version
    doesn't say what it read: both take the log as it is.

    Raises:
        CheckpointError: the checkpoint was made from another log.
    """
    path = checkpoint / "log.json"
    try:
        recorded: dict[str, str] = orjson.loads(without_digest(current_files().read(path)))
    except FileNotFoundError:
        recorded = {}
    except ValueError as error:
        message = f"{path} is damaged ({error}). Remove the file if the log is still the same log"
        raise CheckpointError(message) from error
    if _has_decided(checkpoint / "state"):
        for part in sorted(recorded.keys() & identity.keys()):
            if recorded[part] != identity[part]:
                message = (
                    f"the pipeline in {checkpoint} has read another {part} ({recorded[part]}, but "
                    f"this one is {identity[part]}), so its offsets refer to other records. Read "
                    "the log of this pipeline, or start again with an empty data directory"
                )
                raise CheckpointError(message)
    if recorded != identity:
        content = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)
        replace_file(path, with_digest(content) if identity else content, sync=sync)


def _has_decided(state: Path) -> bool:
    """Whether any store has a version."""
    files = current_files()
    return any(
        fnmatch(name, "[0-9]*.json")
        for store in files.names(state)
        for name in files.names(state / store)
    )
