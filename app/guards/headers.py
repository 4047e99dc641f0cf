"""Checks of header fields that a proxy could read in another way than the service."""

from collections.abc import Sequence

#: Fields that a request has at most once.
_SINGLE_FIELDS = (b"host", b"authorization")
#: Versions of HTTP in which a request needs no Host field.
_WITHOUT_HOST = frozenset({"0.9", "1.0"})


def ambiguity(
    headers: Sequence[tuple[bytes, bytes]], http_version: str, *, is_upgrade: bool
) -> str | None:
    """Return why a proxy could read a request in another way, None if it cannot."""
    names = [name for name, _ in headers]
    for name in _SINGLE_FIELDS:
        if names.count(name) > 1:
            return f"{name.decode().title()}: the request has this field twice. Send it once"
    if b"host" not in names and http_version not in _WITHOUT_HOST:
        return "Host: the request does not have this field. Send it once"
    # The parser does not read the body of an upgrade. The body would become the next request.
    if is_upgrade and (b"content-length" in names or b"transfer-encoding" in names):
        return "Upgrade: the request has this field and a body. Send it without a body"
    return None
