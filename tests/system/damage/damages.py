"""Ways to damage a file of a data directory, and the classes of its files."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

#: Classes of files by their path in a data directory. The first match counts.
CLASSES = {
    "data file": r"tables/[^/]+/[^/]+\.parquet",
    "Delta entry": r"tables/[^/]+/_delta_log/\d+\.json",
    "Delta checkpoint": r"tables/[^/]+/_delta_log/.+",
    "state segment": r"checkpoints/[^/]+/state/.+\.arrow",
    "decision": r"checkpoints/[^/]+/state/[^/]+/\d+\.json",
    "other state": r"checkpoints/[^/]+/state/.+",
    "Spark's log": r"checkpoints/[^/]+/spark/.+",
    "checkpoint": r"checkpoints/.+",
    "index": r"index/[^/]+/[^/]+/generation-[^/]+/data\.mdb",
    "mark of an index": r"index/.+",
    "backup": r"backup/.+",
    "note of replays": r"replayed/.+",
}
_PAGE_BYTES = 4096


class Sources(NamedTuple):
    """Other data directories with replacement files: from an earlier day and of another owner.

    ``foreign`` has the same topologies and other records.
    """

    earlier: Path
    foreign: Path


def files_by_class(data: Path) -> dict[str, list[Path]]:
    """Return the files of a data directory by their class, as sorted paths relative to it."""
    found: dict[str, list[Path]] = {name: [] for name in CLASSES}
    for path in sorted(data.rglob("*")):
        relative = path.relative_to(data)
        name = class_of(relative)
        if name is not None and path.is_file() and path.stat().st_size:
            found[name].append(relative)
    return {name: paths for name, paths in found.items() if paths}


def class_of(relative: Path) -> str | None:
    """Return the class of a file, or None for files without a class (locks and logs of Java)."""
    text = relative.as_posix()
    return next((name for name, pattern in CLASSES.items() if re.fullmatch(pattern, text)), None)


#: Damages ``path`` of the data directory and returns a description, or None if nothing changes.
Damage = Callable[[Path, Path, Random, Sources], str | None]


def flip(data: Path, path: Path, random: Random, _sources: Sources) -> str | None:
    """Flip one bit."""
    content = bytearray((data / path).read_bytes())
    at, bit = random.randrange(len(content)), random.randrange(8)
    content[at] ^= 1 << bit
    (data / path).write_bytes(content)
    return f"bit {bit} of byte {at}"


def cut_off(data: Path, path: Path, random: Random, _sources: Sources) -> str | None:
    """Truncate the file."""
    content = (data / path).read_bytes()
    length = random.randrange(len(content))
    (data / path).write_bytes(content[:length])
    return f"cut off at {length} of {len(content)} bytes"


def zero_page(data: Path, path: Path, random: Random, _sources: Sources) -> str | None:
    """Write zeros over one page."""
    content = bytearray((data / path).read_bytes())
    at = random.randrange(0, len(content), _PAGE_BYTES)
    page = content[at : at + _PAGE_BYTES]
    content[at : at + len(page)] = bytes(len(page))
    (data / path).write_bytes(content)
    return f"zeros from byte {at} on" if any(page) else None


def zero_file(data: Path, path: Path, _random: Random, _sources: Sources) -> str | None:
    """Write zeros over the whole file, as a power loss can leave it."""
    content = (data / path).read_bytes()
    (data / path).write_bytes(bytes(len(content)))
    return "zeros" if any(content) else None


def make_directory(data: Path, path: Path, _random: Random, _sources: Sources) -> str | None:
    """Replace the file by a directory."""
    (data / path).unlink()
    (data / path).mkdir()
    return "replaced by a directory"


def delete(data: Path, path: Path, _random: Random, _sources: Sources) -> str | None:
    """Delete the file."""
    (data / path).unlink()
    return "deleted"


def swap(data: Path, path: Path, random: Random, _sources: Sources) -> str | None:
    """Replace the file by another one of its class in the same data directory."""
    others = files_by_class(data)[class_of(path) or ""]
    return _replaced(data, path, data, random.choice(others))


def of_another_day(data: Path, path: Path, _random: Random, sources: Sources) -> str | None:
    """Replace the file by the file with its name from an earlier day."""
    return _replaced(data, path, sources.earlier, path)


def of_another_directory(data: Path, path: Path, random: Random, sources: Sources) -> str | None:
    """Replace the file by one of its class from another data directory.

    A file with the same path is preferred.
    """
    if (sources.foreign / path).is_file():
        return _replaced(data, path, sources.foreign, path)
    others = files_by_class(sources.foreign).get(class_of(path) or "", [])
    near = [one for one in others if one.parts[:4] == path.parts[:4]] or others
    return _replaced(data, path, sources.foreign, random.choice(near)) if near else None


def _replaced(data: Path, path: Path, source: Path, other: Path) -> str | None:
    if not (source / other).is_file():
        return None
    content = (source / other).read_bytes()
    if content == (data / path).read_bytes():
        return None
    (data / path).write_bytes(content)
    return f"replaced by {source.name}/{other}"


#: The damages and how often each is drawn.
DAMAGES: Mapping[Damage, int] = {
    flip: 8,
    cut_off: 3,
    zero_page: 2,
    zero_file: 1,
    make_directory: 1,
    delete: 1,
    swap: 2,
    of_another_day: 2,
    of_another_directory: 2,
}


def draw_damage(random: Random) -> Damage:
    """Return one of the damages."""
    damages: Sequence[Damage] = list(DAMAGES)
    return random.choices(damages, list(DAMAGES.values()))[0]
