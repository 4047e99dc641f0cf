"""``oriel compact STORE``: compact the table of a store. Its pipeline can run meanwhile."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.storage import (
    STORE_PROPERTY,
    DataLayout,
    StorageError,
    StoreDefinition,
    UnknownStore,
    absolute,
    current_files,
    is_sink_name,
    uri,
)
from oriel.storage.delta import (
    Compacted,
    MaintenanceSettings,
    TableMaintenance,
    TableSize,
    has_table,
    open_delta,
    table_directories,
)

#: The number of attempts to merge all files. Another compaction can commit first.
_ATTEMPTS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Compact the table of a store, or the table of dead letters.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel compact",
        description="Compact a store's table: merge its files, and delete rows and files that no "
        "response needs. A pipeline can run meanwhile. Responses do not change.",
    )
    parser.add_argument(
        "store", help="name of the store, or _dead_letters for the table of dead letters"
    )
    add_data_option(parser, "compact a table of this data directory")
    parser.add_argument(
        "--all",
        action="store_true",
        help="merge all files into one run and write a Delta checkpoint. Default: merge only "
        "files that are due",
    )
    options = parser.parse_args(arguments)
    try:
        _compact(_table(options.data, options.store), everything=options.all)
    except EXPECTED as error:
        print_error("compact", error)
        return 1
    return 0


def _table(data: Path, store: str) -> Path:
    if is_sink_name(store):
        message = f"{store} is the output topic of a stream, so it has no table to compact"
        raise UnknownStore(message)
    layout = DataLayout(absolute(data))
    is_dead_letters = store == layout.dead_letters.name
    directory = layout.dead_letters if is_dead_letters else layout.table(store)
    current_files().reach(layout.root)
    if not has_table(directory):
        names = ", ".join(path.name for path in table_directories(layout.tables)) or "none"
        message = f"store {store!r} does not exist in {uri(data)}. Stores: {names}"
        raise UnknownStore(message)
    return directory


def _compact(directory: Path, *, everything: bool) -> None:
    maintenance = TableMaintenance(directory, MaintenanceSettings())
    before = maintenance.figures()
    committed = _committed(directory)
    written = 0

    def after_file() -> None:
        nonlocal written
        written += 1
        print(f"files written: {written}", file=sys.stderr, flush=True)

    if everything:
        for _ in range(_ATTEMPTS):
            done: Compacted | None = maintenance.compact_all(committed, after_file=after_file)
            if done is None or done.version is not None:
                break
            print("another process committed first. Trying again", file=sys.stderr, flush=True)
        else:
            message = f"other processes compact {directory.name} at the same time. Try again later"
            raise StorageError(message)
    else:
        while maintenance.step(committed, after_file=after_file):
            pass
    _print(before, maintenance.figures())


def _committed(directory: Path) -> dict[str, int]:
    """Return the last batch in a store's table. Compaction skips files of later batches."""
    delta = open_delta(directory)
    text = delta.metadata().configuration.get(STORE_PROPERTY)
    if text is None:
        return {}
    batch = delta.transaction_version(StoreDefinition.from_json(text).application)
    return {} if batch is None else {"": batch}


def _print(before: TableSize, after: TableSize) -> None:
    print(f"{'':12}{'before':>16}{'after':>16}")
    titles = ("files", "bytes", "rows", "log entries")
    for title, one, other in zip(titles, before, after, strict=True):
        print(f"{title:12}{one:>16,}{other:>16,}")
