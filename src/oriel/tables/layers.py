"""Layers of a table: groups of files that are ordered by their revisions.

    files of a version -> runs -> layers, oldest first -> steps

A *run* is the output of one batch or of one compaction, and its files have a tag with its name and
its revisions. They have each window at most once. Files without the tag, of other programs or of
earlier versions, can have a window several times. Their revisions are in their footers.

Runs whose revisions overlap are one *layer*. Neighboring small layers are joined. So a row of a
layer can be superseded only by a later layer, or by its own layer if the layer is not one run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from oriel.storage.delta import Range, file_ranges, run_revisions
from oriel.storage.errors import CorruptLog
from oriel.storage.table_store import TableFile, VersionRows

#: Neighboring layers with up to this number of rows together are one layer. Selecting the newest
#: rows of so few rows costs less than a join with each layer.
SMALL_ROWS = 1 << 17
#: The maximum number of layers, because a layer can be compared with all newer layers.
_LAYERS_MAX = 12
#: The number of rows of a file without statistics. Such a file is never small.
_UNKNOWN_ROWS = 1 << 30


@dataclass(frozen=True)
class Layer:
    """Files that are compared together.

    Attributes:
        paths: The files.
        rows: The number of rows.
        revisions: The least and the greatest revision.
        starts: The range of the window starts in microseconds. None: unknown, or no windows.
        repeats: True if a window can have several rows in the layer.
        foreign: True if a file was not written by this version of Oriel. Its columns can have
            other types.
    """

    paths: tuple[Path, ...]
    rows: int
    revisions: Range
    starts: Range | None
    repeats: bool
    foreign: bool

    def joined(self, other: "Layer") -> "Layer":
        """Return one layer with the files of both, in which windows can repeat."""
        return Layer(
            self.paths + other.paths,
            self.rows + other.rows,
            _joined(self.revisions, other.revisions),
            None if not (self.starts and other.starts) else _joined(self.starts, other.starts),
            repeats=True,
            foreign=self.foreign or other.foreign,
        )


def layers(rows: VersionRows) -> list[Layer]:
    """Return the layers of a version, oldest first.

    Raises:
        CorruptLog: The table has deletion vectors, or a footer of a file cannot be read.
    """
    _reject_deletion_vectors(rows)
    runs = sorted(_runs(rows), key=lambda run: run.revisions)
    found: list[Layer] = []
    for run in runs:
        # Equal revisions overlap.
        if found and found[-1].revisions.overlaps(run.revisions):
            found[-1] = found[-1].joined(run)
        else:
            found.append(run)
    small_rows = SMALL_ROWS
    while True:
        joined = _without_small(found, small_rows)
        if len(joined) <= _LAYERS_MAX:
            return joined
        small_rows = max(1, 2 * small_rows)


def _runs(rows: VersionRows) -> Iterator[Layer]:
    tagged = [file for file in rows.files if file.run is not None]
    by_run = sorted(tagged, key=_run)
    for run, files in groupby(by_run, _run):
        yield _run_layer(rows.table, run, list(files))
    kind = rows.state.definition.window.kind
    for file in rows.files:
        if file.run is None:
            revisions = file_ranges(rows.table / file.path, kind).revisions
            # A file without rows has no revisions.
            if revisions is not None:
                yield Layer(
                    (rows.table / file.path,), _row_count([file]), revisions, None,
                    repeats=True, foreign=file.digest is None,
                )  # fmt: skip


def _run(file: TableFile) -> str:
    return file.run or ""


def _run_layer(table: Path, run: str, files: Sequence[TableFile]) -> Layer:
    return Layer(
        tuple(table / file.path for file in files),
        _row_count(files),
        Range(*run_revisions(run)),
        _starts(files),
        repeats=False,
        foreign=False,
    )


def _row_count(files: Iterable[TableFile]) -> int:
    return sum(_UNKNOWN_ROWS if file.rows is None else file.rows for file in files)


def _starts(files: Sequence[TableFile]) -> Range | None:
    ranges = [file.bounds.get("window_start") for file in files]
    known = [each for each in ranges if each is not None]
    if len(known) < len(ranges):
        return None
    return Range(min(each.least for each in known), max(each.greatest for each in known))


def _without_small(found: Sequence[Layer], small_rows: int) -> list[Layer]:
    """Join each layer with the next one while they are small together. The newest are first."""
    joined: list[Layer] = []
    for layer in reversed(found):
        if joined and joined[-1].rows + layer.rows <= small_rows:
            joined[-1] = joined[-1].joined(layer)
        else:
            joined.append(layer)
    return joined[::-1]


def _joined(one: Range, other: Range) -> Range:
    return Range(min(one.least, other.least), max(one.greatest, other.greatest))


def _reject_deletion_vectors(rows: VersionRows) -> None:
    if any(file.kept is not None for file in rows.files):
        message = (
            f"{rows.table} has deletion vectors, which the pipeline does not support either. Run "
            "REORG TABLE t APPLY (PURGE) in Spark"
        )
        raise CorruptLog(message)
