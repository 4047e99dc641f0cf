"""Commits that create a table, change its properties or columns, or replace all its rows.

Readers see the old rows or the new ones.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from oriel.storage.delta.data_files import AddedFile
from oriel.storage.delta.entries import Action, create_entry, sealed_entry
from oriel.storage.delta.opening import LOG_DIRECTORY, open_delta
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: Appends only, because these writers do not implement the features of later versions.
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


@dataclass(frozen=True)
class TableContent:
    """The new content of a table.

    Attributes:
        files: The files.
        schema: The columns.
        properties: Properties to add to the existing ones.
    """

    files: Sequence[AddedFile]
    schema: pa.Schema
    properties: Mapping[str, str]


def replace_rows(
    directory: Path,
    content: TableContent,
    application: str,
    batch: int,
    info: Mapping[str, Any],
    *,
    sync: bool,
) -> int:
    """Replace all rows of a table with ``content``, and return the new version.

    The table keeps its id. The files must be synced to disk, with their names.

    Args:
        directory: The directory of the table.
        content: The new content.
        application: The application that commits.
        batch: The batch to record. The table can already have this batch.
        info: Fields of ``commitInfo``, as in the commit of a batch.
        sync: True to force the entry to disk.
    """
    while True:
        delta = open_delta(directory)
        actions = _actions(delta, content, application, info)
        # This must be the last line: an entry without it was cut off (see read_actions).
        actions.append({"txn": {"appId": application, "version": batch}})
        version = delta.version() + 1
        entry = sealed_entry(actions, version, str(delta.metadata().id))
        try:
            create_entry(directory / LOG_DIRECTORY, version, entry, sync=sync)
        except FileExistsError:
            # Another process was faster. Its rows must be replaced also.
            continue
        return version


def _actions(
    delta: DeltaTable, content: TableContent, application: str, info: Mapping[str, Any]
) -> list[Action]:
    now_ms = _now_ms()
    commit_info = {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
        "isBlindAppend": False,
        "engineInfo": "oriel",
        **info,
        COMMIT_APPLICATION_KEY: application,
    }
    old_paths = pa.table(delta.get_add_actions()).column("path").to_pylist()
    removes: list[Action] = [
        {"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": True}}
        for path in old_paths
    ]
    return [
        {"commitInfo": commit_info},
        changed_metadata(delta, content.properties, Schema.from_arrow(content.schema)),
        *removes,
        *(file.to_action() for file in content.files),
    ]


def create_table(
    directory: Path, schema: pa.Schema, properties: Mapping[str, str], *, sync: bool
) -> None:
    """Write version 0 of a table.

    Raises:
        FileExistsError: another process has created the table.
    """
    table_id = str(uuid.uuid4())
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": _now_ms(),
    }
    actions = [_commit_info("CREATE TABLE"), {"protocol": _PROTOCOL}, {"metaData": metadata}]
    create_entry(directory / LOG_DIRECTORY, 0, sealed_entry(actions, 0, table_id), sync=sync)


def changed_metadata(
    delta: DeltaTable, properties: Mapping[str, str], schema: Schema | None = None
) -> Action:
    """Return the ``metaData`` action that changes properties, and columns if a schema is set."""
    metadata = delta.metadata()
    fields = {
        "id": str(metadata.id),
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": (schema or delta.schema()).to_json(),
        "partitionColumns": [],
        "configuration": {**metadata.configuration, **properties},
        "createdTime": metadata.created_time,
    }
    return {"metaData": {name: value for name, value in fields.items() if value is not None}}


def change_metadata(
    directory: Path, delta: DeltaTable, metadata: Action, operation: str, *, sync: bool
) -> None:
    """Commit a ``metaData`` action after the version of ``delta``.

    Raises:
        FileExistsError: another process was faster.
    """
    version = delta.version() + 1
    table_id = str(delta.metadata().id)
    entry = sealed_entry([_commit_info(operation), metadata], version, table_id)
    create_entry(directory / LOG_DIRECTORY, version, entry, sync=sync)


def _commit_info(operation: str) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": _now_ms(),
            "operation": operation,
            "operationParameters": {},
            "engineInfo": "oriel",
        }
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
