"""Maven packages are resolved once, and later starts pass them to Spark as files."""

from pathlib import Path

import pytest

from oriel.pipeline.spark.packages import remember_packages, with_resolved_packages


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Return settings with a package and with a jar."""
    (tmp_path / "own.jar").touch()
    return {
        "spark.jars.packages": "a:b:1",
        "spark.jars.excludes": "c:d",
        "spark.jars": str(tmp_path / "own.jar"),
        "spark.jars.ivy": str(tmp_path),
        "spark.ui.enabled": "false",
    }


def resolved(directory: Path) -> list[Path]:
    """Return the jars to which Spark resolves the package."""
    jars = [directory / "own.jar", directory / "with space.jar"]
    for jar in jars:
        jar.touch()
    return jars


def test_the_second_start_gets_files(tmp_path: Path, settings: dict[str, str]) -> None:
    """Nothing is resolved again, and all other settings stay."""
    assert with_resolved_packages(settings) == settings
    jars = resolved(tmp_path)
    remember_packages(settings, ",".join(jar.as_uri() for jar in jars))
    assert with_resolved_packages(settings) == {
        "spark.jars": ",".join(map(str, jars)),
        "spark.jars.ivy": str(tmp_path),
        "spark.ui.enabled": "false",
    }


def test_other_packages_are_resolved(tmp_path: Path, settings: dict[str, str]) -> None:
    """Another version, other exclusions and another jar need a resolution of their own."""
    remember_packages(settings, ",".join(jar.as_uri() for jar in resolved(tmp_path)))
    for name in ("spark.jars.packages", "spark.jars.excludes", "spark.jars"):
        others = {**settings, name: "other"}
        assert with_resolved_packages(others) == others


def test_a_lost_jar_is_resolved_again(tmp_path: Path, settings: dict[str, str]) -> None:
    """If the cache was emptied, Spark fetches the packages again."""
    jars = resolved(tmp_path)
    remember_packages(settings, ",".join(jar.as_uri() for jar in jars))
    jars[1].unlink()
    assert with_resolved_packages(settings) == settings


@pytest.mark.parametrize("content", [b"", b"[]", b'["'])
def test_a_damaged_note_is_passed_over(
    tmp_path: Path, settings: dict[str, str], content: bytes
) -> None:
    """The note is only an optimization, so Spark resolves the packages."""
    remember_packages(settings, ",".join(jar.as_uri() for jar in resolved(tmp_path)))
    (note,) = tmp_path.glob("oriel-*.json")
    note.write_bytes(content)
    assert with_resolved_packages(settings) == settings


def test_without_packages_nothing_is_noted(tmp_path: Path) -> None:
    """A session without packages resolves nothing, and a missing jar is not noted."""
    settings = {"spark.jars.ivy": str(tmp_path)}
    assert with_resolved_packages(settings) == settings
    remember_packages(settings, "")
    remember_packages({**settings, "spark.jars.packages": "a:b:1"}, "file:///not/there.jar")
    assert not list(tmp_path.iterdir())
