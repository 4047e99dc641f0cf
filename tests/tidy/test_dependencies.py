"""The locks: pinned, hashed, without addresses, and agreeing with pyproject.toml."""

import re
import tomllib

import pytest

from tests.tidy.project import ROOT

LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
WHOLE = "requirements.lock"

_PIN = re.compile(r"^([a-z0-9.-]+)==(\S+)(?: ; (.*?))? \\$")


def _pins(lock: str) -> dict[tuple[str, str], str]:
    """Return (package, marker) -> version."""
    found = {}
    for line in (ROOT / lock).read_text().splitlines():
        pin = _PIN.match(line)
        if pin:
            found[pin[1], pin[3] or ""] = pin[2]
    return found


def _wanted(group: str) -> set[str]:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    names: set[str] = set()
    for entry in groups[group]:
        if isinstance(entry, dict):
            names |= _wanted(entry["include-group"])
        else:
            names.add(re.split(r"[=<>;\s\[]", entry, maxsplit=1)[0].lower())
    return names


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_a_pin_or_a_hash(lock: str) -> None:
    """Pip's --require-hashes accepts the lock, and it names no address."""
    odd = [
        line
        for line in (ROOT / lock).read_text().splitlines()
        if not _PIN.match(line)
        and not re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line)
        and not line.startswith("#")
    ]
    assert not odd, f"{lock}: make it anew with `./oriel lock`: {odd[:5]}"


@pytest.mark.parametrize(
    ("lock", "group"),
    [
        (WHOLE, "dev"),
        ("requirements-build.lock", "build"),
        ("requirements-app.lock", "app"),
        ("requirements-pipeline.lock", "pipeline"),
        ("requirements-producer.lock", "producer"),
    ],
)
def test_the_lock_has_what_the_project_names(lock: str, group: str) -> None:
    """Each dependency of pyproject.toml is pinned."""
    missing = _wanted(group) - {name for name, _ in _pins(lock)}
    assert not missing, f"{lock} lacks {sorted(missing)}: run `./oriel lock`"


@pytest.mark.parametrize("lock", ["requirements-app.lock", "requirements-pipeline.lock"])
def test_the_images_get_what_was_tested(lock: str) -> None:
    """The images' locks hold the versions that the tests run with."""
    tested = {(name, version) for (name, _), version in _pins(WHOLE).items()}
    other = {(name, version) for (name, _), version in _pins(lock).items()} - tested
    assert not other, f"{lock} differs from {WHOLE}: run `./oriel lock`: {sorted(other)}"


def test_the_service_needs_no_spark() -> None:
    """The API's lock has neither pyspark nor its bridge to Java."""
    assert not {"pyspark", "py4j"} & {name for name, _ in _pins("requirements-app.lock")}
