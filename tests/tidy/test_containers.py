"""The container files agree with the project, which these tests check without an engine."""

import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.tidy.project import ROOT, options_of

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
#: The compose file of ``oriel new``.
PROJECT_TEXT = (
    (ROOT / "src/oriel/project/template/docker-compose.yml.template")
    .read_text()
    .replace("$name", "shop")
)
PROJECT: dict[str, Any] = yaml.safe_load(PROJECT_TEXT)["services"]
#: Service of the project -> the command that its image starts.
OURS = {"producer": "demo", "pipeline": "run", "api": "serve"}


def _stages() -> dict[str, str]:
    """Return the instructions of each stage."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("service", "command"), OURS.items())
def test_a_service_starts_its_command_with_options_that_exist(service: str, command: str) -> None:
    """The commands accept the options that compose passes."""
    assert f'"-m", "oriel", "{command}"]' in _stages()[SERVICES[service]["build"]["target"]]
    command_line = SERVICES[service]["command"]
    used = {part.split("=")[0] for part in command_line if part.startswith("--")}
    assert used <= options_of(command), f"unknown options: {sorted(used - options_of(command))}"


@pytest.mark.parametrize("services", [SERVICES, PROJECT], ids=["stack", "project"])
def test_the_check_of_the_pipeline_is_a_command_with_options_that_exist(
    services: dict[str, Any],
) -> None:
    """The check is of the pipeline in this container, not of earlier ones in the volume."""
    pipeline = services["pipeline"]
    check = pipeline["healthcheck"]["test"]
    assert check[:6] == ["CMD", "python", "-P", "-m", "oriel", "status"]
    options = dict(part.partition("=")[::2] for part in check[6:])
    assert options.keys() <= options_of("status")
    assert options.keys() == {"--data", "--check", "--pipeline"}
    named = [part.removeprefix("--name=") for part in pipeline["command"] if "--name=" in part]
    assert [options["--pipeline"]] == (named or pipeline["command"][:1])


@pytest.mark.parametrize("services", [SERVICES, PROJECT], ids=["stack", "project"])
def test_only_the_cheap_check_of_the_pipeline_starts_python(services: dict[str, Any]) -> None:
    """Each check starts a program, so only the cheap one uses Python.

    Python needs 20 ms and a Kafka client 2 s.
    """
    checks = {name: one["healthcheck"] for name, one in services.items() if "healthcheck" in one}
    programs = {name: check["test"][1].rpartition("/")[2] for name, check in checks.items()}
    assert programs.pop("pipeline") == "python"
    assert set(programs.values()) <= {"bash", "wget"}
    assert [name for name, check in checks.items() if int(check["interval"][:-1]) < 10] == []


@pytest.mark.parametrize("services", [SERVICES, PROJECT], ids=["stack", "project"])
def test_the_logs_of_every_container_are_rotated(services: dict[str, Any]) -> None:
    """Without a limit, Docker keeps every line of a container."""
    logs = {
        name: service.get("logging", {}).get("options", {}) for name, service in services.items()
    }
    assert [
        name for name, options in logs.items() if not {"max-size", "max-file"} <= set(options)
    ] == []


def test_the_broker_and_prometheus_do_not_fill_the_disk() -> None:
    """The volumes of both have a size limit."""
    broker = (ROOT / "stack" / "broker.properties").read_text()
    assert re.search(r"^log.retention.bytes=\d{9,}$", broker, re.MULTILINE)
    assert "--storage.tsdb.retention.size=1GB" in SERVICES["prometheus"]["command"]


def test_version_1_of_compose_reads_the_files() -> None:
    """Version 1 rejects a name in the file, and both versions read it from ``.env``."""
    assert "name" not in COMPOSE
    assert "name" not in yaml.safe_load(PROJECT_TEXT)
    assert "COMPOSE_PROJECT_NAME=oriel" in (ROOT / ".env").read_text().splitlines()


def test_services_can_restart_with_the_machine() -> None:
    """`unless-stopped` leaves a container that `docker kill` stopped, and `always` does not."""
    texts = re.findall(r"^    restart: (.*)$", COMPOSE_TEXT, re.MULTILINE)
    assert set(texts) == {"${RESTART:-unless-stopped}", "on-failure", '"no"'}


def test_a_change_of_packages_keeps_the_connector() -> None:
    """The layer with the user's packages is after the slow one, which leaves no cache."""
    pipeline = _stages()["pipeline"]
    connector = pipeline.index("kafka_settings")
    assert connector < pipeline.index("COPY stack/project/requirements.txt")
    assert "rm -rf ~/.ivy2.5.2/cache" in pipeline


