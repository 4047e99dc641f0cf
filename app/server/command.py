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
from oriel.app.guards import InvalidKeys, InvalidTokenFile, is_loopback, make_verifiers
from oriel.app.server.certificates import CertificateFiles, InvalidCertificate
from oriel.app.server.settings import ServiceSettings
from oriel.app.server.supervisor import AddressInUse, Supervisor
from oriel.app.telemetry import is_traced, share_metrics
from oriel.storage import (
    ALL_KEYS,
    DataLayout,
    ObjectStoreFailed,
    Shard,
    add_log_format,
    current_files,
    disk_problem,
    is_object,
    parse_data_directory,
    say,
    set_up_console,
    uri,
)
from oriel.storage.tailer import has_tables_or_indexes

#: Bytes of a response that the kernel buffers until it sends them, and of a request until the
#: worker reads them.
_UNSENT_BYTES, _UNREAD_BYTES = 128 * 1024, 128 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Exit code 1 if the directory or address cannot be used."""
    options = _parse(arguments)
    set_up_console(
        options.log_format, level=logging.INFO, text="%(levelname)s api: %(message)s", process="api"
    )
    settings = _settings(options)
    certificate: CertificateFiles | None = None
    problem = _security_problem(options, settings)
    if problem is None and options.tls_cert is not None:
        try:
            certificate = CertificateFiles(options.tls_cert, options.tls_key)
        except InvalidCertificate as error:
            problem = str(error)
    index_directory = options.index or options.data
    problem = problem or (_sql_problem(options.data) if options.sql else None)
    problem = problem or _data_problem(options.data, index_directory)
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
    end_measures = share_metrics()
    try:
        return Supervisor(
            layout,
            listener,
            options.workers,
            options.log_format,
            options.stale_after,
            [f"--settings={settings.to_json()}"],
        ).run(lambda: print(f"Oriel serves {uri(options.data)} at {url}", flush=True), certificate)
    except AddressInUse as error:
        line = f"{options.host}:{options.port}: cannot listen: {error}"
        say("error", line, level="error")
        return 1
    finally:
        end_measures()


def _data_problem(data: Path, index_directory: Path) -> str | None:
    """Return why the data directory, or the directory of the indexes, can't be used."""
    if is_object(index_directory):
        return (
            f"{uri(index_directory)}: an object store cannot contain the indexes. Set --index to a "
            "local directory"
        )
    try:
        current_files().reach(data)
        _require_directory(data)
        _require_permissions(index_directory)
    except ObjectStoreFailed as error:
        return str(error)
    except OSError as error:
        default_problem = f"{data}: cannot use the data directory: {error.strerror}"
        return disk_problem(error, index_directory) or default_problem
    return None


def _sql_problem(data: Path) -> str | None:
    """Return why SQL queries cannot be run, None if they can."""
    if find_spec("duckdb") is None:
        return "--sql: DuckDB is not installed. Run pip install 'oriel[sql]'"
    if is_object(data):
        return f"{uri(data)}: SQL needs tables in a local directory. Remove --sql"
    return None


