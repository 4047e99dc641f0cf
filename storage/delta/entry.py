"""One entry of a Delta log: what ``_delta_log/<version>.json`` says, and whether it is all there.

An entry is one JSON object (an *action*) a line. A power loss may leave the newest one empty or
cut off; it was not acknowledged, so the writer commits its batch again. Reader and writer must
agree on which entries are torn: both ask here.
"""

import hashlib
import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from oriel.storage.definition import STORE_PROPERTY
from oriel.storage.errors import CorruptLog
from oriel.storage.position import COMMIT_APPLICATION_KEY, COMMIT_INFO_KEY, CommitRecord

logger = logging.getLogger(__name__)

LOG_FOLDER = "_delta_log"

Action = dict[str, Any]


@dataclass(frozen=True)
class TableMetadata:
    """A ``metaData`` action: the table's id and our store definition as text, if it has one."""

    table_id: str
    definition_json: str | None


@dataclass(frozen=True)
class LogEntry:
    """What one version did to the table.

    ``added`` are files with new rows, as paths relative to the table. ``removes_rows`` is
    true when rows went away (not by compaction). ``record`` is the pipeline's word on the
    position, None for commits of others. ``digest`` identifies the entry's content.
    """

    version: int
    digest: str
    added: tuple[str, ...]
    removes_rows: bool
    metadata: TableMetadata | None
    record: CommitRecord | None


def entry_name(version: int) -> str:
    """The file name of a version's entry: 20 digits, so that names sort as versions do."""
    return f"{version:020d}.json"


def read_actions(content: bytes) -> list[Action] | None:
    """The actions of an entry, in its order; None when it is torn: empty or cut off."""
    try:
        actions = [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        return None
    if not actions or not all(isinstance(action, dict) for action in actions):
        return None
    # A cut between two lines leaves whole lines. Each commit of the pipeline ends with its txn
    # action, so without it lines are missing. A commit of others has no such mark: of these a
    # cut inside a line is noticed, one between two lines is not.
    is_ours = COMMIT_APPLICATION_KEY in _first(actions, "commitInfo", {})
    if is_ours and not any("txn" in action for action in actions):
        return None
    return actions


def read_entry(version: int, content: bytes) -> LogEntry | None:
    """Read the content of a version's file; None when it is torn.

    Raises:
        CorruptLog: the entry is whole but says what this version of Oriel can't read.
    """
    actions = read_actions(content)
    if actions is None:
        return None
    adds = [action["add"] for action in actions if "add" in action]
    if any(add.get("deletionVector") for add in adds):
        # The file has rows that are deleted: reading all of it would bring them back.
        message = f"version {version} uses deletion vectors, which stores must not have"
        raise CorruptLog(message)
    removes = [action["remove"] for action in actions if "remove" in action]
    metadata = _first(actions, "metaData", None)
    return LogEntry(
        version=version,
        digest=hashlib.sha256(content).hexdigest(),
        # Compaction rewrites rows that were there before, and says so: dataChange is false.
        added=tuple(unquote(add["path"]) for add in adds if add.get("dataChange", True)),
        removes_rows=any(remove.get("dataChange", True) for remove in removes),
        metadata=None
        if metadata is None
        else TableMetadata(metadata["id"], metadata.get("configuration", {}).get(STORE_PROPERTY)),
        record=_commit_record(version, _first(actions, "commitInfo", {}).get(COMMIT_INFO_KEY)),
    )


def _commit_record(version: int, record_json: str | None) -> CommitRecord | None:
    if record_json is None:
        return None
    try:
        return CommitRecord.from_json(record_json)
    except (TypeError, orjson.JSONDecodeError) as error:
        # The rows are still good; the position then stays at the last commit that says it.
        logger.warning("version %d has an unreadable position: %s", version, error)
        return None


def _first(actions: list[Action], name: str, default: Any) -> Any:
    """The first action of that name, which an entry has once at most."""
    return next((action[name] for action in actions if name in action), default)
