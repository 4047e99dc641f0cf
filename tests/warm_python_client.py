"""Asks the warm Python to become a process of Spark's; starts a Python where there is none.

Nothing but the standard library, and little of that: Python starts this with ``-I -S`` in 20 ms.
Arguments: the socket of ``tests.warm_python``, the Python to start else, and what it is to run.
"""

import os
import socket
import sys


def _main(address: str, python: str, *command: str) -> None:
    environment = (f"{name}={value}" for name, value in os.environ.items())
    folder = os.getcwd()  # noqa: PTH109 - pathlib's import would cost as much as all of this
    asked = "\0".join([str(len(command)), *command, folder, *environment])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [os.fsencode(asked)], [0, 1, 2])
        except OSError:
            os.execv(python, [python, *command])  # noqa: S606 - as the shell would without it
        # Says nothing: it ends when the process does that Spark takes this one for.
        connection.recv(1)


if __name__ == "__main__":
    _main(*sys.argv[1:])
