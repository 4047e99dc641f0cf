"""What knows the tokens of requests, by what the service was told of them."""

from pathlib import Path
from typing import NamedTuple

from oriel.app.guards.access import TokenVerifier
from oriel.app.guards.tokens import TokenFile


class TokenSettings(NamedTuple):
    """Where tokens are known from: a token file, an identity provider's keys, both or neither.

    ``jwks`` is a file or an address; its tokens must be of ``jwt_issuer``, for ``jwt_audience``.
    """

    tokens: str | None
    jwks: str | None
    jwt_issuer: str | None
    jwt_audience: str | None


def make_verifiers(settings: TokenSettings) -> list[TokenVerifier]:
    """What knows the tokens of requests; nothing where nobody needs one.

    Raises:
        BadTokenFile: the token file can't be used.
        BadKeys: the keys of the identity provider can't be used.
        ModuleNotFoundError: the extra that checks its tokens is not installed.
    """
    verifiers: list[TokenVerifier] = []
    if settings.tokens is not None:
        verifiers.append(TokenFile(Path(settings.tokens)))
    if settings.jwks is not None and settings.jwt_issuer and settings.jwt_audience:
        # Imported when it is wanted: an extra of its own brings its packages.
        from oriel.app.guards.jwt_tokens import JwtSettings, JwtVerifier  # noqa: PLC0415

        keys = JwtSettings(settings.jwks, settings.jwt_issuer, settings.jwt_audience)
        verifiers.append(JwtVerifier(keys))
    return verifiers
