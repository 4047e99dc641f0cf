"""Each command of production-compose.md runs over containers and the broker of the stack."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.stack.compose import SERVICES, Stack
from tests.system.stack.images import make_base_image, make_prometheus_image
from tests.system.stack.production import (
    HOST,
    Authority,
    run_section,
    sections,
    serial_of,
)
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

_PAGE = ROOT / "docs" / "how-to" / "production-compose.md"
_STEPS = (
    "1. Build the images", "2. Copy the files", "3. Name your cluster and your service",
    "4. Install the certificate", "5. Create tokens",
)  # fmt: skip
_START, _VERIFY = "6. Start", "7. Verify"
#: Sections that a test of this module runs over the containers.
_OTHERS = {
    "Certificates", "Tokens", "Backup", "Restore", "Alerts", "Upgrade", "Rollback",
    "If it is slow",
}  # fmt: skip
#: Tags that no image of this machine has.
_OLD, _NEW = "0.1.0-test", "0.2.0-test"


class _Production:
    """The containers of the page, with ``directory`` instead of /srv/oriel."""

    def __init__(self, stack: Stack, directory: Path, authority: Authority) -> None:
        self.stack, self.directory, self.authority = stack, directory, authority
        self.project = f"{stack.project}-production"
        self.lineage = directory / "letsencrypt" / "live" / HOST
        self.root = directory / "oriel"
        self._environment = {
            **os.environ, **stack.engine.environment, "COMPOSE_PROJECT_NAME": self.project,
        }  # fmt: skip
        if stack.engine.network is None:
            # Any free port of this machine.
            self._environment |= {"ORIEL_PORT": "0", "PROMETHEUS_PORT": "0"}
        self._write_programs()
        (directory / "cron.daily").mkdir()
        (directory / "letsencrypt" / "renewal-hooks" / "deploy").mkdir(parents=True)

    def section(self, title: str) -> str:
        """Run the commands of a section and return the output of the last block."""
        return run_section(_PAGE, title, self.run, {
            "/srv/oriel": str(self.root),
            "/etc/cron.daily": str(self.directory / "cron.daily"),
            "/etc/letsencrypt": str(self.directory / "letsencrypt"),
            "broker.example.org": "broker",
            "0.1.0": _OLD,
            "0.2.0": _NEW,
        })  # fmt: skip

    def run(self, script: str) -> str:
        """Run a shell script in the checkout and return its output. If it fails, fail."""
        with self.stack.engine.inside():
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=self._environment,
                check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        assert done.returncode == 0, f"{script}\nfailed:\n{done.stdout}"
        return done.stdout

    def compose(self, *arguments: str) -> str:
        """Run Compose in the directory of the page."""
        return self.run(f"cd {self.root} && docker compose {' '.join(arguments)}")

    def container(self, service: str) -> str:
        """Return the id of the container of a service."""
        return self.compose("ps", "--quiet", service).strip()

    def inspect(self, service: str) -> dict[str, Any]:
        """Return the engine's description of a service's container."""
        (state,) = json.loads(self.stack.engine.docker("inspect", self.container(service)))
        return dict(state)

    def wait_until_healthy(self, services: Sequence[str] = ("pipeline", "api")) -> None:
        """Wait until the engine reports each service as healthy."""
        wait_for(
            lambda: [self.inspect(service)["State"]["Health"] for service in services],
            lambda found: {health["Status"] for health in found} == {"healthy"},
            "healthy services",
        )

    def read(self, path: str, token: str) -> str:
        """Request a path of the service, until it returns 200."""
        return self.run(
            "curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --max-time 20 "
            f"--header 'Authorization: Bearer {token}' https://{HOST}{path}"
        )

    def _write_programs(self) -> None:
        """Write a `docker` for this machine's Compose, and a `curl` that finds the service."""
        programs = self.directory / "programs"
        programs.mkdir()
        docker, curl = shutil.which("docker", path=self._environment["PATH"]), shutil.which("curl")
        plugin = '[ "$1" = compose ] && shift && exec docker-compose "$@"\n'
        if self.stack.has_plugin:
            plugin = ""
        # The ports differ if the engine is not a temporary one.
        published = f"$({docker} ps --filter name={self.project} --format '{{{{.Ports}}}}'"
        port_of = f"{published} | sed -n 's/.*:\\([0-9]*\\)->%s.*/\\1/p' | head -n 1)"
        options = (
            f"--cacert {self.authority.certificate} "
            f"--connect-to {HOST}:443:127.0.0.1:{port_of % 8080} "
            f"--connect-to localhost:9090:127.0.0.1:{port_of % 9090}"
        )
        for name, text in {
            "docker": f'{plugin}exec {docker} "$@"\n',
            "curl": f'exec {curl} {options} "$@"\n',
        }.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}")
            (programs / name).chmod(0o755)
        self._environment["PATH"] = f"{programs}{os.pathsep}{self._environment['PATH']}"


