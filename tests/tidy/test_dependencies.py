"""The locks: pinned, hashed, without addresses, and consistent with pyproject.toml."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.tidy.project import ROOT, modules_of, offenders

LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
WHOLE = "requirements.lock"
RUNTIME = "requirements-runtime.lock"
#: The client imports Polars if a program requests its tables. Test suites for stores use pytest.
OPTIONAL = {"duckdb", "polars", "pytest"}

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
    """Pip's --require-hashes accepts the lock, and the lock has no addresses."""
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
        (RUNTIME, "runtime"),
        ("requirements-app.lock", "app"),
        ("requirements-pipeline.lock", "pipeline"),
        ("requirements-producer.lock", "producer"),
    ],
)
def test_the_lock_has_what_the_project_names(lock: str, group: str) -> None:
    """Each dependency of pyproject.toml is pinned."""
    missing = _wanted(group) - {name for name, _ in _pins(lock)}
    assert not missing, f"{lock} lacks {sorted(missing)}: run `./oriel lock`"


@pytest.mark.parametrize("lock", [RUNTIME, "requirements-app.lock", "requirements-pipeline.lock"])
def test_products_and_images_get_what_was_tested(lock: str) -> None:
    """The locks of the runtime and of the images have the versions that the tests run with."""
    tested = {(name, version) for (name, _), version in _pins(WHOLE).items()}
    other = {(name, version) for (name, _), version in _pins(lock).items()} - tested
    assert not other, f"{lock} differs from {WHOLE}: run `./oriel lock`: {sorted(other)}"


def test_the_product_imports_only_packages_of_the_runtime() -> None:
    """`./oriel` installs each import of the commands, the demo and the examples."""
    installed = {re.sub(r"[-_.]+", "-", name) for name, _ in _pins(RUNTIME)}
    distributions = packages_distributions()
    product = modules_of("app", "client", "demo", "examples", "pipeline", "src/oriel", "storage")
    missing = [
        f"{module.name}:{line} imports {package}"
        for module in product
        for package, line in ((name.partition(".")[0], line) for name, line in module.imported())
        if package not in {*sys.stdlib_module_names, *OPTIONAL, "examples", "oriel"}
        and not {re.sub(r"[-_.]+", "-", each).lower() for each in distributions.get(package, [])}
        & installed
    ]
    assert len(product) > 100
    assert not missing, f"add these to the group `runtime`:{offenders(missing)}"


def test_the_service_needs_no_spark() -> None:
    """The API's lock has neither pyspark nor its bridge to Java."""
    assert not {"pyspark", "py4j"} & {name for name, _ in _pins("requirements-app.lock")}
