"""The files of stack/production and stack/systemd agree with the commands and with each other."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

import oriel
from tests.tidy.project import ROOT, options_of

_PRODUCTION, _SYSTEMD = ROOT / "stack" / "production", ROOT / "stack" / "systemd"
#: Variables of Compose are replaced by their defaults, or by a word without a default.
_TEXT = re.sub(
    r"\$\{\w+:([-?])([^}]*)\}",
    lambda match: match[2] if match[1] == "-" else "1",
    (_PRODUCTION / "compose.yml").read_text(),
)
_SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(_TEXT)["services"]
_UNITS = sorted(_SYSTEMD.glob("*.service"))


def test_the_compose_file_fits_the_specification() -> None:
    """An implementation of Compose's specification accepts the file."""
    parsed = PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(_TEXT)))
    parsed.validate()
    assert set(parsed.service_names()) == set(_SERVICES)


@pytest.mark.parametrize(("service", "command"), [("pipeline", "run"), ("api", "serve")])
def test_a_service_has_options_that_exist(service: str, command: str) -> None:
    """Compose passes options that the commands accept."""
    used = {part.split("=")[0] for part in _SERVICES[service]["command"] if part[:2] == "--"}
    assert used <= options_of(command)


@pytest.mark.parametrize("service", _SERVICES)
def test_a_container_has_no_privileges_and_limits(service: str) -> None:
    """Each container is read-only, and has limits of memory, processes and logs."""
    options = _SERVICES[service]
    assert options["read_only"] is True
    assert options["cap_drop"] == ["ALL"]
    assert options["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= set(options)
    assert {"max-size", "max-file"} <= set(options["logging"]["options"])
    assert options["restart"] == ("no" if "tools" in options.get("profiles", []) else "always")


def test_every_variable_of_the_compose_file_has_a_line() -> None:
    """A variable without a default is in production.env, and so is the version of the checkout."""
    text = (_PRODUCTION / "production.env").read_text()
    names = set(re.findall(r"^(\w+)=", text, re.MULTILINE))
    required = set(re.findall(r"\$\{(\w+):\?", (_PRODUCTION / "compose.yml").read_text()))
    assert required <= names
    used = set(re.findall(r"\$\{(\w+):", (_PRODUCTION / "compose.yml").read_text()))
    assert names <= {*used, "COMPOSE_PROJECT_NAME"}
    assert f"ORIEL_VERSION={oriel.__version__}\n" in text


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_with_options_that_exist(unit: Path) -> None:
    """The commands of Oriel in the units accept each option."""
    text = unit.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"/opt/oriel/current/bin/oriel (.*)$", text, re.MULTILINE)
    command, *options = shlex.split(line.replace("'", "").replace('"', ""))
    used = {option.split("=")[0] for option in options if option.startswith("--")}
    assert used
    assert used <= options_of(command)


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_in_a_unit(unit: Path, tmp_path: Path) -> None:
    """Each line is valid, and systemd rates the exposure at most 2 of 10."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze not found (Debian: it is in the package systemd)")
    # The program can be missing on this machine.
    copy = tmp_path / unit.name
    text = unit.read_text().replace("/opt/oriel/current/bin/oriel", "/bin/true")
    copy.write_text(text)
    for check in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(
            [analyze, *check, copy], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "verify" not in check or done.stderr == ""


@pytest.mark.parametrize("file", ["production/prometheus.yml", "systemd/prometheus.yml"])
def test_prometheus_requests_the_service_over_tls(file: str) -> None:
    """The configuration names the token and the name in the certificate."""
    (job,) = yaml.safe_load((ROOT / "stack" / file).read_text())["scrape_configs"]
    assert job["scheme"] == "https"
    assert job["authorization"] == {"credentials_file": "oriel.token"}
    assert job["tls_config"] == {"server_name": "oriel.example.org"}


@pytest.mark.parametrize(
    "script", sorted((ROOT / "stack").glob("*/*.sh")), ids=lambda script: script.name
)
def test_a_script_is_executable_and_stops_at_a_failure(script: Path) -> None:
    """The shell can parse the script, which ends with the first command that fails."""
    assert script.stat().st_mode & 0o111 == 0o111
    assert "\nset -eu\n" in script.read_text()
    subprocess.run(["sh", "-n", script], check=True, timeout=60)
