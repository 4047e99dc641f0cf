"""The TLS certificate and its key: checked, followed on disk, and shared with the workers.

    files --- CertificateFiles (supervisor) ---> anonymous file ---> ServedCertificate (worker)

Only the supervisor reads the files. A worker gets the last pair that passed the check, also a
worker that starts while the files on disk are invalid.
"""

import hashlib
import logging
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from time import monotonic
from typing import NamedTuple, NoReturn, TypeAlias

import orjson

logger = logging.getLogger(__name__)

#: Seconds between two checks of the files. A change is used if the next check finds no other one,
#: because certificate and key are seldom replaced at the same instant.
_CHECK_SECONDS = 1.0
_DIGEST_BYTES = hashlib.sha256().digest_size
#: OpenSSL's results of a verification that are about time (x509_vfy.h).
_NOT_YET_VALID, _EXPIRED = 9, 10

_Identities: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class InvalidCertificate(Exception):
    """Certificate and key cannot be used. The message names the files and the solution."""


class _Pair(NamedTuple):
    """The contents of both files."""

    certificate: bytes
    key: bytes


class CertificateFiles:
    """A certificate file and a key file, and their last content that passed the check."""

    def __init__(self, certificate: str, key: str) -> None:
        """Read the files. An expired certificate is only logged, because no other one exists.

        Raises:
            InvalidCertificate: A file cannot be read, or the key is of another certificate.
        """
        self._certificate, self._key = certificate, key
        self._used = self._last = self._identities()
        self._checked_at = monotonic()
        pair = self._read()
        if problem := _problem_of_time(_context(pair, self._names), pair):
            logger.error("%s: %s", self._names, problem)
        # Open until the process ends, because the workers need it.
        self._shared = _anonymous_file()
        self._share(pair)

    def fileno(self) -> int:
        """Return the file descriptor of the anonymous file, for ``ServedCertificate``."""
        return self._shared

    def follow(self) -> None:
        """Check the files if it is time, and share a new pair."""
        if monotonic() - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = monotonic()
        last, self._last = self._last, self._identities()
        if self._last == last != self._used:
            self.reload()

    def reload(self) -> None:
        """Read the files now. If the pair is invalid, log it and keep the previous pair."""
        self._used = self._last = self._identities()
        try:
            pair = self._read()
            if problem := _problem_of_time(_context(pair, self._names), pair):
                raise InvalidCertificate(f"{self._names}: {problem}")  # noqa: EM102, TRY301
        except InvalidCertificate as error:
            logger.error("%s. The previous certificate stays in use", error)  # noqa: TRY400
        else:
            self._share(pair)
            logger.warning("certificate reloaded: files=%s", self._names)

    @property
    def _names(self) -> str:
        return f"TLS certificate {self._certificate} with key {self._key}"

    def _identities(self) -> _Identities:
        return tuple(map(_identity, (self._certificate, self._key)))

    def _read(self) -> _Pair:
        try:
            return _Pair(Path(self._certificate).read_bytes(), Path(self._key).read_bytes())
        except OSError as error:
            message = (
                f"{self._names}: cannot read {error.filename}: {error.strerror}. Let the user of "
                "the service read this file, or use another one"
            )
            raise InvalidCertificate(message) from error

    def _share(self, pair: _Pair) -> None:
        content = orjson.dumps([part.decode("latin-1") for part in pair])
        content = hashlib.sha256(content).digest() + content
        os.pwrite(self._shared, content, 0)
        os.ftruncate(self._shared, len(content))


class ServedCertificate:
    """The TLS context of a worker, with the last pair that the supervisor shared."""

    def __init__(self, descriptor: int) -> None:
        """Read the pair from the descriptor of ``CertificateFiles``."""
        self._shared = descriptor
        self._content = b""
        self._current: ssl.SSLContext | None = None
        self.follow()
        assert self._current is not None, "a supervisor starts workers after the first check"
        #: For the server: each handshake continues with the current context.
        self.context: ssl.SSLContext = self._current
        self.context.sni_callback = self._choose

    def follow(self) -> None:
        """Use a new pair of the supervisor from the next handshake on."""
        content = os.pread(self._shared, os.fstat(self._shared).st_size, 0)
        digest, text = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        # The digest does not match while the file is being written. The next check reads it.
        if content == self._content or hashlib.sha256(text).digest() != digest:
            return
        self._content = content
        certificate, key = (part.encode("latin-1") for part in orjson.loads(text))
        self._current = _context(_Pair(certificate, key), "TLS certificate")

    def _choose(self, connection: ssl.SSLObject, *_: object) -> None:
        # OpenSSL calls this for each handshake, also if the client names no host.
        if self._current is not None and self._current is not self.context:
            connection.context = self._current


def _context(pair: _Pair, names: str) -> ssl.SSLContext:
    """Return the context of a server with this certificate and key.

    Raises:
        InvalidCertificate: They are not PEM, or the key is encrypted or of another certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def ask_for_password() -> NoReturn:
        # Without this, OpenSSL prompts on the terminal and waits.
        message = f"{names}: the key is encrypted. Decrypt it with `openssl pkey -in KEY -out NEW`"
        raise InvalidCertificate(message)

    try:
        with _as_file(pair.certificate) as certificate, _as_file(pair.key) as key:
            context.load_cert_chain(certificate, key, ask_for_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = (
                f"{names}: the key does not belong to the certificate. Install both files of one "
                "renewal"
            )
        else:
            reason = error.reason or "no PEM"
            message = (
                f"{names}: the files are not a PEM certificate chain and its PEM key ({reason})"
            )
            message += ". Install both files of one renewal, the service's own certificate first"
        raise InvalidCertificate(message) from error
    return context


def _problem_of_time(context: ssl.SSLContext, pair: _Pair) -> str | None:
    """Return what a client rejects in the certificate's dates, by a handshake in memory."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A comment between the certificates can have any characters, but ``ssl`` accepts ASCII only.
    trusting.load_verify_locations(cadata=pair.certificate.decode("ascii", "ignore"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            # Only the clients know whether they trust the certificate otherwise.
            return {
                _EXPIRED: "the certificate has expired. Renew it",
                _NOT_YET_VALID: "the certificate is not valid yet. Check this machine's clock",
            }.get(error.verify_code)
        except ssl.SSLError:
            # For example a key of a type that this client does not support, but others do.
            return None
    return None


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _anonymous_file() -> int:
    """Open a file without a name, because a key must not stay on a disk."""
    if sys.platform == "linux":
        return os.memfd_create("oriel-certificate")
    descriptor, path = mkstemp()
    Path(path).unlink()
    return descriptor


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Write content to an anonymous file, because ``ssl`` reads files only."""
    descriptor = _anonymous_file()
    try:
        os.pwrite(descriptor, content, 0)
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)
