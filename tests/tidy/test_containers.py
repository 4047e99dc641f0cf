"""The container files agree with the project: no engine is needed to see that."""

import re
from typing import Any

import pytest
import yaml

from tests.tidy.project import ROOT, options_of

DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
#: Service of ours -> the command that its image starts.
OURS = {"pipeline": "run", "api": "serve"}


def _stages() -> dict[str, str]:
    """Return each stage's own instructions."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("service", "command"), OURS.items())
def test_a_service_starts_its_command_with_options_that_exist(service: str, command: str) -> None:
    """What compose passes to our commands is what they understand."""
    assert f'"-m", "oriel", "{command}"]' in _stages()[SERVICES[service]["build"]["target"]]
    used = {part for part in SERVICES[service]["command"] if part.startswith("--")}
    assert used <= options_of(command), f"unknown options: {sorted(used - options_of(command))}"


def test_the_check_of_the_pipeline_is_a_command_with_options_that_exist() -> None:
    """What asks whether it is stuck is what ``oriel status`` understands."""
    check = SERVICES["pipeline"]["healthcheck"]["test"]
    assert check[:6] == ["CMD", "python", "-P", "-m", "oriel", "status"]
    assert {part for part in check[6:] if part.startswith("--")} <= options_of("status")


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_tells_whether_it_is_well(service: str) -> None:
    """A service that stays has a health check; one that ends is waited for."""
    if SERVICES[service]["restart"] == "no":
        waiting = [other.get("depends_on", {}).get(service) for other in SERVICES.values()]
        assert {"condition": "service_completed_successfully"} in waiting
    else:
        assert SERVICES[service]["healthcheck"]["test"]


def test_dependencies_and_volumes_are_there() -> None:
    """Nothing waits for, or mounts, what the file does not define."""
    volumes = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["volumes"]
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        assert {mount.split(":")[0] for mount in service.get("volumes", [])} <= set(volumes)


def test_images_are_pinned() -> None:
    """An image has a version, so that two starts run the same."""
    names = [service["image"] for service in SERVICES.values() if "image" in service]
    names += re.findall(r"^FROM (\S+:\S+) AS", DOCKERFILE, flags=re.MULTILINE)
    assert names
    assert not [name for name in names if ":" not in name or name.endswith(":latest")]


@pytest.mark.parametrize("target", ["api", "pipeline"])
def test_images_do_not_run_as_root(target: str) -> None:
    """The last user of an image is an ordinary one."""
    assert re.findall(r"^USER (\S+)$", _stages()[target], flags=re.MULTILINE) == ["oriel"]


def test_images_install_hashed_packages_only() -> None:
    """Each pip install checks hashes."""
    installs = re.findall(r"pip install [^&]*?\.lock", DOCKERFILE)
    assert len(installs) == 4
    assert all("--require-hashes" in install for install in installs)


def test_images_copy_what_is_there() -> None:
    """Each file that an image copies exists, and the builder is sent it."""
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name
            assert name.split("/")[0] in sent, name


def test_the_api_image_has_no_java() -> None:
    """The service's image holds neither Java nor the pipeline."""
    assert "jdk" not in _stages()["api"]
    assert "pipeline" not in _stages()["api"]
