"""Who may write: each start of a pipeline takes an epoch, and the greatest one counts.

    CHECKPOINT/epochs/<n>.json    who took epoch n: process, host, time

An epoch is taken by creating its file, which only one of those who try at once can do; it needs no
lock, so it works on any shared file system. A process looks before each effect whether somebody
has taken the next one. Between that look and the effect it may be suspended for any time, so each
effect must also be harmless if it comes late (decision 0031).
"""

import os
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from oriel.pipeline.errors import Fenced
from oriel.storage import current_files

#: Files of so many epochs stay; an older one is over because its own is gone.
EPOCHS_KEPT = 10


class Epoch:
    """The turn of this process."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        """Take the next epoch: from here on processes of all earlier ones are fenced off."""
        self._folder = folder
        files = current_files()
        files.make_folder(folder, sync=sync)
        content = orjson.dumps(
            {
                "process": os.getpid(),
                "host": socket.gethostname(),
                # Two processes may have one number on hosts of one name.
                "id": uuid.uuid4().hex,
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        while True:
            taken = self._taken()
            self.number = max(taken, default=0) + 1
            try:
                files.create(self._path(self.number), content, sync=sync)
                break
            except FileExistsError:
                # Somebody else started at the same time: one of the two comes after the other.
                continue
        for number in taken:
            # The newest is never among them, so numbers only rise.
            if number <= self.number - EPOCHS_KEPT:
                files.delete(self._path(number))

    def check(self) -> None:
        """Go on only if nobody has taken a later epoch; two looks at file names.

        Raises:
            Fenced: another process has taken over; the message says who and when.
        """
        files = current_files()
        if files.exists(self._path(self.number)) and not files.exists(self._path(self.number + 1)):
            return
        newest = max(self._taken(), default=0)
        message = (
            f"{self._holder(newest)}: this process (epoch {self.number}) was replaced and has "
            "stopped. Tables and state belong to its successor. You do not need to do anything"
        )
        raise Fenced(message)

    def _holder(self, number: int) -> str:
        try:
            taken: dict[str, Any] = orjson.loads(current_files().read(self._path(number)))
            who = f"process {taken['process']} on {taken['host']}"
            return f"{who} took over this pipeline at {taken['started']} (epoch {number})"
        except (OSError, ValueError, KeyError, TypeError):
            # Without --sync a power loss may have left the name only.
            return f"another process took over this pipeline (epoch {number})"

    def _taken(self) -> list[int]:
        names = (Path(name) for name in current_files().names(self._folder))
        return [int(p.stem) for p in names if p.suffix == ".json" and p.stem.isdecimal()]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"
