"""Python files that the driver sends to Spark's workers, as a zip file that they import."""

import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

import oriel
from oriel.pipeline.spark.session import scratch_directory

#: The subpackages that tasks import.
_SENT_SUBPACKAGES = ("pipeline", "storage")


def send_package(spark: SparkSession) -> None:
    """Send the package ``oriel`` of this process to the Python workers of a cluster.

    Without it, a worker would import an installed package, which can have another version.
    """
    root = Path(oriel.__file__).parent
    paths = [*root.glob("*.py")]
    for subpackage in _SENT_SUBPACKAGES:
        # In a checkout, the subpackages are links.
        for directory, _, names in os.walk(root / subpackage, followlinks=True):
            paths += [Path(directory, name) for name in names if name.endswith(".py")]
    files = ((path, str(path.relative_to(root.parent))) for path in paths)
    send_python_files(spark, "oriel", files)


def send_python_files(spark: SparkSession, name: str, files: Iterable[tuple[Path, str]]) -> None:
    """Send files to Spark's Python workers, each with the path by which workers import it.

    The files are sent as one zip file, which is first on the import path of a worker.
    """
    # A sent file keeps its name on the workers, so each file needs a unique name.
    with tempfile.NamedTemporaryFile(
        dir=scratch_directory(), prefix=f"{name}-", suffix=".zip", delete=False
    ) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, imported_as in files:
                archive.write(path, imported_as)
        sent = file.name
    spark.sparkContext.addPyFile(sent)
