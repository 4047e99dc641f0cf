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
        or not _sent(server, address, message)
    ):
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - Python itself
    code = server.recv(16)
    return int(code or b"1") & 0xFF


def _sent(server: socket.socket, address: str, message: bytes) -> bool:
    try:
        server.connect(address)
        socket.send_fds(server, [message], [0, 1, 2])
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
