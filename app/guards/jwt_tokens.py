"""JSON Web Tokens of an identity provider (OIDC), checked with its public keys (JWKS).

Two claims define the access of a token:

    oriel_stores          a list of store names, in which * matches any text. Without this claim,
                          the token grants access to no store
    oriel_key_prefixes    a list of key prefixes. Without this claim, the token grants access to
                          all keys

A claim that is not a list of strings is rejected, because its meaning is unknown. A thread fetches
the keys, so no request waits for them. A token with an unknown key is rejected until the key is
fetched.
"""

import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from time import monotonic, time
from typing import Any, NamedTuple

import jwt

from oriel.app.contract import Forbidden
from oriel.app.guards.access import Access
from oriel.app.guards.tokens import InvalidKeys

logger = logging.getLogger(__name__)

#: Only signatures by a private key. With a shared secret, a verifier could also create tokens.
_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
#: Seconds between two fetches of the keys, and the minimum if a token has an unknown key.
_REFRESH_SECONDS = 300.0
_UNKNOWN_KEY_SECONDS = 10.0
#: The number of cached tokens. The check of a signature costs some 100 us.
_CACHE_MAX = 1_000
#: Characters of a malformed claim in a message.
_SHOWN_CHARACTERS = 80


class JwtSettings(NamedTuple):
    """The keys (a file or a URL), and the required issuer and audience of tokens."""

    keys: str
    issuer: str
    audience: str


class _Verified(NamedTuple):
    access: Access
    expires_s: float


class _KeySet(NamedTuple):
    """Keys by their ids, and the tokens that they have verified.

    After each fetch, a new key set starts without verified tokens. So a token is never valid by a
    key that was removed, or replaced under the same id.
    """

    keys: Mapping[str | None, jwt.PyJWK]
    verified: OrderedDict[bytes, _Verified]


class JwtVerifier:
    """Verifies tokens with the keys of the last fetch."""

    def __init__(self, settings: JwtSettings) -> None:
        """Read the keys.

        Raises:
            InvalidKeys: The keys cannot be fetched or read.
        """
        self._settings = settings
        self._key_set = _KeySet(_read_keys(settings.keys), OrderedDict())
        self._read_at = monotonic()
        self._reading: threading.Thread | None = None

    def follow(self) -> None:
        if monotonic() - self._read_at >= _REFRESH_SECONDS:
            self._refresh()

    def access_of(self, token: bytes) -> Access | None:
        """See ``TokenVerifier``.

        Raises:
            Forbidden: A claim of a token with a valid signature is malformed.
        """
        self.follow()
        # The thread that fetches the keys can replace the key set at any moment.
        keys, verified = self._key_set
        digest = hashlib.sha256(token).digest()
        known = verified.get(digest)
        if known is not None and known.expires_s > time():
            return known.access
        try:
            claims = self._claims(token, keys)
        except jwt.PyJWTError:
            return None
        access = _access(claims)
        verified[digest] = _Verified(access, float(claims["exp"]))
        if len(verified) > _CACHE_MAX:
            verified.popitem(last=False)
        return access

    def _claims(self, token: bytes, keys: Mapping[str | None, jwt.PyJWK]) -> Mapping[str, Any]:
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError as error:
            raise jwt.InvalidTokenError from error
        header = jwt.get_unverified_header(text)
        key = keys.get(header.get("kid"))
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
        except InvalidKeys as error:
            logger.error("%s. The previous keys stay in use", error)  # noqa: TRY400 - it says all
            return
        self._key_set = _KeySet(keys, OrderedDict())


def _read_keys(place: str) -> dict[str | None, jwt.PyJWK]:
    """Return the usable keys of a file or a URL by their ids.

    PyJWT's key sets reject an empty set. Here, an empty set means that no token is valid.
    """
    try:
        if place.startswith(("https://", "http://")):
            content = jwt.PyJWKClient(place, cache_jwk_set=False, timeout=10).fetch_data()
        else:
            content = json.loads(Path(place).read_text(encoding="utf-8"))
        listed = content.get("keys") if isinstance(content, dict) else None
        if not isinstance(listed, list):
            raise ValueError("it must be a JSON object with a list `keys`")  # noqa: EM101, TRY301, TRY004
    except (jwt.PyJWTError, OSError, ValueError, HTTPException) as error:
        message = f"{place}: the keys for JSON Web Tokens cannot be read: {error}"
        raise InvalidKeys(message) from error
    keys = [key for one in listed if (key := _usable(one)) is not None]
    if not keys:
        logger.warning(
            "%s: no key can be used, so no JSON Web Token is valid. Add a public signing key", place
        )
    return {key.key_id: key for key in keys}


def _usable(listed: Any) -> jwt.PyJWK | None:
    """Return a key of a key set, None if it has another type or is damaged."""
    try:
        return jwt.PyJWK(listed)
    except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _access(claims: Mapping[str, Any]) -> Access:
    stores, prefixes = (_texts(claims, name) for name in ("oriel_stores", "oriel_key_prefixes"))
    return Access(str(claims.get("sub", "unknown")), stores or (), prefixes)


def _texts(claims: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the strings of a claim, None if the token does not have the claim.

    Raises:
        Forbidden: The claim is not a list of strings.
    """
    claim = claims.get(name)
    if claim is None:
        return None
    if not isinstance(claim, list) or not all(isinstance(text, str) for text in claim):
        shown = json.dumps(claim)[:_SHOWN_CHARACTERS]
        message = (
            f"claim {name}: it must be a list of strings, not {shown}. Correct the claim at the "
            "identity provider."
        )
        raise Forbidden(message)
    return tuple(claim)
