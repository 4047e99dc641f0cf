"""The process that runs Java."""

from pathlib import Path

import pytest

from oriel.pipeline.spark.java_process import JavaProcess

#: Replaces Spark's command, and writes its arguments, one per line.
_NOTING = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/arguments"
"""


def test_variables_of_executors_are_no_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can have the keys of an object store, and everyone can list arguments of processes."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(_NOTING)
    submit.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    settings = {"spark.master": "local[2]", "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "a secret"}
    java = JavaProcess(settings, tmp_path, None)
    java.process.communicate()
    arguments = (submit.parent / "arguments").read_text().splitlines()
    assert arguments == ["--conf", "spark.master=local[2]", "pyspark-shell"]
