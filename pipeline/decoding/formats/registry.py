"""A schema registry over Confluent's REST interface: the schemas that values name by their ids.

A schema never changes under its id, so each process asks once for each. A registry that is down
ends the run after a bounded wait, with one line: what it was asked for isn't a fault of the
record's, and the batch is not decided, so nothing is lost.
"""

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from oriel.pipeline.errors import InvalidTopology, RegistryUnavailable

#: How long an answer is waited for, and between two attempts.
WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.5

_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
#: What this process has been told. An id without a schema is asked for again with the next batch:
#: a registry's follower may be behind.
_SCHEMAS: dict[tuple["SchemaRegistry", str], tuple[str, ...]] = {}


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry by its address; ``user_info`` is ``user:password``, never shown."""

    url: str
    user_info: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, user_info: str | None = None) -> "SchemaRegistry":
        """The registry at an address, which may have user and password before the host.

        Raises:
            InvalidTopology: it is no address of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            # Without the text: it may hold a password.
            message = (
                "the address of the schema registry must be a URL, for example http://host:8081"
            )
            raise InvalidTopology(message)
        user, _, host = parts.netloc.rpartition("@")
        address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        return cls(address, user_info or unquote(user) or None)

    def avro_schemas(self, schema_id: int) -> tuple[str, ...] | None:
        """The Avro schema of an id, behind those that it refers to; None: there is none.

        Raises:
            RegistryUnavailable: no answer in time, or a refusal.
        """
        return _avro_schemas(self, f"/schemas/ids/{schema_id}")

    def answer(self, path: str) -> dict[str, Any] | None:
        """What the registry has at ``path``; None where it has nothing.

        Raises:
            RegistryUnavailable: no answer in time, or a refusal.
        """
        request = urllib.request.Request(self.url + path, headers={"Accept": _ACCEPTED})  # noqa: S310 - checked in at
        if self.user_info:
            credentials = b64encode(self.user_info.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {credentials}")
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:  # noqa: S310
                    found = json.load(response)
                    return found if isinstance(found, dict) else None
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                fault = f"status {error.code}"
                if error.code < 500 and error.code != 429:
                    raise self._unavailable(fault) from error
            except (OSError, ValueError, HTTPException) as error:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                fault = f"{reason}"
            if time.monotonic() + _PAUSE_SECONDS > end:
                raise self._unavailable(fault)
            time.sleep(_PAUSE_SECONDS)

    def _unavailable(self, fault: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the schema registry {self.url} returned no schema ({' '.join(fault.split())}). "
            "Nothing of the batch is committed. Start again when the registry responds"
        )


def _avro_schemas(registry: SchemaRegistry, path: str) -> tuple[str, ...] | None:
    if (registry, path) in _SCHEMAS:
        return _SCHEMAS[registry, path]
    found = registry.answer(path)
    if found is None or found.get("schemaType", "AVRO") != "AVRO" or "schema" not in found:
        return None
    schemas: dict[str, None] = {}
    for reference in found.get("references") or []:
        subject, version = quote(str(reference.get("subject")), safe=""), reference.get("version")
        referred = _avro_schemas(registry, f"/subjects/{subject}/versions/{version}")
        if referred is None:
            return None
        schemas.update(dict.fromkeys(referred))
    return _SCHEMAS.setdefault((registry, path), (*schemas, str(found["schema"])))
