"""JSON Web Tokens of an identity provider (OIDC), checked with its public keys (JWKS).

Two claims say what a token reaches: ``oriel_stores``, a list of names (``*`` stands for any text),
and ``oriel_key_prefixes``, a list of what keys begin with. A token without the first reaches no
store; one without the second reads all keys. Keys are fetched in a thread: a request waits for
none, and one whose key is not known yet is refused until it is.
"""

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, time
from typing import Any, NamedTuple

import jwt

from oriel.app.guards.access import Access
from oriel.app.guards.tokens import BadKeys

logger = logging.getLogger(__name__)

#: Signatures by a private key only: with a shared secret whoever checks a token could make one.
_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
#: Seconds between two readings of the keys; and at least, when a token names a key that is new.
_REFRESH_SECONDS = 300.0
_UNKNOWN_KEY_SECONDS = 10.0
#: Tokens that are remembered once they were checked; a signature takes some 100 us.
_REMEMBERED_MAX = 1_000


class JwtSettings(NamedTuple):
    """Where the keys are (a file, or an address), and whose tokens for whom are accepted."""

    keys: str
    issuer: str
    audience: str


class _Remembered(NamedTuple):
    access: Access
    expires_s: float
    key_set: int


class JwtVerifier:
    """Checks tokens with the keys as they were read last."""

    def __init__(self, settings: JwtSettings) -> None:
        """Read the keys.

        Raises:
            BadKeys: they can't be fetched or read.
        """
        self._settings = settings
        self._keys = _read_keys(settings.keys)
        self._key_set = 0
        self._read_at = monotonic()
        self._reading: threading.Thread | None = None
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    def access_of(self, token: bytes) -> Access | None:
        """See ``TokenVerifier``."""
        if monotonic() - self._read_at >= _REFRESH_SECONDS:
            self._refresh()
        digest = hashlib.sha256(token).digest()
        known = self._remembered.get(digest)
        if known is not None and known.expires_s > time() and known.key_set == self._key_set:
            return known.access
        try:
            claims = self._claims(token)
        except jwt.PyJWTError:
            return None
        access = _access(claims)
        self._remembered[digest] = _Remembered(access, float(claims["exp"]), self._key_set)
        if len(self._remembered) > _REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return access

    def _claims(self, token: bytes) -> Mapping[str, Any]:
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError as error:
            raise jwt.InvalidTokenError from error
        header = jwt.get_unverified_header(text)
        key = self._keys.get(header.get("kid"))
        if key is None:
            if monotonic() - self._read_at >= _UNKNOWN_KEY_SECONDS:
                self._refresh()
            raise jwt.InvalidTokenError
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=list(_ALGORITHMS),
            issuer=self._settings.issuer,
            audience=self._settings.audience,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    def _refresh(self) -> None:
        self._read_at = monotonic()
        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=self._read_again, name="jwks", daemon=True)
            self._reading.start()

    def _read_again(self) -> None:
        try:
            keys = _read_keys(self._settings.keys)
        except BadKeys as error:
            logger.error("%s; they stay as they were", error)  # noqa: TRY400 - it says all
            return
        if keys.keys() != self._keys.keys():
            # What was checked with a key that is gone is checked again.
            self._key_set += 1
        self._keys = keys


def _read_keys(place: str) -> dict[str | None, jwt.PyJWK]:
    """The keys of a file or an address, by their ids."""
    try:
        if place.startswith(("https://", "http://")):
            key_set = jwt.PyJWKClient(place, timeout=10).get_jwk_set(refresh=True)
        else:
            key_set = jwt.PyJWKSet.from_json(Path(place).read_text(encoding="utf-8"))
    except (jwt.PyJWTError, OSError, ValueError) as error:
        message = f"the keys for JSON Web Tokens can't be read from {place}: {error}"
        raise BadKeys(message) from error
    return {key.key_id: key for key in key_set.keys}


def _access(claims: Mapping[str, Any]) -> Access:
    prefixes = claims.get("oriel_key_prefixes")
    return Access(
        str(claims.get("sub", "unknown")),
        _texts(claims.get("oriel_stores")),
        None if prefixes is None else _texts(prefixes),
    )


def _texts(claim: object) -> tuple[str, ...]:
    """A claim's texts; none where it is no list of them."""
    if not isinstance(claim, list) or not all(isinstance(text, str) for text in claim):
        return ()
    return tuple(claim)
