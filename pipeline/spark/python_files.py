"""Python files that Spark's workers get from the driver, as a zip to import from."""

import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import oriel
from oriel.pipeline.spark.session import scratch_folder

#: The parts of the package that tasks import.
_SENT = ("pipeline", "storage")


def send_package(spark: SparkSession) -> None:
    """Give the Python workers of a cluster the package ``oriel`` as it runs here.

    They would find one that is installed there, too; but then of that version, whichever it is.
    """
    send_python_files(spark, "oriel", _package_files())


def send_python_files(spark: SparkSession, name: str, files: Iterable[tuple[Path, str]]) -> None:
    """Give Spark's Python workers ``files``, each with the path by which they import it.

    They come as one zip, which is first among the places of a worker's imports.
    """
    # A file that is sent keeps its name on the workers, so each has a name of its own.
    with tempfile.NamedTemporaryFile(
        dir=scratch_folder(), prefix=f"{name}-", suffix=".zip", delete=False
    ) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, imported_as in files:
                archive.write(path, imported_as)
        sent = file.name
    spark.sparkContext.addPyFile(sent)


def _package_files() -> Iterator[tuple[Path, str]]:
    root = Path(oriel.__file__).parent
    for module in root.glob("*.py"):
        yield module, f"{root.name}/{module.name}"
    for room in _SENT:
        # In a checkout the rooms are links.
        for folder, _, names in os.walk(root / room, followlinks=True):
            for name in names:
                if name.endswith(".py"):
                    path = Path(folder, name)
                    yield path, str(path.relative_to(root.parent))