@pytest.mark.parametrize("target", ["api", "pipeline", "producer", "project"])
def test_files_of_an_image_are_readable_whatever_the_umask(target: str) -> None:
    """A clone with umask 077 has files that only their owner can read."""
    project = (ROOT / "src/oriel/project/template/Dockerfile.template").read_text()
    stage = {**_stages(), "project": project}[target]
    copies = [match.start() for match in re.finditer(r"^COPY (?!--from)", stage, re.MULTILINE)]
    assert max(copies) < stage.rindex("chmod -R a+rX")


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_a_health_check(service: str) -> None:
    """A permanent service has a health check, and another service waits for each temporary one."""
    if SERVICES[service]["restart"] == "no":
        waiting = [other.get("depends_on", {}).get(service) for other in SERVICES.values()]
        assert {"condition": "service_completed_successfully"} in waiting
    else:
        assert SERVICES[service]["healthcheck"]["test"]


def test_dependencies_and_volumes_are_there() -> None:
    """Services depend on and mount only what the file defines or the checkout contains."""
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            is_there = (ROOT / source).exists() if "/" in source else source in COMPOSE["volumes"]
            assert is_there, mount


def test_the_file_fits_the_specification() -> None:
    """An implementation of Compose's specification accepts the file."""
    # This implementation has no variables and merges, so they are replaced first, like in Compose.
    plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE_TEXT)
    parsed = PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(plain)))
    parsed.validate()
    assert set(parsed.service_names()) == set(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_may_do_no_more_than_it_needs(service: str) -> None:
    """A service cannot change its image, gain rights or use all memory.

    Only this machine can reach its ports.
    """
    options = SERVICES[service]
    assert options["read_only"] is True
    assert options["cap_drop"] == ["ALL"]
    assert options["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= set(options)
    ports = options.get("ports", [])
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_images_are_pinned() -> None:
    """An image has its exact version, so that two starts run the same."""
    names = [service["image"] for service in SERVICES.values() if "image" in service]
    assert names
    assert not [name for name in names if not re.search(r":v?\d+\.\d+\.\d+$", name)]
    bases = re.findall(r"^FROM (\S+:\S+) AS", DOCKERFILE, flags=re.MULTILINE)
    assert bases == ["python:3.11-slim-bookworm"]


@pytest.mark.parametrize("path", ["Dockerfile", "src/oriel/project/template/Dockerfile.template"])
def test_a_linter_finds_nothing_in_a_dockerfile(path: str) -> None:
    """Each rule that the linter ignores is in the file, with the reason."""
    ended = subprocess.run(
        [shutil.which("hadolint") or sys.prefix + "/bin/hadolint", ROOT / path],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("target", ["api", "pipeline", "producer"])
def test_images_do_not_run_as_root(target: str) -> None:
    """The last user of an image is not root, and has the number that all images share."""
    users = re.findall(r"^USER (\S+)$", _stages()[target], flags=re.MULTILINE)
    assert users[-1:] == re.findall(r"useradd --uid (\d+)", DOCKERFILE)


def test_images_install_hashed_packages_only() -> None:
    """Each pip install checks hashes."""
    installs = re.findall(r"pip install [^&]*?\.lock", DOCKERFILE)
    assert len(installs) == 5
    assert [install for install in installs if "--require-hashes" not in install] == []


def test_images_copy_what_is_there() -> None:
    """Each file that an image copies exists, and the builder receives it."""
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name
            assert name.split("/")[0] in sent, name


def test_the_api_image_has_no_java() -> None:
    """The service's image has neither Java nor the pipeline, but its engine, which is pure."""
    stage = _stages()["api"]
    assert "jdk" not in stage
    assert [line for line in stage.splitlines() if "pipeline" in line] == [
        "COPY pipeline/__init__.py pipeline/errors.py pipeline/",
        "COPY pipeline/windows pipeline/windows",
    ]


def test_prometheus_reads_its_configuration_and_rules() -> None:
    """Prometheus' own tool accepts the configuration and the rules."""
    promtool = shutil.which("promtool")
    if promtool is None:
        # .ci/run installs it. `oriel test` does not, because the package contains all of
        # Prometheus.
        pytest.skip("promtool not found (Debian: it is in the package prometheus)")
    for check in (["config", "prometheus.yml"], ["rules", "alerts.yml"]):
        ended = subprocess.run(
            [promtool, "check", *check], cwd=ROOT / "monitoring" / "prometheus",
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """The provisioned source has that service's address, and the directory is mounted."""
    provisioning = ROOT / "monitoring" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["isDefault"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "oriel.yml").read_text())[
        "providers"
    ]
    mounted = [mount.split(":")[1] for mount in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/oriel.json" in mounted
