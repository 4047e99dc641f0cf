"""Check the Host field of requests, against DNS rebinding attacks.

An attacker can change the address of ``http://attacker.example`` to the address of this service.
Then a page of the attacker sends requests to the service, and the browser lets it read the
responses. The Host field of such requests has the attacker's name, so they are rejected. An IP
address cannot be rebound, so every address is allowed.
"""

import ipaddress
from collections.abc import Iterable

from oriel.app.contract import UnknownHost

#: The number of cached hosts. It is limited, because clients choose them.
_CACHE_MAX = 1_000

_ANY = "*"


class AllowedHosts:
    """The allowed hosts of requests: addresses, ``localhost``, and configured names."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Allow the host names in ``allowed``, which have no port.

        ``*`` allows any name, and ``*.example.org`` allows all names below ``example.org``.
        """
        names = {name.lower().rstrip(".") for name in allowed}
        self._any = _ANY in names
        self._names = names | {"localhost"}
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self._cached: set[bytes] = set()

    def check(self, host: bytes | None) -> None:
        """Check the value of a Host field, or None for a request of HTTP/1.0 without the field.

        Raises:
            UnknownHost: The host is not allowed.
        """
        if self._any or host is None or host in self._cached:
            return
        if not self._allows(host.decode("latin-1")):
            message = (
                "Host: the service does not serve this host. Use another host name, or "
                "allow it with --allowed-host."
            )
            raise UnknownHost(message)
        if len(self._cached) < _CACHE_MAX:
            self._cached.add(host)

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
    """Return whether only this machine can reach the address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
