"""The archive of Spark's classes, which Java maps into memory instead of loading 15,000 classes.

Class-data sharing (JEP 350) saves more than half of Java's processor time up to the first commit.
An archive fits one Java, one Spark and one directory of jars, so its name is a digest of all three.
Java checks the jars and the bytes of the archive, and starts without it if they differ. Java does
not survive an archive whose end is missing, so the name also has the size (decision 0090).
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

#: The variable with the directory of archives. If it is empty, archives are turned off.
_DIRECTORY_VARIABLE = "ORIEL_CLASS_ARCHIVES"
_CREATOR = "oriel.pipeline.operations.class_archive"
_UNUSED_SECONDS = 30 * 86_400
#: Java logs nothing if an archive does not fit.
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_directory() -> Path | None:
    """Return the directory of archives, or None if archives are turned off."""
    directory = os.environ.get(_DIRECTORY_VARIABLE)
    if directory is not None:
        return Path(directory) if directory else None
    return Path.home() / ".cache" / "oriel"


def archive_prefix() -> str | None:
    """Return the prefix of the name of a matching archive. None: Java cannot use an archive."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    jars = Path(pyspark.__file__).parent / "jars"
    # Java 17 uses no class of an archive if the path of the jars has a space.
    if java is None or " " in f"{jars}{archive_directory()}":
        return None
    java = os.path.realpath(java)
    release = Path(java).parents[1] / "release"
    version = release.read_text() if release.is_file() else ""
    identity = "\n".join((java, version, pyspark.__version__, str(jars)))
    return f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def find_archive() -> Path | None:
    """Return the matching archive if it exists and is complete."""
    directory, prefix = archive_directory(), archive_prefix()
    if directory is None or prefix is None:
        return None
    for path in directory.glob(f"{prefix}-*.jsa"):
        found = path.stat()
        # Another user could put any code into an archive.
        if path.stem == f"{prefix}-{found.st_size}" and found.st_uid in {0, os.getuid()}:
            return path
    return None


def use_archive(path: Path | None) -> tuple[str, ...]:
    """Return the options with which Java uses an archive."""
    if path is None:
        return ()
    # The modification time shows when it was last used (``delete_unused``).
    with suppress(OSError):
        os.utime(path)
    return (f"-XX:SharedArchiveFile={path}", "-XX:+VerifySharedSpaces", *_QUIET)


def create_in_background() -> None:
    """Start to create an archive if none matches. The process continues if this one ends."""
    directory, prefix = archive_directory(), archive_prefix()
    if directory is None or prefix is None or find_archive() is not None:
        return
    if (directory / f"{prefix}.failed").exists():
        return
    # The run does not need the archive, and the directory can be read-only.
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", _CREATOR],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def write_archive(path: Path) -> tuple[str, ...]:
    """Return the options with which Java writes an archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)


def delete_unused(directory: Path) -> None:
    """Delete archives that no run has used for 30 days, for example those of an earlier Spark."""
    for path in directory.glob("spark-*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                path.unlink()


def delete_archive(path: Path | None) -> bool:
    """Delete an archive with which Java did not start. Return whether it is deleted."""
    if path is None:
        return False
    with suppress(OSError):
        path.unlink()
        return True
    return False
