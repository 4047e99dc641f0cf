"""The options of ``oriel serve`` that its workers get as one JSON argument."""

from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from oriel.app.contract import Limits
from oriel.app.guards import TokenSettings


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of a worker. The defaults fit a service on a loopback address.

    Attributes:
        limits: The limits of the worker.
        allowed_hosts: Allowed names in the Host field, in addition to addresses and ``localhost``.
        cors_origins: Web origins whose pages can read responses.
        tokens: The token file. Without ``tokens`` and ``jwks``, requests need no token.
        jwks: The file or address of an identity provider's keys.
        jwt_issuer: The required issuer of a JSON Web Token.
        jwt_audience: The required audience of a JSON Web Token.
        is_tls: The supervisor shares a certificate. If False, the service uses plain HTTP.
        open_probes: ``/readyz``, ``/freshz`` and ``/metrics`` need no token.
        access_log: Log a line for each request.
        sql: Run SQL queries.
    """

    limits: Limits = field(default_factory=Limits)
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    tokens: str | None = None
    jwks: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    is_tls: bool = False
    open_probes: bool = False
    access_log: bool = False
    sql: bool = False

    def token_settings(self) -> TokenSettings:
        """Return the settings of tokens."""
        return TokenSettings(self.tokens, self.jwks, self.jwt_issuer, self.jwt_audience)

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return orjson.dumps(asdict(self), default=str).decode()

    @classmethod
    def from_json(cls, text: str) -> "ServiceSettings":
        """Parse the JSON of ``to_json``."""
        fields: dict[str, Any] = orjson.loads(text)
        fields["limits"] = Limits(**fields["limits"])
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)
