"""A client of a schema registry with Confluent's REST API, for values with the id of their schema.

The schema of an id never changes, so each process requests it once. If the registry is unavailable,
the run ends after a bounded wait, with a message of one line. The batch is not prepared and its
records do not become dead letters, so no record is lost.
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

#: The timeout of an attempt. After this time, no other attempt starts.
WAIT_SECONDS = 10.0
#: The pause between two attempts.
_PAUSE_SECONDS = 0.5

_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
#: Registry and path -> the schemas that this process has received. An unknown id is requested again
#: with the next batch, because a follower of the registry can lag.
_SCHEMAS: dict[tuple["SchemaRegistry", str], tuple[str, ...]] = {}


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry.

    Attributes:
        url: The address, without user and password.
        user_info: ``user:password``. Messages never contain it.
    """

    url: str
    user_info: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, user_info: str | None = None) -> "SchemaRegistry":
        """Return the registry at an address, which can have user and password before the host.

        Raises:
            InvalidTopology: The address is not an HTTP or HTTPS URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            # The message does not contain the address, which can contain a password.
            message = (
                "the address of the schema registry must be a URL, for example http://host:8081"
            )
            raise InvalidTopology(message)
        user, _, host = parts.netloc.rpartition("@")
        address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        return cls(address, user_info or unquote(user) or None)

    def avro_schemas(self, schema_id: int) -> tuple[str, ...] | None:
        """Return the Avro schema of an id, after the schemas that it references.

        Returns:
            None if the registry has no Avro schema with this id, or lacks a referenced schema.

        Raises:
            RegistryUnavailable: The registry does not respond in time or rejects the request.
        """
        return _avro_schemas(self, f"/schemas/ids/{schema_id}")

    def load_json(self, path: str) -> dict[str, Any] | None:
        """Return the JSON object at ``path``, or None if it does not exist.

        Raises:
            RegistryUnavailable: The registry does not respond in time or rejects the request.
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
                failure = f"status {error.code}"
                if error.code < 500 and error.code != 429:
                    raise self._unavailable(failure) from error
            except (OSError, ValueError, HTTPException) as error:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                failure = f"{reason}"
            if time.monotonic() + _PAUSE_SECONDS > end:
                raise self._unavailable(failure)
            time.sleep(_PAUSE_SECONDS)

    def _unavailable(self, failure: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the schema registry {self.url} returned no schema ({' '.join(failure.split())}). "
            "Nothing of the batch is committed. Start again when the registry responds"
        )


def _avro_schemas(registry: SchemaRegistry, path: str) -> tuple[str, ...] | None:
    if (registry, path) in _SCHEMAS:
        return _SCHEMAS[registry, path]
    found = registry.load_json(path)
    if found is None or found.get("schemaType", "AVRO") != "AVRO" or "schema" not in found:
        return None
    schemas: dict[str, None] = {}
    for reference in found.get("references") or []:
        subject, version = quote(str(reference.get("subject")), safe=""), reference.get("version")
        referenced = _avro_schemas(registry, f"/subjects/{subject}/versions/{version}")
        if referenced is None:
            return None
        schemas.update(dict.fromkeys(referenced))
    return _SCHEMAS.setdefault((registry, path), (*schemas, str(found["schema"])))