def _url(scheme: str, host: str, listener: socket.socket) -> str:
    # A browser cannot open an address that means all addresses.
    name = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)  # noqa: S104
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def _bound_socket(host: str, port: int) -> socket.socket:
    """Bind the socket that all workers share. Port 0 means a free port.

    The first worker that is ready listens. Until then, connections are refused at once, so that a
    router uses another service.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Like ``socket.create_server``.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # Otherwise, the kernel buffers megabytes of a response that its client does not read, and of
    # a body that the worker does not read yet. Each connection inherits these options.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
    bound.bind((host, port))
    return bound


def _require_directory(data: Path) -> None:
    """Raise OSError if the path exists and is not a directory."""
    if is_object(data):
        return
    try:
        mode = data.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(data))


def _require_permissions(index_directory: Path) -> None:
    """Raise OSError if no index can be written to an existing directory."""
    if index_directory.is_dir() and not os.access(index_directory, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(index_directory))


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
        sql=options.sql,
    )


def _security_problem(options: argparse.Namespace, settings: ServiceSettings) -> str | None:
    """Return what is wrong with tokens, None if nothing is wrong."""
    if is_traced() and find_spec("opentelemetry.instrumentation") is None:
        return (
            "OTEL_EXPORTER_OTLP_ENDPOINT: traces need a package that is not installed. Run "
            "pip install 'oriel[otel]'"
        )
    try:
        make_verifiers(settings.token_settings())
    except (InvalidTokenFile, InvalidKeys) as error:
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
    parser = argparse.ArgumentParser(
        prog="oriel serve",
        description="Serve the stores of a data directory over HTTP. A second process, the "
        "tailer, keeps the indexes up to date. If no tables exist yet, the service starts to "
        "serve them when a pipeline writes them.",
    )
    parser.add_argument(
        "--data", type=parse_data_directory, required=True, metavar="DIR",
        help="serve the tables of this data directory",
    )  # fmt: skip
    parser.add_argument(
        "--index", type=Path, metavar="DIR",
        help="keep the indexes in this local directory. Required for s3:// data. Default: "
        "DATA/index",
    )  # fmt: skip
    parser.add_argument(
        "--shard", type=_shard, default=ALL_KEYS, metavar="NUMBER/COUNT",
        help="serve only one of COUNT shards of the keys, for example 2/8. A router sends each "
        "request to the shard of its key (docs/how-to/routing.md). Default: 1/1",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="listen on this address. An address that other machines reach needs tokens or "
        "--insecure. Default: 127.0.0.1",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_within(0, 65_535), default=8080, metavar="N",
        help="listen on this port, 0 for a free port. Default: 8080",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=_within(1, 256), default=1, metavar="N",
        help="start this many worker processes. Default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--stale-after", type=_within(1, 86_400), metavar="SECONDS",
        help="report a store as not ready in /readyz if its index lags by more than this. "
        "Default: 60",
    )  # fmt: skip
    parser.add_argument(
        "--sql", action="store_true",
        help="run SQL queries of clients, each in a process of its own. Needs oriel[sql]",
    )  # fmt: skip
    add_log_format(parser)
    _add_security(parser)
    for limit in LIMIT_FIELDS:
        parser.add_argument(
            f"--limit-{limit.name.replace('_', '-')}", type=_within(1, limit.most), metavar="N",
            default=limit.default, help=f"{limit.meaning}. Default: {limit.default}",
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
    """Add the options for tokens, TLS, allowed hosts and CORS."""
    parser.add_argument(
        "--insecure", action="store_true",
        help="allow an address that other machines reach without tokens",
    )  # fmt: skip
    parser.add_argument(
        "--tokens", metavar="FILE",
        help="require a token of this file, see oriel token. A changed file is used without a "
        "restart",
    )  # fmt: skip
    parser.add_argument(
        "--jwks", metavar="FILE|URL",
        help="accept JSON Web Tokens of the identity provider with these public keys, in addition "
        "to --tokens. Needs oriel[jwt]",
    )  # fmt: skip
    parser.add_argument(
        "--jwt-issuer", metavar="ISS", help="require this issuer of a JSON Web Token"
    )
    parser.add_argument(
        "--jwt-audience", metavar="AUD", help="require this audience of a JSON Web Token"
    )
    parser.add_argument(
        "--open-probes", action="store_true",
        help="accept requests for /readyz, /freshz and /metrics without a token, for probes and "
        "Prometheus",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert", metavar="FILE",
        help="serve only HTTPS, with the certificate chain of this PEM file. A changed file is "
        "used without a restart",
    )  # fmt: skip
    parser.add_argument(
        "--tls-key", metavar="FILE",
        help="read the private key of the certificate from this PEM file. It must not be encrypted",
    )  # fmt: skip
    parser.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="accept requests for this host name, in addition to addresses and localhost. "
        "'*.NAME' accepts all names below NAME, '*' accepts any name. Can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--cors-origin", action="append", default=[], metavar="ORIGIN",
        help="allow pages of this web origin to read responses, for example "
        "https://app.example.org. Can be repeated",
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
    """Return a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        message = f"must be an integer from {low} to {high}"
        raise argparse.ArgumentTypeError(message)

    return read
