"""Which hosts a request may name: an answer for another one is an attack (DNS rebinding).

A page of a stranger can make a browser ask ``http://stranger.example``, whose address it has
changed to that of this service: the browser then lets the page read the answer. The Host field
tells, for it has the stranger's name. An address can't be such a name, so every address is right.
"""

import ipaddress
from collections.abc import Iterable

from oriel.app.contract import UnknownHost

#: Hosts that are remembered; their number is bounded, for strangers choose them.
_REMEMBERED_MAX = 1_000

_ANY = "*"


class AllowedHosts:
    """The hosts that requests may name: addresses, ``localhost``, and those that were told."""

    def __init__(self, told: Iterable[str] = ()) -> None:
        """``told`` are names without a port; ``*`` allows any, ``*.example.org`` all below."""
        names = {name.lower().rstrip(".") for name in told}
        self._any = _ANY in names
        self._names = names | {"localhost"}
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self._remembered: set[bytes] = set()

    def check(self, host: bytes | None) -> None:
        """Accept the value of a Host field; None where a request of HTTP/1.0 has none.

        Raises:
            UnknownHost: it names another host.
        """
        if self._any or host is None or host in self._remembered:
            return
        if not self._allows(host.decode("latin-1")):
            message = (
                "Host: the service does not serve this host. Use another host name, or "
                "allow it with --allowed-host."
            )
            raise UnknownHost(message)
        if len(self._remembered) < _REMEMBERED_MAX:
            self._remembered.add(host)

    def _allows(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        return name in self._names or name.endswith(self._below) or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on an address (or name)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
