"""Serve the stores of a data directory over HTTP."""

import argparse
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from oriel.app.contract import LIMIT_FIELDS, Limits
from oriel.app.guards import BadKeys, BadTokenFile, is_loopback, make_verifiers
from oriel.app.server.certificates import BadCertificate, CertificateFiles
from oriel.app.server.settings import ServiceSettings
from oriel.app.server.supervisor import AddressTaken, Supervisor
from oriel.app.telemetry import is_traced, share_measures
from oriel.storage import (
    ALL_KEYS,
    DataLayout,
    ObjectStoreFailed,
    Shard,
    add_log_format,
    current_files,
    data_folder,
    disk_problem,
    is_object,
    say,
    set_up_console,
    uri,
)
from oriel.storage.tailer import has_tables_or_indexes

#: Bytes of a response that the kernel takes before it sends them, and of a request that it keeps
#: until the worker reads them.
_UNSENT_BYTES, _UNREAD_BYTES = 128 * 1024, 128 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Exit code 1 if the directory or address cannot be used."""
    options = _parse(arguments)
    set_up_console(
        options.log_format, level=logging.INFO, text="%(levelname)s api: %(message)s", process="api"
    )
    settings = _settings(options)
    certificate: CertificateFiles | None = None
    problem = _why_not_secure(options, settings)
    if problem is None and options.tls_cert is not None:
        try:
            certificate = CertificateFiles(options.tls_cert, options.tls_key)
        except BadCertificate as error:
            problem = str(error)
    place = options.index or options.data
    problem = problem or _why_unusable(options.data, place)
    if problem is not None:
        say("error", problem, level="error")
        return 1
    layout = DataLayout(options.data, options.index, options.shard)
    if not has_tables_or_indexes(layout):
        line = (
            f"{options.data}: no tables exist yet. The service serves them as soon as a pipeline "
            "writes them"
        )
        say("no-tables", line, level="warning")
    try:
        listener = _bound_socket(options.host, options.port)
    except OSError as error:
        line = f"{options.host}:{options.port}: cannot listen: {error.strerror}"
        say("error", line, level="error")
        return 1
    url = _url("https" if settings.is_tls else "http", options.host, listener)
    end_measures = share_measures()
    try:
        return Supervisor(
            layout,
            listener,
            options.workers,
            options.log_format,
            options.stale_after,
            [f"--settings={settings.to_json()}"],
        ).run(lambda: print(f"Oriel serves {uri(options.data)} at {url}", flush=True), certificate)
    except AddressTaken as error:
        line = f"{options.host}:{options.port}: cannot listen: {error}"
        say("error", line, level="error")
        return 1
    finally:
        end_measures()


def _why_unusable(data: Path, place: Path) -> str | None:
    """Return why the data directory, or the directory of the indexes, can't be used."""
    if is_object(place):
        return (
            f"{uri(place)}: an object store cannot contain the indexes. Name a local directory "
            "with --index"
        )
    try:
        current_files().reach(data)
        _require_folder(data)
        _require_rights(place)
    except ObjectStoreFailed as error:
        return str(error)
    except OSError as error:
        told = f"{data}: cannot use the data directory: {error.strerror}"
        return disk_problem(error, place) or told
    return None


def _url(scheme: str, host: str, listener: socket.socket) -> str:
    # An address that means every address is not one that a browser can open.
    name = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def _bound_socket(host: str, port: int) -> socket.socket:
    """Bind the socket that all workers share; port 0 takes a free one.

    The first worker that can respond listens: until then, a connection is refused at once, and
    a router uses another service.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # As ``socket.create_server``, which listens, too.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # Else the kernel takes megabytes of a response that its client does not read, and of a body
    # that the worker does not read yet. Each connection has the options of the listening socket.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
    bound.bind((host, port))
    return bound


def _require_folder(data: Path) -> None:
    """Raise OSError if there is something else in the folder's place; it may still be missing."""
    if is_object(data):
        return
    try:
        mode = data.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(data))


def _require_rights(place: Path) -> None:
    """Raise OSError if no index can be written to an existing directory."""
    if place.is_dir() and not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def _settings(options: argparse.Namespace) -> ServiceSettings:
    """Return the options that the workers get."""
    return ServiceSettings(
        limits=Limits(**{one.name: getattr(options, f"limit_{one.name}") for one in LIMIT_FIELDS}),
        allowed_hosts=tuple(options.allowed_host),
        cors_origins=tuple(options.cors_origin),
        tokens=options.tokens,
        jwks=options.jwks,
        jwt_issuer=options.jwt_issuer,
        jwt_audience=options.jwt_audience,
        is_tls=options.tls_key is not None,
        open_probes=options.open_probes,
        access_log=options.access_log,
    )


