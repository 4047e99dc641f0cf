"""Copies of a store's table that a test puts back, as the restore of an older backup does."""

import shutil
from pathlib import Path

from tests.app.api_client import Served


class Backups:
    """A served store whose table can be copied and put back, as a backup would be."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self._folder = folder
        self._batches: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def take(self) -> int:
        """Copy the table as it is; returns the number of the copy."""
        number = len(self._batches)
        shutil.copytree(self.served.table.path, self._folder / f"{number}")
        self._batches.append(self.served.table.batch)
        return number

    def restore(self, number: int = 0) -> None:
        """Put a copy in the place of the table. The index is as it was."""
        table = self.served.table
        shutil.rmtree(table.path)
        shutil.copytree(self._folder / f"{number}", table.path)
        table.batch = self._batches[number]
