"""What ``oriel serve`` is told, as its workers get it: one JSON text on their command line."""

from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from oriel.app.contract import Limits
from oriel.app.guards import TokenSettings


@dataclass(frozen=True)
class ServiceSettings:
    """How a worker serves; the defaults are those of a service on a loopback address.

    ``allowed_hosts`` are names of the Host field beside addresses and ``localhost``,
    ``cors_origins`` those whose pages may read answers. ``tokens`` is a token file, ``jwks`` the
    file or address of an identity provider's keys; without both nobody needs a token.
    With ``open_probes``, ``/readyz``, ``/freshz`` and ``/metrics`` need no token.
    With ``is_tls`` the supervisor shares a certificate, without it the service speaks plain HTTP.
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

    def token_settings(self) -> TokenSettings:
        """Where tokens are known from."""
        return TokenSettings(self.tokens, self.jwks, self.jwt_issuer, self.jwt_audience)

    def to_json(self) -> str:
        """The settings as text."""
        return orjson.dumps(asdict(self), default=str).decode()

    @classmethod
    def from_json(cls, text: str) -> "ServiceSettings":
        """Read back what ``to_json`` wrote."""
        fields: dict[str, Any] = orjson.loads(text)
        fields["limits"] = Limits(**fields["limits"])
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        return cls(**fields)