@pytest.fixture(scope="module")
def production(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Production]:
    """Yield the containers after the numbered steps of the page."""
    if os.geteuid() != 0:
        pytest.skip("the page is for root")
    directory = tmp_path_factory.mktemp("production")
    authority = Authority(directory)
    made = _Production(stack, directory, authority)
    authority.issue(made.lineage)
    if stack.engine.network is not None:
        base = make_base_image(stack.engine)
        make_prometheus_image(stack.engine, SERVICES["prometheus"]["image"], base)
    network, broker = f"{made.project}_default", stack.container("broker")
    with ExitStack() as exits:
        exits.callback(made.compose, "--profile monitoring --profile tools down --volumes -t 1")
        for title in _STEPS:
            made.section(title)
        _trust(made)
        # The broker of the stack is the Kafka cluster of the page.
        made.compose("up", "--no-start", "pipeline")
        stack.engine.docker("network", "connect", "--alias=broker", network, broker)
        exits.callback(stack.engine.docker, "network", "disconnect", network, broker)
        made.section(_START)
        made.section(_VERIFY)
        yield made


def _trust(made: _Production) -> None:
    """Let Prometheus trust the authority of the test, as a comment in the file describes."""
    shutil.copy(made.authority.certificate, made.root / "monitoring" / "ca.pem")
    (made.root / "monitoring" / "ca.pem").chmod(0o644)
    file = made.root / "monitoring" / "prometheus.yml"
    text = file.read_text()
    assert f"      server_name: {HOST}\n" in text
    file.write_text(text.replace("      server_name", "      ca_file: ca.pem\n      server_name"))


@pytest.fixture
def admin(production: _Production) -> str:
    """Return the token of the page that reads everything."""
    return (production.root / "admin.token").read_text().strip()


def test_each_section_with_commands_has_a_test() -> None:
    """A new section of the page needs a test here."""
    assert sections(_PAGE).keys() == {*_STEPS, _START, _VERIFY, *_OTHERS}
    text = Path(__file__).read_text()
    assert {title for title in _OTHERS if f'section("{title}")' not in text} == set()


def test_every_container_is_healthy(production: _Production, admin: str) -> None:
    """The health checks succeed over TLS, and flights arrive in the service."""
    production.wait_until_healthy(("pipeline", "api", "prometheus"))
    path = "/v1/stores/departures_by_origin/fetch/EWR?limit=3"
    wait_for(
        lambda: json.loads(production.read(path, admin)),
        lambda page: len(page["windows"]) == 3,
        "windows of flights",
    )


def test_containers_have_limits_and_restart(production: _Production) -> None:
    """Each container is read-only, has limits and restarts with the machine."""
    for service in ("pipeline", "api", "prometheus"):
        host = production.inspect(service)["HostConfig"]
        assert host["RestartPolicy"]["Name"] == "always"
        assert host["ReadonlyRootfs"]
        assert min(host["Memory"], host["PidsLimit"]) > 0
        assert host["CapDrop"] == ["ALL"]


