"""The golden data directories: their archives, and their log."""

import lzma
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent
LOG = DIRECTORY / "log"
#: The topologies in a directory of this version: two with stores, and a Kafka sink.
TOPOLOGIES, SINK = ("kinds", "newer"), "sink"
#: The first batch reads this topic whole, because a stream joins the current rows of the table.
_READ_FIRST = "users"


def archives() -> dict[str, Path]:
    """Return the archive of each golden directory by its name."""
    return {path.name.partition(".")[0]: path for path in sorted(DIRECTORY.glob("*.tar.xz"))}


def topologies(name: str) -> list[str]:
    """Return the topologies that have a checkpoint in the golden directory ``name``."""
    with tarfile.open(archives()[name]) as tar:
        found = (Path(member).parts for member in tar.getnames())
    return sorted({parts[1] for parts in found if parts[0] == "checkpoints" and parts[1:]})


def topology(name: str) -> Path:
    """Return the file of a topology."""
    return DIRECTORY / "topologies" / f"{name}.py"


def write_log(target: Path, *, part: int = 1) -> None:
    """Write the first 1/``part`` of the lines of each partition to ``target``."""
    for source in LOG.glob("*/*.jsonl"):
        lines = source.read_bytes().splitlines(keepends=True)
        count = len(lines) if source.parent.name == _READ_FIRST else len(lines) // part
        path = target / source.parent.name / source.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines[:count]))


def pack(data: Path, archive: Path) -> None:
    """Write the files of ``data`` to ``archive``. Equal files have an equal archive."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(data.rglob("*")):
            info = tarfile.TarInfo(path.relative_to(data).as_posix())
            info.type = tarfile.DIRTYPE if path.is_dir() else tarfile.REGTYPE
            info.mode = 0o755 if path.is_dir() else 0o644
            info.size = 0 if path.is_dir() else path.stat().st_size
            tar.addfile(info, None if path.is_dir() else BytesIO(path.read_bytes()))
    archive.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(name: str, data: Path) -> None:
    """Create the golden directory ``name`` in ``data``, with current modification times."""
    shutil.rmtree(data, ignore_errors=True)
    with tarfile.open(archives()[name]) as tar:
        # Python 3.11.2 of Debian 12 has no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        for member in tar:
            member.mtime = data.parent.stat().st_mtime
            tar.extract(member, data)
