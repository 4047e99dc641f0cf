"""The distribution is built from the checkout without a network, and used without the checkout."""

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import oriel
from tests.packaging.wheels import ROOMS, build_wheel, run_elsewhere
from tests.ports import reserved_port
from tests.tidy.project import ROOT

pytestmark = pytest.mark.slow

DATA = {
    "oriel/py.typed",
    "oriel/help.txt",
    "oriel/topology.md",
    "oriel/pipeline/spark/log4j2.properties",
    "oriel/pipeline/spark/log4j2-file.properties",
}
PAGE = ROOT / "app" / "page" / "files"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """Return a directory with the installed wheel."""
    directory = wheel.parent / "site"
    run_elsewhere([
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
        "--disable-pip-version-check", "--target", str(directory), str(wheel),
    ])  # fmt: skip
    return directory


def test_the_wheel_has_all_modules_and_data_and_nothing_else(wheel: Path) -> None:
    """The wheel has one import name with all packages in `oriel`, without tests and tools."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        own = ROOT / "src"
        modules = {p.relative_to(own).as_posix() for p in (own / "oriel").glob("*.py")}
        for directory in ("doctor", "project", "sql", "tables", "testing"):
            modules |= {p.relative_to(own).as_posix() for p in own.glob(f"oriel/{directory}/*.py")}
        templates = {p.relative_to(own).as_posix() for p in own.rglob("*.template")}
        assert len(templates) > 5
        for package in ROOMS:
            modules |= {f"oriel/{p.relative_to(ROOT)}" for p in (ROOT / package).rglob("*.py")}
        page = {f"oriel/{p.relative_to(ROOT)}" for p in PAGE.rglob("*") if p.is_file()}
        assert files == modules | templates | DATA | page
        licences = {name.partition("/licenses/")[2] for name in archive.namelist()} - {""}
        assert licences == {"LICENSE", "app/page/files/vendor/LICENSE-uplot.txt"}
        (entries,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "oriel = oriel.__main__:main" in archive.read(entries).decode()
    assert wheel.name == f"oriel-{oriel.__version__}-py3-none-any.whl"


def test_the_command_runs_from_the_wheel(site: Path) -> None:
    """`python -m oriel` and the script `oriel` run and print the version."""
    summary = (ROOT / "docs" / "reference" / "topology-summary.md").read_text()
    assert run_elsewhere([sys.executable, "-m", "oriel", "topology"], site).stdout == summary
    version = run_elsewhere([sys.executable, str(site / "bin" / "oriel"), "--version"], site).stdout
    assert version == f"oriel {oriel.__version__}\n"
    usage = run_elsewhere([sys.executable, "-m", "oriel", "run", "--help"], site).stdout
    assert "--trigger" in usage


def test_the_language_and_the_driver_are_imported_from_the_wheel(site: Path) -> None:
    """`from oriel import ...` and `from oriel.testing import ...` find the installed package."""
    code = (
        "import oriel; from oriel import StreamsBuilder; "
        "from oriel.testing import TopologyTestDriver; print(oriel.__file__)"
    )
    assert run_elsewhere([sys.executable, "-c", code], site).stdout.strip() == str(
        site / "oriel" / "__init__.py"
    )


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("run", "pyspark", "pipeline"),
        ("serve", "lmdb", "app"),
        ("demo", "httpx", "demo"),
        ("get", "httpx", "client"),
    ],
)
def test_a_command_without_its_packages_names_its_extra(
    site: Path, command: str, package: str, extra: str
) -> None:
    """One line names the missing package and how to install its extra."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; from oriel.__main__ import main; "
        f"sys.exit(main([{command!r}, '--help']))"
    )
    ended = run_elsewhere([sys.executable, "-c", code], site, code=1)
    assert ended.stderr == (
        f"oriel {command}: {package} is not installed. Run pip install 'oriel[{extra}]'\n"
    )


def test_the_client_is_imported_with_httpx_alone(site: Path, tmp_path: Path) -> None:
    """The client needs neither the packages of the service nor Spark, but only httpx.

    Packages for tables are needed only for tables.
    """
    for name in ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (tmp_path / found.name).symlink_to(found)
    url = f"http://127.0.0.1:{reserved_port()}"
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from oriel.client import Client; "
        f"from oriel.client.terminal import main; main(['--url', '{url}'])"
    )
    ended = run_elsewhere([sys.executable, "-S", "-c", code], site)
    assert f"no response from {url}" in ended.stderr


def test_without_any_package_the_help_is_there(site: Path) -> None:
    """The distribution itself needs only Python: `-S` excludes site-packages."""
    ended = run_elsewhere([sys.executable, "-S", "-m", "oriel", "--help"], site)
    assert "oriel serve --data DIR" in ended.stdout
    ended = run_elsewhere([sys.executable, "-S", "-m", "oriel", "serve"], site, code=1)
    assert "pip install 'oriel[app]'" in ended.stderr
    ended = run_elsewhere([sys.executable, "-S", "-c", "from oriel import count"], site, code=1)
    assert "pip install 'oriel[pipeline]'" in ended.stderr
