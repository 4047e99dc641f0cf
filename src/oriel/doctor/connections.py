"""Checks over the network: port, certificate, brokers, a running service."""

import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from oriel.doctor.results import Check, Result, Subject, ok, problem, warning

_SECONDS = 5.0
_DAY_SECONDS = 86_400
#: Certificates of Let's Encrypt are renewed 30 days before their end, so then nothing renews them.
_EXPIRES_SOON_DAYS = 14


class Port(Check):
    """Whether the service can listen on its port, or already does."""

    name: ClassVar[str] = "port"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.port is None:
            return
        where = f"{subject.host}:{subject.port}"
        family = socket.AF_INET6 if ":" in subject.host else socket.AF_INET
        try:
            with closing(socket.socket(family)) as listener:
                # As the service does it: a port that a closed connection still holds is free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((subject.host, subject.port))
            yield ok(f"{where} is free")
        except OSError as error:
            if _is_oriel(f"http://{where}") or _is_oriel(f"https://{where}"):
                yield ok(f"A service of Oriel listens on {where}")
            else:
                message = f"The service cannot listen on {where} ({error.strerror})"
                yield problem(message, "Stop the other program, or choose another --host or --port")


class Certificate(Check):
    """Whether certificate and key belong together, and how long the certificate is valid."""

    name: ClassVar[str] = "certificate"

    def results(self, subject: Subject) -> Iterator[Result]:
        certificate, key = subject.tls_cert, subject.tls_key
        if certificate is None:
            return
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            server.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).lower().replace("_", " ")
            found = f"{certificate} and {key or certificate} cannot be used ({reason})"
            yield problem(found, "Use the certificate chain and its own key, both in PEM")
            return
        if key is not None and key.stat().st_mode & 0o077:
            yield warning(f"Other users can read the key {key}", f"chmod 600 {key}")
        ends_seconds = _end_of(certificate)
        days = (ends_seconds - time.time()) / _DAY_SECONDS
        action = "Renew it, and replace both files"
        if days < 0:
            yield problem(f"{certificate} expired {-days:,.1f} days ago", action)
        elif days < _EXPIRES_SOON_DAYS:
            yield warning(f"{certificate} expires in {days:,.1f} days", action)
        else:
            yield ok(f"{certificate} is valid for {days:,.0f} days")


def _end_of(certificate: Path) -> float:
    """Return when a certificate expires, in seconds since the epoch."""
    # Python's public functions decode only certificates of a peer that was verified, and an
    # expired one is not.
    decoded: dict[str, Any] = ssl._ssl._test_decode_cert(str(certificate))  # type: ignore[attr-defined] # noqa: SLF001
    return float(ssl.cert_time_to_seconds(decoded["notAfter"]))


class Brokers(Check):
    """Whether each of Kafka's bootstrap servers accepts connections."""

    name: ClassVar[str] = "Kafka"

    def results(self, subject: Subject) -> Iterator[Result]:
        for server in subject.kafka:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal():
                yield problem(
                    f"{server!r} is not a HOST:PORT",
                    "Use HOST:PORT, for example broker.example:9092",
                )
                continue
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
                yield ok(f"{server} accepts connections")
            except OSError as error:
                action = (
                    "Check that the broker runs, and check its advertised listeners and the "
                    "firewall"
                )
                yield problem(f"{server}: {_reason(error)}", action)


class Service(Check):
    """What a running service says about itself and its stores."""

    name: ClassVar[str] = "service"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.url is None:
            return
        url = subject.url.rstrip("/")
        try:
            readiness = _get(f"{url}/readyz")
        except (OSError, ValueError) as error:
            action = "Start it with `oriel serve`, or check the address and its reverse proxy"
            yield problem(f"{url}: {_reason(error)}", action)
            return
        if readiness.get("code") in {"unauthorized", "forbidden"}:
            yield ok(f"{url} responds, and shows details only with a token")
            return
        if readiness.get("problem"):
            yield problem(f"{url}: {readiness['problem']}", "Read the messages of `oriel serve`")
        for name, store in readiness.get("stores", {}).items():
            if store["problem"] and not readiness["problem"]:
                yield problem(f"{url}: store {name}: {store['problem']}", "See `oriel status`")
        if readiness.get("ready"):
            yield ok(f"{url} is ready with {len(readiness['stores']):,} stores")


def _is_oriel(url: str) -> bool:
    try:
        return _get(f"{url}/healthz") == {"status": "ok"}
    except (OSError, ValueError):
        return False


def _get(url: str) -> dict[str, Any]:
    """Return the JSON object of a response or of an error. Any certificate is accepted."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS, context=context) as response:  # noqa: S310
            content = response.read()
    except urllib.error.HTTPError as error:
        content = error.read()
    found = json.loads(content)
    if not isinstance(found, dict):
        message = "the response is not from Oriel"
        raise ValueError(message)  # noqa: TRY004 - an invalid response, not an invalid argument
    return found


def _reason(error: Exception) -> str:
    """Return what is wrong in a few words, without the wrapper of ``urllib``."""
    inner = getattr(error, "reason", error)
    if isinstance(inner, TimeoutError):
        return f"no response within {_SECONDS:.0f} s"
    if isinstance(inner, json.JSONDecodeError):
        return "the response is not from Oriel"
    return getattr(inner, "strerror", None) or str(inner)
