"""Options of ``oriel run`` for the maintenance of tables."""

import argparse

from oriel.storage.delta import Limits, MaintenanceSettings


def maintenance_settings(options: argparse.Namespace) -> MaintenanceSettings:
    """Return the settings of the options."""
    files = options.compact_files
    return MaintenanceSettings(
        compacts=options.compact == "auto",
        files_max=options.max_files,
        limits=Limits() if files is None else Limits(small_files=files),
        log_retention_ms=options.log_retention,
        deleted_file_retention_ms=options.deleted_file_retention,
    )
