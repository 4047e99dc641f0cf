"""Each command of production-systemd.md runs on a machine with systemd and a real broker."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.stack.compose import Stack
from tests.system.stack.machine import Machine, make_machine_image, running_machine
from tests.system.stack.production import (
    HOST,
    Authority,
    filled,
    run_section,
    sections,
    serial_of,
)
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

# The conftest of this directory excludes the module from shorter lanes.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.long]

_PAGE = ROOT / "docs" / "how-to" / "production-systemd.md"
_UNITS = ROOT / "stack" / "systemd"
_INSTALL = "1. Install Oriel"
_STEPS = (
    "2. Copy the files", "3. Name your cluster and your service", "4. Install the certificate",
    "5. Create tokens", "6. Start", "7. Verify",
)  # fmt: skip
#: Sections that a test of this module runs on the machine.
_OTHERS = {
    "Certificates", "Tokens", "Backup", "Restore", "Alerts", "Upgrade", "Rollback", "Capacity",
    "If it is slow",
}  # fmt: skip
#: The values of the page's names in this test. The upgrade is to a second name of the same version.
_HERE = {"broker.example.org:9092": "broker:9092"}
_LINEAGE = f"/etc/letsencrypt/live/{HOST}"
_URL = f"https://{HOST}:8443"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return a certificate authority that the machine trusts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def machine(
    stack: Stack, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """Yield a machine on which Oriel runs after the numbered steps of the page."""
    packages, oriel = (filled(step.block.text, _HERE) for step in sections(_PAGE)[_INSTALL])
    image = make_machine_image(stack.engine, stack.image("pipeline"), packages, oriel)
    with running_machine(stack.engine, image, stack.network) as machine:
        machine.copy(authority.certificate, "/usr/local/share/ca-certificates/tests.crt")
        machine.run("update-ca-certificates")
        _issue(machine, authority, tmp_path_factory.mktemp("first"))
        for title in _STEPS:
            run_section(_PAGE, title, machine.run, _HERE)
        yield machine


def _issue(machine: Machine, authority: Authority, directory: Path) -> str:
    """Write an authority's new files to certbot's directory, and return the serial number."""
    serial = authority.issue(directory)
    machine.run(f"mkdir -p {_LINEAGE}")
    machine.copy(f"{directory}/.", _LINEAGE)
    return serial


def _run(machine: Machine, title: str) -> str:
    return run_section(_PAGE, title, machine.run, _HERE)


def _read(machine: Machine, path: str, token: str = "/etc/oriel/admin.token") -> str:  # noqa: S107
    """Request a path of the service with the token of a file, until it returns 200."""
    return machine.run(
        "curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --max-time 20 "
        f'--header "Authorization: Bearer $(cat {token})" {_URL}{path}'
    )


def test_each_section_with_commands_has_a_test() -> None:
    """A new section of the page needs a test here."""
    assert sections(_PAGE).keys() == {_INSTALL, *_STEPS, *_OTHERS}
    assert len(sections(_PAGE)[_INSTALL]) == 2
    module = re.sub(r"_(STEPS|OTHERS) = .*?\n[)}]", "", Path(__file__).read_text(), flags=re.DOTALL)
    assert {title for title in _OTHERS if f'"{title}"' not in module} == set()


@pytest.mark.parametrize("unit", sorted(_UNITS.glob("*.service")), ids=lambda unit: unit.name)
def test_a_unit_is_valid_and_hardened(machine: Machine, unit: Path) -> None:
    """The manager finds no mistake in the unit, and rates its exposure as low: at most 2 of 10."""
    name = unit.name.replace("@.", "@flights.")
    assert machine.run(f"systemd-analyze verify --man=no /etc/systemd/system/{name}") == ""
    machine.run(f"systemd-analyze security --threshold=20 --no-pager {name}")


def test_the_service_returns_windows_of_the_pipeline(machine: Machine) -> None:
    """Flights pass through the units, and a request without a token is denied."""
    wait_for(
        lambda: json.loads(_read(machine, "/v1/stores/departures_by_origin/fetch/EWR?limit=3")),
        lambda page: len(page["windows"]) == 3,
        "windows of flights",
    )
    status = machine.run(f"curl -s -o /dev/null -w '%{{http_code}}' {_URL}/v1/stores")
    assert status == "401"


def test_the_users_can_write_their_own_directories_only(machine: Machine) -> None:
    """The service runs as a user that reads tables, and cannot write them or read as root."""
    for unit, user in {"oriel-serve": "oriel-serve", "oriel-pipeline@flights": "oriel"}.items():
        pid = machine.run(f"systemctl show {unit} --property MainPID --value").strip()
        assert machine.run(f"stat --format=%U /proc/{pid}").strip() == user
    as_serve = "runuser -u oriel-serve --"
    machine.run(f"{as_serve} test -r /var/lib/oriel/data/tables")
    for path in ("/var/lib/oriel/data/tables", "/etc/oriel/tokens.toml", "/etc/oriel/tls"):
        assert machine.attempt(f"{as_serve} test -w {path}")[0] == 1
    for path in ("/etc/oriel/tokens.toml", "/etc/oriel/tls/key.pem"):
        assert machine.attempt(f"runuser -u oriel -- test -r {path}")[0] == 1


def test_a_killed_process_starts_again(machine: Machine) -> None:
    """The manager starts the service again after SIGKILL."""
    before = machine.run("systemctl show oriel-serve --property MainPID --value")
    machine.run("systemctl kill --kill-whom=main --signal=KILL oriel-serve")
    wait_for(
        lambda: machine.run("systemctl show oriel-serve --property MainPID --value"),
        lambda pid: pid not in {before, "0\n"},
        "another process",
    )
    _read(machine, "/readyz")


def test_java_gets_half_of_the_limit_of_the_unit(machine: Machine) -> None:
    """The pipeline reads MemoryMax= as its limit."""
    assert "-Xmx1536m" in machine.run("ps -C java -o args=")


def test_a_renewed_certificate_is_served_without_a_restart(
    machine: Machine, authority: Authority, tmp_path: Path
) -> None:
    """The hook of certbot installs it, and the process of the service stays the same."""
    before = machine.run("systemctl show oriel-serve --property MainPID --value")
    serial = _issue(machine, authority, tmp_path)
    _run(machine, "Certificates")
    wait_for(
        lambda: serial_of(machine.run(
            f"openssl s_client -connect {HOST}:8443 </dev/null 2>/dev/null | openssl x509"
        )),
        lambda served: served == serial,
        "the renewed certificate",
    )  # fmt: skip
    assert machine.run("systemctl show oriel-serve --property MainPID --value") == before


def test_a_token_reaches_its_stores_only(machine: Machine) -> None:
    """A token of the page reads the stores that it names."""
    printed = _run(machine, "Tokens").splitlines()
    (token,) = (line for line in printed if line.startswith("oriel_"))
    machine.run(f"echo {token} > /run/reports.token")
    _read(machine, "/v1/stores/departures_by_origin/current/EWR", "/run/reports.token")
    assert machine.attempt(
        f"curl --fail -s -H 'Authorization: Bearer {token}' {_URL}/metrics"
    )[0] == 22  # fmt: skip


def test_a_backup_is_restored(machine: Machine) -> None:
    """The timer's service writes a backup, and the pipeline continues after a restore."""
    machine.run("rm -rf /var/lib/oriel/data.lost")
    _run(machine, "Backup")
    _run(machine, "Restore")
    run_section(_PAGE, "7. Verify", machine.run, _HERE)
    _read(machine, "/freshz")


