"""Copies of a store's table that a test restores, as an operator restores an older backup."""

import shutil
from pathlib import Path

from tests.app.api_client import Served


class Backups:
    """A served store whose table can be copied and restored."""

    def __init__(self, served: Served, directory: Path) -> None:
        self.served = served
        self._directory = directory
        self._batches: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def take(self) -> int:
        """Copy the current table, and return the number of the copy."""
        number = len(self._batches)
        shutil.copytree(self.served.table.path, self._directory / f"{number}")
        self._batches.append(self.served.table.batch)
        return number

    def restore(self, number: int = 0) -> None:
        """Replace the table by a copy. The index is unchanged."""
        table = self.served.table
        shutil.rmtree(table.path)
        shutil.copytree(self._directory / f"{number}", table.path)
        table.batch = self._batches[number]
