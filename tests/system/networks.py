"""Connections from inside the network of other processes."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000


@contextmanager
def inside_network(network: Path) -> Iterator[None]:
    """Connect from inside a network namespace, including processes that the block starts.

    The code of the block must not leave threads. Another thread, for example of PyArrow's pool,
    would stay in that network, and later tests could not connect to their servers.
    """
    with Path("/proc/thread-self/ns/net").open() as outside, network.open() as inside:
        _enter(inside.fileno())
        try:
            yield
        finally:
            _enter(outside.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