def test_the_service_cannot_write_the_tables(production: _Production) -> None:
    """The data directory is mounted read-only. Other users of the host read no secret."""
    mounts = {mount["Destination"]: mount["RW"] for mount in production.inspect("api")["Mounts"]}
    assert {path: mounts[path] for path in ("/data", "/index", "/access")} == {
        "/data": False, "/index": True, "/access": False,
    }  # fmt: skip
    for name in ("access/key.pem", "access/tokens.toml", "admin.token"):
        assert stat.S_IMODE((production.root / name).stat().st_mode) == 0o600


def test_a_renewed_certificate_is_served_without_a_restart(production: _Production) -> None:
    """The hook installs it, and the container of the service stays the same."""
    before = production.inspect("api")["State"]["StartedAt"]
    serial = production.authority.issue(production.lineage)
    production.section("Certificates")
    served = "openssl s_client -connect 127.0.0.1:8080 </dev/null 2>/dev/null | openssl x509"
    wait_for(
        lambda: serial_of(production.compose(f'exec -T api sh -c "{served}"')),
        lambda found: found == serial,
        "the renewed certificate",
    )
    assert production.inspect("api")["State"]["StartedAt"] == before


def test_a_token_reaches_its_stores_only(production: _Production) -> None:
    """A token of the page reads the stores that it names, and no metrics."""
    printed = production.section("Tokens")
    (token,) = (line for line in printed.splitlines() if line.startswith("oriel_"))
    production.read("/v1/stores/departures_by_origin/current/EWR", token)
    code = "curl --silent --output /dev/null --write-out '%{http_code}'"
    bearer = f"--header 'Authorization: Bearer {token}'"
    assert production.run(f"{code} {bearer} https://{HOST}/metrics") == "403"


def test_a_backup_is_restored(production: _Production, admin: str) -> None:
    """Cron's script backs up and deletes old backups. The pipeline continues after a restore."""
    old = production.root / "backups" / "20200101T000000Z"
    old.mkdir()
    os.utime(old, (0, 0))
    shutil.rmtree(production.root / "data.lost", ignore_errors=True)
    production.section("Backup")
    assert not old.exists()
    production.section("Restore")
    production.section(_VERIFY)
    production.read("/freshz", admin)


def test_prometheus_evaluates_the_alerts(production: _Production) -> None:
    """Prometheus reads the metrics with its token after a restart."""
    assert '"status":"success"' in production.section("Alerts")
    query = "http://localhost:9090/api/v1/query?query=oriel_pipeline_up"
    wait_for(
        lambda: production.run(f"curl --silent --retry 30 --retry-all-errors '{query}'"),
        lambda found: '"application":"flights"' in found and '"1"]' in found,
        "a metric",
    )


def test_an_upgrade_and_a_rollback_continue(production: _Production, admin: str) -> None:
    """Both services run the new images, then the old ones, and stay fresh."""
    for service in ("api", "pipeline"):
        production.stack.engine.docker("tag", f"oriel-{service}:{_OLD}", f"oriel-{service}:{_NEW}")
    production.section("Upgrade")
    _require_version(production, _NEW, admin)
    production.section("Rollback")
    _require_version(production, _OLD, admin)


def _require_version(production: _Production, tag: str, token: str) -> None:
    images = {name: production.inspect(name)["Config"]["Image"] for name in ("api", "pipeline")}
    assert images == {"api": f"oriel-api:{tag}", "pipeline": f"oriel-pipeline:{tag}"}
    production.section(_VERIFY)
    production.read("/freshz", token)


def test_the_commands_for_a_slow_stack_work(production: _Production) -> None:
    """The commands show stores, containers and logs."""
    production.section("If it is slow")
