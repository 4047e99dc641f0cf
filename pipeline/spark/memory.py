"""Memory for Java: a share of the memory of the container or of the systemd service."""

from pathlib import Path

#: Java's heap if no memory limit is set.
_DEFAULT = "2g"
#: Python, Spark's workers and the file cache need the other half.
_SHARE = 0.5
#: Spark does not start with less than about 450 MB.
_LEAST_MB = 512
_MB = 1 << 20


def driver_memory(root: Path = Path("/")) -> str:
    """Return the heap for Spark's driver: half of the memory limit of this process's cgroup.

    Args:
        root: The directory that has ``proc`` and ``sys``.
    """
    # The limits of the process's cgroup and of the cgroups around it, in bytes.
    limits: list[int] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers not in {"", "memory"}:
            continue
        directory, file = "sys/fs/cgroup", "memory.max"
        if controllers:  # version 1
            directory, file = f"{directory}/memory", "memory.limit_in_bytes"
        # In a container, the path is sometimes one of the host, and then only the root exists.
        path = Path(name.lstrip("/"))
        for parent in (path, *path.parents):
            limit = _text(root / directory / parent / file).strip()
            # Version 1 has a number near 2**63 for no limit, version 2 the word max.
            if limit.isdecimal() and int(limit) < 1 << 60:
                limits.append(int(limit))
    return f"{max(int(min(limits) * _SHARE / _MB), _LEAST_MB)}m" if limits else _DEFAULT


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
