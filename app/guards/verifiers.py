"""Create the verifiers of tokens from the settings of the service."""

from pathlib import Path
from typing import NamedTuple

from oriel.app.guards.access import TokenVerifier
from oriel.app.guards.tokens import TokenFile


class TokenSettings(NamedTuple):
    """The sources of tokens: a token file, the keys of an identity provider, both or neither.

    Attributes:
        tokens: The token file.
        jwks: The file or URL of the identity provider's keys.
        jwt_issuer: The required issuer of JSON Web Tokens.
        jwt_audience: The required audience of JSON Web Tokens.
    """

    tokens: str | None
    jwks: str | None
    jwt_issuer: str | None
    jwt_audience: str | None


def make_verifiers(settings: TokenSettings) -> list[TokenVerifier]:
    """Return the verifiers of tokens. The list is empty if requests need no token.

    Raises:
        InvalidTokenFile: The token file cannot be used.
        InvalidKeys: The keys of the identity provider cannot be used.
        ModuleNotFoundError: The extra ``jwt`` is not installed.
    """
    verifiers: list[TokenVerifier] = []
    if settings.tokens is not None:
        verifiers.append(TokenFile(Path(settings.tokens)))
    if settings.jwks is not None and settings.jwt_issuer and settings.jwt_audience:
        # Imported only if it is used, because its packages are in an extra.
        from oriel.app.guards.jwt_tokens import JwtSettings, JwtVerifier  # noqa: PLC0415

        keys = JwtSettings(settings.jwks, settings.jwt_issuer, settings.jwt_audience)
        verifiers.append(JwtVerifier(keys))
    return verifiers
