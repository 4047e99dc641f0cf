"""Find the pipeline of a data directory that writes a store.

A pipeline has the name of its topology file or of ``--name``. Its checkpoint is the directory with
this name. The application id of the checkpoint is also in the tables of its stores.
"""

from collections.abc import Iterable

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.storage import DataLayout, ForeignCheckpoint, current_files, uri, without_digest
from oriel.storage.delta import DeltaLog, has_table


def pipelines(layout: DataLayout) -> dict[str, str]:
    """Return the name of each pipeline that has a checkpoint, by application id."""
    files, found = current_files(), {}
    for name in sorted(files.names(layout.checkpoints)):
        try:
            content = files.read(layout.checkpoint(name) / "application.json")
            found[str(orjson.loads(without_digest(content))["application"])] = name
        except (FileNotFoundError, NotADirectoryError, KeyError, TypeError, ValueError):
            # A damaged checkpoint of another pipeline, or no checkpoint.
            continue
    return found


def check_store_owners(layout: DataLayout, name: str, stores: Iterable[str]) -> None:
    """Check, before a new pipeline writes anything, that no other pipeline writes its stores.

    Raises:
        ForeignCheckpoint: a store belongs to another pipeline, or its checkpoint is missing.
    """
    # The application of an existing checkpoint is compared with each table when the table is opened
    # (``settled``).
    if _has_checkpoint(layout, name):
        return
    # To open a checkpoint creates its id. Without this check, a mistyped name would leave a
    # checkpoint of a pipeline that has no tables.
    names = pipelines(layout)
    for store in stores:
        directory = layout.table(store)
        if not has_table(directory):
            continue
        application = DeltaLog(directory).snapshot().definition.application
        if application in names:
            message = (
                f"store {store!r} belongs to the pipeline {names[application]!r}, but this is the "
                f"pipeline {name!r}. Without --name, a pipeline has the name of its topology file. "
                f"To continue the pipeline, add --name {names[application]}. To start another "
                "pipeline, use another store name or another data directory"
            )
        else:
            message = (
                f"store {store!r}: the table belongs to application {application}, but "
                f"{uri(layout.checkpoints)} has no checkpoint of it. A new checkpoint over an old "
                "table would repeat records. Restore the checkpoint from a backup, or use an "
                "empty data directory"
            )
        raise ForeignCheckpoint(message)


def check_pipeline_exists(layout: DataLayout, name: str, store: str) -> None:
    """Check that a pipeline has run before one of its stores is rebuilt.

    Raises:
        CheckpointError: the data directory has no checkpoint of this pipeline.
    """
    if _has_checkpoint(layout, name):
        return
    message = f"store {store!r}: the pipeline has not run. Use `oriel run` first"
    names = sorted(pipelines(layout).values())
    if names:
        message = (
            f"{uri(layout.root)} has no pipeline {name!r}, only {', '.join(names)}. Without "
            "--name, a pipeline has the name of its topology file. Add --name"
        )
    raise CheckpointError(message)


def _has_checkpoint(layout: DataLayout, name: str) -> bool:
    files, directory = current_files(), layout.checkpoint(name)
    # If a checkpoint has lost its application.json, ``Checkpoint`` reports what to do.
    return files.exists(directory / "application.json") or files.is_directory(directory / "state")
