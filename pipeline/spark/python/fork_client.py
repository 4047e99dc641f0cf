"""The command that Java starts as Python. It requests a process from the fork server.

    python -S -E fork_client.py ADDRESS -m MODULE ARGUMENT ...

It imports little, because Java waits for it. If the server does not respond, or for other
arguments of Python, it becomes Python itself.
"""

import os
import socket
import sys

#: The longest message. With a longer environment, no process is forked.
MESSAGE_BYTES = 2**17
#: The first response of the server. The second one is the exit code of the process.
FORKED = b"forked"


def main() -> int:
    """Request a process, wait until it ends, and return its exit code."""
    address, *arguments = sys.argv[1:]
    words = [os.getcwdb(), *map(os.fsencode, arguments[1:])]  # noqa: PTH109 - imports less
    parts = [b"%d" % len(words), *words]
    parts += [b"%s=%s" % variable for variable in os.environb.items()]
    message = b"\0".join(parts)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (
        arguments[:1] != ["-m"]
        or len(message) > MESSAGE_BYTES
        or not _forked(server, address, message)
    ):
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - Python itself
    # Without a code, the server has been killed, and the process may still run.
    return int(server.recv(16) or b"1") & 0xFF


def _forked(server: socket.socket, address: str, message: bytes) -> bool:
    try:
        directory, path = short_address(address)
        server.connect(path)
        os.close(directory)
        socket.send_fds(server, [message], [0, 1, 2])
        return server.recv(16) == FORKED
    except OSError:
        return False


def short_address(address: str) -> tuple[int, str]:
    """Return a path of at most 100 bytes to a socket, because longer paths are not allowed.

    The path is valid until the caller closes the descriptor, which is the first result.
    """
    directory, name = os.path.split(address)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    return descriptor, f"/proc/self/fd/{descriptor}/{name}"


if __name__ == "__main__":
    sys.exit(main())
