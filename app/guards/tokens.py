"""Bearer tokens from a file, of which it holds the digests only.

    [[token]]
    name = "dashboard"
    sha256 = "9f86d0..."                 # of the token's text
    stores = ["departures", "flights-*"] # may be left out: all
    key_prefixes = ["EWR"]               # may be left out: all keys
    expires = 2027-01-31T00:00:00Z       # may be left out: never

The file is read again when it has changed, so tokens come and go without a restart.
"""

import hashlib
import hmac
import logging
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from oriel.app.guards.access import Access

logger = logging.getLogger(__name__)

#: Seconds between two looks whether the file has changed.
_LOOK_SECONDS = 1.0

_FIELDS = {"name", "sha256", "stores", "key_prefixes", "expires"}


class BadTokenFile(Exception):
    """The token file can't be used; the message says what is wrong with it."""


class BadKeys(Exception):
    """The keys of an identity provider can't be used; the message says where they are."""


class Token(NamedTuple):
    """One token of the file: the digest of its text, what it reaches, and when it ends."""

    digest: bytes
    access: Access
    expires: datetime | None


class TokenFile:
    """The tokens of a file, as it is at the moment."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            BadTokenFile: it can't be read, or an entry is wrong.
        """
        self._path = path
        self._stamp = self._look()
        self._tokens = read_tokens(path)
        self._looked_at = monotonic()

    def access_of(self, token: bytes) -> Access | None:
        """See ``TokenVerifier``."""
        if monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._follow()
        digest = hashlib.sha256(token).digest()
        known = self._tokens.get(digest)
        # Found by its digest, so that the time taken says nothing of a token; compared in
        # constant time all the same.
        if known is None or not hmac.compare_digest(known.digest, digest):
            return None
        if known.expires is not None and known.expires <= datetime.now(UTC):
            return None
        return known.access

    def _follow(self) -> None:
        self._looked_at = monotonic()
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tokens = read_tokens(self._path)
        except BadTokenFile as error:
            # Half written, perhaps: nobody is let in or kept out by mistake meanwhile.
            logger.error("%s; the tokens stay as they were", error)  # noqa: TRY400
        else:
            logger.warning("%s has changed: it has %d tokens", self._path, len(self._tokens))

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def read_tokens(path: Path) -> Mapping[bytes, Token]:
    """Read a token file; its tokens by their digests.

    Raises:
        BadTokenFile: it can't be read, or an entry is wrong.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the token file {path} can't be read: {error}"
        raise BadTokenFile(message) from error
    entries = content.pop("token", [])
    if content or not isinstance(entries, list):
        message = f"the token file {path} may have tables [[token]] only"
        raise BadTokenFile(message)
    tokens = [_token(path, number, entry) for number, entry in enumerate(entries, 1)]
    return {token.digest: token for token in tokens}


def _token(path: Path, number: int, entry: Mapping[str, Any]) -> Token:
    try:
        unknown = entry.keys() - _FIELDS
        if unknown:
            raise ValueError(f"unknown field {min(unknown)}")  # noqa: EM102, TRY301
        digest = bytes.fromhex(entry["sha256"])
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError("sha256 must have 64 hex digits")  # noqa: EM101, TRY301
        prefixes = entry.get("key_prefixes")
        access = Access(
            _text(entry["name"]),
            _texts(entry.get("stores", ["*"])),
            None if prefixes is None else _texts(prefixes),
        )
        expires = entry.get("expires")
        if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
            raise ValueError("expires must be a time with a zone")  # noqa: EM101, TRY301
    except (KeyError, TypeError, ValueError) as error:
        message = f"token {number} of {path} is wrong: {type(error).__name__}: {error}"
        raise BadTokenFile(message) from error
    return Token(digest, access, expires)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")  # noqa: EM102
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list of texts")  # noqa: EM102
    return tuple(map(_text, values))
