"""Java's heap follows the memory limit of the container or service."""

from pathlib import Path

import pytest

from oriel.pipeline.spark.memory import driver_memory

_GB = 1 << 30


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "heap"),
    [
        # No cgroup: macOS.
        ({}, "2g"),
        # Docker with cgroup version 2.
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{3 * _GB}\n"}, "1536m"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, "2g"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{_GB // 4}\n"}, "512m"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{16 * _GB}\n"}, "8192m"),
        # A systemd service, whose slice has the smaller limit.
        (
            {
                "proc/self/cgroup": "0::/system.slice/oriel.service\n",
                "sys/fs/cgroup/system.slice/memory.max": f"{4 * _GB}\n",
                "sys/fs/cgroup/system.slice/oriel.service/memory.max": f"{6 * _GB}\n",
            },
            "2048m",
        ),
        # Docker with cgroup version 1: the path is one of the host.
        (
            {
                "proc/self/cgroup": "9:memory:/docker/4f\n8:cpu,cpuacct:/docker/4f\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * _GB}\n",
            },
            "1024m",
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            "2g",
        ),
    ],
)
def test_the_heap_is_half_of_the_limit(tmp_path: Path, files: dict[str, str], heap: str) -> None:
    """Without a limit it is 2 GB, and it is never less than Spark needs."""
    _write(tmp_path, files)
    assert driver_memory(tmp_path) == heap
