"""Entries of a Delta log: how Oriel seals its entries, and how all entries are read.

The seal is the first value of ``commitInfo``: the version, the length of the entry, and a digest of
all its bytes except the length and the digest themselves. An entry that is shorter than its seal
says, or that ends with zeros, was torn by a power loss. Any other entry that differs from its seal
is damaged. Entries of other tools and of earlier versions do not have a seal.
"""

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from oriel.storage.errors import CorruptLog
from oriel.storage.files import create_file, current_files, digest
from oriel.storage.layout import DEAD_LETTERS
from oriel.storage.position import COMMIT_APPLICATION_KEY

Action = dict[str, Any]

_SEAL_KEY = "oriel_entry"
#: Key of the table's id in ``commitInfo``, because an entry of another table also has a valid seal.
TABLE_KEY = "oriel_table"

_NO_SEAL = f"{0:010d}:xxh3:{0:016x}"
_SEAL = re.compile(
    rb'\{"commitInfo":\{"' + _SEAL_KEY.encode() + rb'":"(\d+):((\d{10}):(xxh3:[0-9a-f]{16}))"'
)
#: The maximum length of a seal with the table's id after it.
_SEAL_BYTES = 200

_entry_lock = threading.RLock()


def recovery_hint(table: Path) -> str:
    """Return how to replace a damaged file of a table."""
    restore = "Put the file back from a backup"
    if table.name == DEAD_LETTERS:
        return restore
    return f"{restore}, or rebuild the store from its topics with `oriel rebuild {table.name}`"


def sealed_entry(actions: Sequence[Action], version: int, table_id: str) -> bytes:
    """Return the entry of ``version`` with a seal. The first action must be its ``commitInfo``."""
    seal = {_SEAL_KEY: f"{version}:{_NO_SEAL}", TABLE_KEY: table_id}
    first = {"commitInfo": {**seal, **actions[0]["commitInfo"]}}
    content = b"\n".join(map(orjson.dumps, [first, *actions[1:]]))
    match = _SEAL.match(content)
    assert match is not None
    seal_text = f"{len(content):010d}:{_digest(content, match)}".encode()
    return content[: match.start(2)] + seal_text + content[match.end(2) :]


def entry_content(path: Path) -> bytes:
    """Read the file of an entry.

    Raises:
        CorruptLog: a directory has its name.
        FileNotFoundError: it does not exist.
    """
    try:
        return current_files().read(path)
    except IsADirectoryError as error:
        raise damaged_entry(path, "it is a directory") from error


def read_actions(path: Path, content: bytes) -> list[Action] | None:
    """Read the actions of an entry in order, or return None if it is torn (empty or cut off).

    Raises:
        CorruptLog: the entry is not the one that Oriel wrote to this file.
    """
    match = _SEAL.match(content)
    if match is None:
        _reject_damaged_seal(path, content)
    elif not _matches_seal(path, content, match):
        return None
    try:
        actions = [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        return None
    if not actions or not all(isinstance(action, dict) for action in actions):
        return None
    if match is not None:
        return actions
    # A cut between two lines leaves complete lines. Each commit of Oriel ends with its txn action,
    # so without it lines are missing. Commits of other programs do not have such a mark. For them,
    # only a cut within a line is detected.
    is_from_oriel = COMMIT_APPLICATION_KEY in first_action(actions, "commitInfo", {})
    if is_from_oriel and not any("txn" in action for action in actions):
        return None
    return actions


def read_actions_of_table(path: Path, table_id: str) -> tuple[bytes, list[Action] | None]:
    """Read the content of a table's entry, and its actions. No actions (None): it is torn.

    Raises:
        CorruptLog: the entry is damaged, or it belongs to another table.
        FileNotFoundError: it does not exist.
    """
    content = entry_content(path)
    actions = read_actions(path, content)
    own = {None, table_id}
    if actions is not None and first_action(actions, "commitInfo", {}).get(TABLE_KEY) not in own:
        raise damaged_entry(path, "it belongs to another table")
    return content, actions


def _reject_damaged_seal(path: Path, content: bytes) -> None:
    """Reject an entry that has a part of a seal. A power loss leaves the first bytes complete."""
    begin = content[:_SEAL_BYTES]
    if len(content) >= _SEAL_BYTES and (_SEAL_KEY.encode() in begin or TABLE_KEY.encode() in begin):
        raise damaged_entry(path)


def _matches_seal(path: Path, content: bytes, match: re.Match[bytes]) -> bool:
    """Return True if an entry matches its seal, or False if it is torn.

    Raises:
        CorruptLog: the entry is damaged, or it is the entry of another version.
    """
    is_right = _digest(content, match) == match[4].decode()
    if is_right and len(content) == int(match[3]):
        if entry_version(path) != int(match[1]):
            raise damaged_entry(path, f"its content is entry {int(match[1])} of a log")
        return True
    if not is_right and (len(content) < int(match[3]) or content.endswith(b"\0")):
        return False
    raise damaged_entry(path)


def _digest(content: bytes, match: re.Match[bytes]) -> str:
    return digest(content[: match.start(2)] + content[match.end(2) :])


def damaged_entry(path: Path, reason: str = "its content is not what was written") -> CorruptLog:
    """Return the error for a damaged entry, with a solution."""
    action = recovery_hint(path.parent.parent)
    return CorruptLog(f"{path}: the log entry is damaged: {reason}. {action}")


def missing_entry(table: Path, version: int) -> CorruptLog:
    """Return the error for a missing entry, with a solution."""
    return CorruptLog(f"{table}: entry {version} of the log is missing. {recovery_hint(table)}")


def first_action(actions: Sequence[Action], name: str, default: Any) -> Any:
    """Return the first action with a name. An entry has at most one."""
    return next((action[name] for action in actions if name in action), default)


def create_entry(log: Path, version: int, content: bytes, *, sync: bool) -> None:
    """Write the entry of a version. Readers see all of it or nothing. Nothing is overwritten.

    Raises:
        FileExistsError: another process has written this version.
    """
    # Threads of one process, for batches and maintenance, would write the same temporary file.
    with _entry_lock:
        create_file(log / entry_name(version), content, sync=sync)


def entry_name(version: int) -> str:
    """Return the file name of a version's entry: 20 digits, so names sort like versions."""
    return f"{version:020d}.json"


def entry_version(path: Path) -> int:
    """Return the version of the entry in a file."""
    return int(path.name.partition(".")[0])
