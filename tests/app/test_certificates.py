"""Tests of the service's certificate: renewed or invalid on disk, and shared with its workers."""

import logging
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from oriel.app.server import certificates
from oriel.app.server.certificates import CertificateFiles, InvalidCertificate, ServedCertificate
from tests.app.serving import Serving
from tests.certificates import write_certificate
from tests.storage.waiting import wait_for, wait_until


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with ``cert.pem`` and ``key.pem``."""
    made = tmp_path / "tls"
    made.mkdir()
    write_certificate(made)
    return made


def _files(directory: Path) -> CertificateFiles:
    return CertificateFiles(str(directory / "cert.pem"), str(directory / "key.pem"))


def _shown(served: ServedCertificate) -> str:
    """Return the certificate that a client receives in a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    server = served.context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    content = client.getpeercert(binary_form=True)
    assert content is not None
    return ssl.DER_cert_to_PEM_cert(content)


def _pem(directory: Path) -> str:
    return (directory / "cert.pem").read_text()


def test_a_worker_serves_the_pair_that_passed_the_check_last(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Workers serve the last valid pair, also after a restart, and each problem is logged once."""
    caplog.set_level(logging.WARNING)
    first = _pem(directory)
    files = _files(directory)
    worker = ServedCertificate(files.fileno())
    assert _shown(worker) == first
    (directory / "old-key.pem").write_bytes((directory / "key.pem").read_bytes())
    write_certificate(directory)
    shutil.move(directory / "old-key.pem", directory / "key.pem")
    files.reload()
    worker.follow()
    assert _shown(worker) == _shown(ServedCertificate(files.fileno())) == first
    (line,) = caplog.messages
    assert "the key does not belong to the certificate. Install both files of one renewal" in line
    assert line.endswith("The previous certificate stays in use")
    write_certificate(directory)
    files.reload()
    assert _shown(worker) == first
    worker.follow()
    assert _shown(worker) == _shown(ServedCertificate(files.fileno())) == _pem(directory) != first


def test_files_are_used_once_they_stay_the_same(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A poll between the replacements of certificate and key does not log a mismatch."""
    monkeypatch.setattr(certificates, "_CHECK_SECONDS", 0.0)
    files = _files(directory)
    worker = ServedCertificate(files.fileno())
    old_key = (directory / "key.pem").read_bytes()
    write_certificate(directory)
    new_key = (directory / "key.pem").read_bytes()
    (directory / "key.pem").write_bytes(old_key)
    files.follow()
    (directory / "key.pem").write_bytes(new_key)
    files.follow()
    files.follow()
    worker.follow()
    assert _shown(worker) == _pem(directory)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    files.follow()
    assert len(caplog.records) == 1


def test_an_expired_certificate_replaces_no_other_one(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An expired certificate is only served if the service has no other one."""
    files = _files(directory)
    worker = ServedCertificate(files.fileno())
    valid = _pem(directory)
    write_certificate(directory, days=-1)
    files.reload()
    worker.follow()
    assert _shown(worker) == valid
    only = ServedCertificate(_files(directory).fileno())
    assert _shown(only) == _pem(directory)
    assert [message.count("the certificate has expired. Renew it") for message in caplog.messages]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_a_certificate_file_can_have_comments(directory: Path) -> None:
    """A certificate file can have comments in any characters, as `openssl x509 -text` writes."""
    text = f"Subject: O=Zürich\n{_pem(directory)}"
    (directory / "cert.pem").write_text(text, encoding="utf-8")
    assert _shown(ServedCertificate(_files(directory).fileno())) in text


def test_a_pair_that_is_being_shared_is_read_later(directory: Path) -> None:
    """A worker never uses a half-written pair."""
    files = _files(directory)
    worker = ServedCertificate(files.fileno())
    first = _pem(directory)
    write_certificate(directory)
    content = os.pread(files.fileno(), 1_000_000, 0)
    os.pwrite(files.fileno(), b"[" * 40, 60)
    worker.follow()
    assert _shown(worker) == first
    os.pwrite(files.fileno(), content, 0)
    files.reload()
    worker.follow()
    assert _shown(worker) == _pem(directory)


def _encrypt(directory: Path) -> None:
    key = serialization.load_pem_private_key((directory / "key.pem").read_bytes(), None)
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def _empty(directory: Path) -> None:
    (directory / "cert.pem").write_bytes(b"")


def _delete(directory: Path) -> None:
    (directory / "key.pem").unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_encrypt, "the key is encrypted. Decrypt it with `openssl pkey"),
        (_empty, "not a PEM certificate chain and its PEM key"),
        (_delete, "key.pem: No such file or directory. Let the user of the service read"),
    ],
)  # fmt: skip
def test_an_unusable_pair_is_refused_with_a_solution(
    directory: Path, damage: Callable[[Path], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unusable pair is an error at the start. Later, the previous pair stays."""
    files = _files(directory)
    damage(directory)
    with pytest.raises(InvalidCertificate, match=re.escape(words)):
        _files(directory)
    files.reload()
    assert words in caplog.messages[-1]


@pytest.fixture
def serving(tmp_path: Path, directory: Path) -> Iterator[Serving]:
    """Return a service with TLS and two workers."""
    made = Serving(
        tmp_path / "data", "--workers", "2",
        "--tls-cert", str(directory / "cert.pem"), "--tls-key", str(directory / "key.pem"),
    )  # fmt: skip
    yield made
    assert made.end() == 0


def _served(serving: Serving) -> set[str]:
    """Return the certificates of several connections, which the workers share."""
    address = ("127.0.0.1", serving.port)
    return {ssl.get_server_certificate(address) for _ in range(12)}


def _workers(serving: Serving) -> list[int]:
    listed = subprocess.run(
        ["pgrep", "-P", str(serving.process.pid), "-f", "oriel.app.server.worker"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [int(pid) for pid in listed.stdout.split()]


@pytest.mark.slow
def test_a_renewed_certificate_is_used_without_a_restart(serving: Serving, directory: Path) -> None:
    """All workers use a renewed certificate, and open connections stay open."""
    first = _pem(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(serving.connect()) as kept:
        write_certificate(directory)
        wait_for({_pem(directory)}, lambda: _served(serving), "the certificates of the workers")
        assert _pem(directory) != first
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(100).startswith(b"HTTP/1.1 200")
    second = _pem(directory)
    key = (directory / "key.pem").read_bytes()
    write_certificate(directory)
    (directory / "key.pem").write_bytes(key)
    wait_until(
        serving.stderr.read_text,
        "the error",
        lambda text: "does not belong to the certificate" in text,
    )
    ended, *_ = before = _workers(serving)
    os.kill(ended, signal.SIGKILL)
    wait_until(
        lambda: _workers(serving), "a new worker",
        lambda found: len(found) == len(before) and ended not in found,
    )  # fmt: skip
    # Stop the others, so that the restarted worker responds.
    for pid in before[1:]:
        os.kill(pid, signal.SIGSTOP)
    assert ssl.get_server_certificate(("127.0.0.1", serving.port), timeout=60) == second
    for pid in before[1:]:
        os.kill(pid, signal.SIGCONT)
    assert serving.stderr.read_text().count("does not belong to the certificate") == 1
    assert serving.stderr.read_text().count("process restarted") == 1
    write_certificate(directory)
    os.kill(serving.process.pid, signal.SIGHUP)
    wait_for({_pem(directory)}, lambda: _served(serving), "the certificates of the workers")


@pytest.mark.slow
def test_sighup_ends_no_service(tmp_path: Path) -> None:
    """SIGHUP, for example from `systemctl reload`, does not end a service without a certificate."""
    serving = Serving(tmp_path / "data")
    os.kill(serving.process.pid, signal.SIGHUP)
    for pid in _workers(serving):
        os.kill(pid, signal.SIGHUP)
    assert serving.get("/healthz").status == 200
    assert serving.end() == 0
    assert "process restarted" not in serving.stderr.read_text()
