"""Ports for the servers that tests start."""

import socket


def reserved_port() -> int:
    """Return a port of this machine that no other process can bind before this process ends.

    This process keeps a socket bound to the port, so no other process can choose the port between
    this call and the start of the server. Until then, the port refuses connections. A server with
    SO_REUSEADDR, like all that tests start, can listen there, also after a restart.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    # Set after the bind, because two sockets with the option could otherwise bind the same port.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port: int = holder.getsockname()[1]
    holder.detach()
    return port