def _why_not_secure(options: argparse.Namespace, settings: ServiceSettings) -> str | None:
    """Return what is wrong with tokens, None if nothing is wrong."""
    if is_traced() and find_spec("opentelemetry.instrumentation") is None:
        return (
            "OTEL_EXPORTER_OTLP_ENDPOINT: traces need a package that is not installed. Run "
            "pip install 'oriel[otel]'"
        )
    try:
        make_verifiers(settings.token_settings())
    except (BadTokenFile, BadKeys) as error:
        return str(error)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed. Run pip install 'oriel[jwt]'"
    if options.tls_key is None and not is_loopback(options.host) and not options.insecure:
        line = (
            "tokens are sent in plain text. Set --tls-cert and --tls-key, or let only a proxy "
            "with TLS reach this address"
        )
        say("warning", line, level="warning")
    return None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel serve", description=__doc__)
    parser.add_argument("--data", type=data_folder, required=True, help="the data directory")
    parser.add_argument(
        "--index", type=Path, help="local directory of the indexes (default: DATA/index)"
    )
    parser.add_argument(
        "--shard", type=_shard, default=ALL_KEYS, metavar="NUMBER/COUNT",
        help="serve one of COUNT shards of the keys, like 2/8. A router sends requests to the "
        "right one (docs/how-to/routing.md)",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=_within(0, 65_535), default=8080, help="port to listen on, 0 for a free one"
    )
    parser.add_argument(
        "--workers", type=_within(1, 256), default=1, help="number of worker processes"
    )
    parser.add_argument(
        "--stale-after", type=_within(1, 86_400), metavar="SECONDS",
        help="greatest lag of an index in seconds before /readyz reports it as not ready "
        "(default 60)",
    )  # fmt: skip
    add_log_format(parser)
    _add_security(parser)
    for limit in LIMIT_FIELDS:
        parser.add_argument(
            f"--limit-{limit.name.replace('_', '-')}", type=_within(1, limit.most), metavar="N",
            default=limit.default, help=f"{limit.meaning} (default {limit.default})",
        )  # fmt: skip
    options = parser.parse_args(arguments)
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key must be set together")
    if options.jwks is not None and not (options.jwt_issuer and options.jwt_audience):
        parser.error("--jwks needs --jwt-issuer and --jwt-audience. Set both")
    has_tokens = options.tokens is not None or options.jwks is not None
    if not (has_tokens or options.insecure or is_loopback(options.host)):
        parser.error(
            f"--host: {options.host} is reachable from other machines, and requests need no "
            "token. Set --tokens (see `oriel token`) or --jwks. Set --insecure if a proxy or "
            "the network limits access"
        )
    return options


def _add_security(parser: argparse.ArgumentParser) -> None:
    """Add the options for tokens, TLS, hosts and origins."""
    parser.add_argument(
        "--insecure", action="store_true",
        help="listen on an address that other machines reach, without requiring tokens",
    )  # fmt: skip
    parser.add_argument("--tokens", metavar="FILE", help="file of tokens, see `oriel token`")
    parser.add_argument(
        "--jwks", metavar="FILE|URL",
        help="public keys of an identity provider. Its JSON Web Tokens are accepted in addition "
        "to --tokens",
    )  # fmt: skip
    parser.add_argument("--jwt-issuer", metavar="ISS", help="required issuer of a JSON Web Token")
    parser.add_argument(
        "--jwt-audience", metavar="AUD", help="required audience of a JSON Web Token"
    )
    parser.add_argument(
        "--open-probes", action="store_true",
        help="accept requests for /readyz, /freshz and /metrics without a token, for probes and "
        "Prometheus",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        help="PEM file with the certificate chain, to serve HTTPS. A changed file is used "
        "without a restart",
    )
    parser.add_argument(
        "--tls-key", metavar="FILE", help="PEM file with the private key of the certificate"
    )
    parser.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="a host name that requests can use, in addition to addresses and localhost. "
        "'*.NAME' allows all names below NAME, '*' any name. Can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cors-origin", action="append", default=[], metavar="ORIGIN",
        help="an origin like https://app.example.org whose pages can read responses. Can be "
        "repeated",
    )  # fmt: skip
    parser.add_argument(
        "--access-log", action="store_true", help="write a line for each request to stderr"
    )


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _within(low: int, high: int) -> Callable[[str], int]:
    """Make a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        message = f"must be an integer from {low} to {high}"
        raise argparse.ArgumentTypeError(message)

    return read
