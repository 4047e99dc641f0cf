"""Read bearer tokens from a file, which contains only their digests.

    [[token]]
    seal = "5f0c2e..."                   # digest of the other fields, see ``seals``
    name = "dashboard"
    sha256 = "9f86d0..."                 # digest of the token
    stores = ["departures", "flights-*"] # optional. Default: all stores
    key_prefixes = ["EWR"]               # optional. Default: all keys
    expires = 2027-01-31T00:00:00Z       # optional. Default: never

The file is read again after a change, so you can add and remove tokens without a restart.
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
from oriel.app.guards.seals import fits

logger = logging.getLogger(__name__)

#: Seconds between two checks for a change of the file.
_CHECK_SECONDS = 1.0

_FIELDS = {"seal", "name", "sha256", "stores", "key_prefixes", "expires"}


class InvalidTokenFile(Exception):
    """The token file cannot be used. The message says what is wrong."""


class InvalidKeys(Exception):
    """The keys of an identity provider cannot be used. The message says where they are."""


class Token(NamedTuple):
    """One token of the file.

    Attributes:
        digest: The digest of the token.
        access: The access that the token grants.
        expires: When the token expires, None for never.
        seal: The seal of its entry, None without a seal.
        limits: The fields of its entry that limit its access.
    """

    digest: bytes
    access: Access
    expires: datetime | None
    seal: str | None
    limits: frozenset[str]


class TokenFile:
    """The current tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InvalidTokenFile: The file cannot be read, or an entry is invalid.
        """
        self._path = path
        self._identity = self._file_identity()
        self._tokens = parse_tokens(path, read_text(path))
        #: Every token of the file until now, including removed ones. While a copy replaces the
        #: content of the file, it can be read when it is empty, and then when it is incomplete.
        self._seen = dict(self._tokens)
        self._checked_at = monotonic()
        self._warn()

    def access_of(self, token: bytes) -> Access | None:
        self.follow()
        digest = hashlib.sha256(token).digest()
        known = self._tokens.get(digest)
        # The lookup by digest reveals nothing about a token by its duration. The comparison also
        # has constant time.
        if known is None or not hmac.compare_digest(known.digest, digest):
            return None
        if known.expires is not None and known.expires <= datetime.now(UTC):
            return None
        return known.access

    def follow(self) -> None:
        if monotonic() - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = monotonic()
        identity = self._file_identity()
        if identity == self._identity:
            return
        self._identity = identity
        try:
            tokens = parse_tokens(self._path, read_text(self._path))
            self._reject_truncated(tokens)
        except InvalidTokenFile as error:
            # The file can be half written. The previous tokens are safe in both directions.
            logger.error("%s. The previous tokens stay in use", error)  # noqa: TRY400
        else:
            self._tokens = tokens
            self._seen.update(tokens)
            logger.warning("tokens reloaded: file=%s tokens=%d", self._path, len(self._tokens))
            self._warn()

    def _reject_truncated(self, tokens: Mapping[bytes, Token]) -> None:
        """Reject a file whose last token lost a limit that its seal does not cover."""
        last = next(reversed(list(tokens.values())), None)
        known = None if last is None else self._seen.get(last.digest)
        if last is None or known is None or last.seal != known.seal:
            return
        if missing := known.limits - last.limits:
            message = (
                f"{self._path}: the last token, {last.access.name!r}, no longer has "
                f"{min(missing)!r}. Restore it. If you deleted it, run `oriel token --seal --file "
                f"{self._path}`"
            )
            raise InvalidTokenFile(message)

    def _warn(self) -> None:
        unsealed = [
            token.access.name
            for token in self._tokens.values()
            if token.limits and token.seal is None
        ]
        if unsealed:
            logger.warning(
                "%s: %d tokens have limits but no seal, for example %r. If the file is truncated, "
                "such a token can grant more access. Run `oriel token --seal --file %s`",
                self._path, len(unsealed), unsealed[0], self._path,
            )  # fmt: skip

    def _file_identity(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def read_text(path: Path) -> str:
    """Return the text of a token file.

    Raises:
        InvalidTokenFile: The file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: the token file cannot be read: {error}"
        raise InvalidTokenFile(message) from error


def parse_tokens(path: Path, text: str, *, check_seals: bool = True) -> Mapping[bytes, Token]:
    """Return the tokens of a token file by their digests.

    Args:
        path: The file, for errors.
        text: The content of the file.
        check_seals: False accepts entries that differ from their seals.

    Raises:
        InvalidTokenFile: The text is not TOML, or an entry is invalid.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: the token file cannot be read: {error}"
        raise InvalidTokenFile(message) from error
    entries = content.pop("token", [])
    if content or not isinstance(entries, list):
        message = (
            f"{path}: a token file must contain only tables [[token]]. Remove everything else."
        )
        raise InvalidTokenFile(message)
    tokens: dict[bytes, Token] = {}
    for number, entry in enumerate(entries, 1):
        token = _token(path, number, entry)
        if check_seals and token.seal is not None and not fits(entry):
            message = (
                f"{path}: token {number} ({token.access.name!r}) differs from its seal. Restore "
                f"the token. If you edited it, run `oriel token --seal --file {path}`"
            )
            raise InvalidTokenFile(message)
        if token.digest in tokens:
            # If the file is truncated before the second entry, the token would have the access of
            # the first one.
            message = f"{path}: token {number} has the sha256 of another token. Delete one of them"
            raise InvalidTokenFile(message)
        tokens[token.digest] = token
    return tokens


def _token(path: Path, number: int, entry: Mapping[str, Any]) -> Token:
    try:
        unknown = entry.keys() - _FIELDS
        if unknown:
            raise ValueError(f"unknown field {min(unknown)!r}")  # noqa: EM102, TRY301
        _text(entry.get("seal", ""))
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
            raise ValueError("expires must be a time with a time zone")  # noqa: EM101, TRY301
    except (KeyError, TypeError, ValueError) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        message = f"{path}: token {number} is not valid: {reason}"
        raise InvalidTokenFile(message) from error
    limits = frozenset(entry.keys() & {"stores", "key_prefixes", "expires"})
    return Token(digest, access, expires, entry.get("seal"), limits)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")  # noqa: EM102
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list of strings")  # noqa: EM102
    return tuple(map(_text, values))