def test_old_backups_are_deleted(machine: Machine) -> None:
    """A complete backup deletes backups older than KEEP_DAYS, and nothing else."""
    machine.run(
        "cd /var/backups/oriel\n"
        "runuser -u oriel -- mkdir -p 20200101T000000Z/tables other\n"
        "touch -d '20 days ago' 20200101T000000Z other\n"
        "systemctl start oriel-backup"
    )
    left = machine.run("ls /var/backups/oriel").split()
    assert "20200101T000000Z" not in left
    assert "other" in left
    assert len(left) > 1


def test_prometheus_reads_the_metrics_with_its_token(machine: Machine) -> None:
    """The configuration of the page is valid, the rules load, and the target is up."""
    _run(machine, "Alerts")
    query = "curl -s 'http://localhost:9090/api/v1/query?query=oriel_pipeline_up'"
    wait_for(
        lambda: machine.attempt(query)[1],
        lambda response: '"application":"flights"' in response and '"1"]' in response,
        "a metric",
    )
    rules = json.loads(machine.run("curl -s http://localhost:9090/api/v1/rules"))
    alerts = [rule["name"] for group in rules["data"]["groups"] for rule in group["rules"]]
    assert "OrielPipelineDown" in alerts


#: A second version: the same program under another name, which its processes show.
_SECOND = """
mkdir -p /opt/oriel/0.2.0/bin
printf '#!/bin/sh\\nexport ORIEL_STANDS_FOR=0.2.0\\nexec /opt/oriel/0.1.0/bin/oriel "$@"\\n' \
    > /opt/oriel/0.2.0/bin/oriel
chmod +x /opt/oriel/0.2.0/bin/oriel
"""


def test_an_upgrade_and_a_rollback_continue(machine: Machine) -> None:
    """Service and pipeline run as the new version, then as the old one, and stay fresh."""
    machine.run(_SECOND)
    for title, expected in {"Upgrade": 2, "Rollback": 0}.items():
        _run(machine, title)
        pids = machine.run(
            "systemctl show oriel-serve oriel-pipeline@flights --property MainPID --value"
        ).split()
        found = [machine.run(f"tr '\\0' '\\n' < /proc/{pid}/environ") for pid in pids]
        assert sum("ORIEL_STANDS_FOR=0.2.0" in one for one in found) == expected
        run_section(_PAGE, "7. Verify", machine.run, _HERE)
        _read(machine, "/freshz")


@pytest.mark.parametrize("title", ["Capacity", "If it is slow"])
def test_the_commands_of_a_section_work(machine: Machine, title: str) -> None:
    """The output has the lines that the page shows."""
    _run(machine, title)
    _read(machine, "/readyz")
