"""A real S3 server on loopback for tests and benchmarks, installed as a package of PyPI."""

import hashlib
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.locks import only_one
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_until

_SERVER = Path(__file__).with_name("s3_server.py")
#: In their own directory, because boto and Flask are not packages of this project.
_PACKAGES = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")
BUCKET = "bucket"


@dataclass(frozen=True)
class ObjectStore:
    """A server. ``environment`` has the variables of processes that use its bucket."""

    environment: Mapping[str, str]

    def data(self, name: str) -> Path:
        """Return a data directory in the bucket."""
        return Path(f"s3:/{BUCKET}/{name}")


@contextmanager
def running_object_store(directory: Path) -> Iterator[ObjectStore]:
    """Run a server with one empty bucket, with its log and copies of objects in ``directory``."""
    packages = server_packages()
    port = reserved_port()
    address = f"http://127.0.0.1:{port}"
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "ORIEL_CACHE": str(directory / "cache"),
    }
    log = directory / "s3-server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-P", str(_SERVER), str(port)],
            env={**os.environ, "PYTHONPATH": str(packages)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _make_bucket(f"{address}/{BUCKET}", server, log)
        yield ObjectStore(environment)
        assert server.poll() is None, f"the server ended by itself: {log.read_text()[-2000:]}"
    finally:
        server.kill()
        server.wait()


def server_packages() -> Path:
    """Return the directory of the server's packages."""
    return fetched_packages("s3", _PACKAGES)


def fetched_packages(name: str, packages: Sequence[str]) -> Path:
    """Return a directory with packages of PyPI, which is filled once per machine."""
    version = hashlib.sha256(" ".join((*packages, sys.version)).encode()).hexdigest()[:12]
    directory = Path(tempfile.gettempdir()) / f"oriel-tests-{name}-{os.getuid()}-{version}"
    with only_one(f"{name}-packages"):
        if (directory / "whole").exists():
            return directory
        install = ["pip", "install", "-q", "--disable-pip-version-check", "--target"]
        command = [sys.executable, "-m", *install, str(directory), *packages]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            reason = f"no packages {', '.join(packages)}: {found.stderr.strip()[-500:]}"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        (directory / "whole").touch()
    return directory


def _make_bucket(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Create the bucket as soon as the server responds."""
    request = urllib.request.Request(url, method="PUT")  # noqa: S310 - our own address

    def make() -> tuple[int | str, str]:
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:  # noqa: S310
                return response.status, ""
        except OSError as error:
            return repr(error), log.read_text()[-2000:]

    wait_until(make, "the bucket", lambda made: made[0] == 200, process=server)
