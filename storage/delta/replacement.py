"""All rows of a table replaced in one version: readers see the old ones or the new ones."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable, Schema

from oriel.storage.delta.data_files import AddedFile
from oriel.storage.delta.log import Action
from oriel.storage.delta.opening import LOG_FOLDER, open_delta
from oriel.storage.delta.table import create_entry
from oriel.storage.position import COMMIT_APPLICATION_KEY


@dataclass(frozen=True)
class TableContent:
    """What a table is to have: its files, its columns, and properties beside those that it has."""

    files: Sequence[AddedFile]
    schema: pa.Schema
    properties: Mapping[str, str]


def replace_rows(
    folder: Path,
    content: TableContent,
    application: str,
    batch: int,
    info: Mapping[str, Any],
    *,
    sync: bool,
) -> int:
    """Put ``content`` in the place of all that the table in ``folder`` has; return the version.

    The table stays the same one. The transaction records (application, batch) and ``info``, as a
    batch's does, also where the table is at that batch already. The files' contents and names are
    on disk.
    """
    while True:
        delta = open_delta(folder)
        actions = _actions(delta, content, application, info)
        # The last line: an entry without it was cut off (see read_actions).
        actions.append({"txn": {"appId": application, "version": batch}})
        entry = b"\n".join(map(orjson.dumps, actions))
        version = delta.version() + 1
        try:
            create_entry(folder / LOG_FOLDER, version, entry, sync=sync)
        except FileExistsError:
            # Somebody was faster: what they added is to be replaced, too.
            continue
        return version


def _actions(
    delta: DeltaTable, content: TableContent, application: str, info: Mapping[str, Any]
) -> list[Action]:
    now_ms = time.time_ns() // 1_000_000
    commit_info = {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "partitionBy": "[]"},
        "isBlindAppend": False,
        "engineInfo": "oriel",
        **info,
        COMMIT_APPLICATION_KEY: application,
    }
    metadata = delta.metadata()
    table = {
        "id": str(metadata.id),
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(content.schema).to_json(),
        "partitionColumns": [],
        "configuration": {**metadata.configuration, **content.properties},
        "createdTime": metadata.created_time,
    }
    old = pa.table(delta.get_add_actions()).column("path").to_pylist()
    removes: list[Action] = [
        {"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": True}} for path in old
    ]
    return [
        {"commitInfo": commit_info},
        {"metaData": {name: value for name, value in table.items() if value is not None}},
        *removes,
        *(file.to_action() for file in content.files),
    ]
