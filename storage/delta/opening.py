"""Tables as delta-rs opens them, and where there are any."""

from pathlib import Path

from deltalake import DeltaTable

from oriel.storage.files import current_files, uri

LOG_FOLDER = "_delta_log"


def open_delta(folder: Path, version: int | None = None) -> DeltaTable:
    """Open the table in a folder by delta-rs, at ``version`` or the newest.

    Raises:
        TableNotFoundError: there is none.
        DeltaError: its log can't be read.
    """
    return DeltaTable(uri(folder), version=version)


def has_table(folder: Path) -> bool:
    """Whether there is a table in a folder, whole or not."""
    return current_files().is_folder(folder / LOG_FOLDER)


def table_folders(tables: Path) -> list[Path]:
    """The folders in ``tables`` that have a table, by name."""
    names = sorted(current_files().names(tables))
    return [tables / name for name in names if has_table(tables / name)]
