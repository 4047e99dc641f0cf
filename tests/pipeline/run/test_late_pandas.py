"""pandas is not imported by Oriel, and works as usual if users import it."""

import subprocess
import sys

_IMPORTS = """
import sys
import oriel.pipeline.run_command as command

with command.without_pandas():
    import oriel.pipeline.run
import pyarrow as pa
assert pa.array([None, 1]).null_count == 1
print("pandas" in sys.modules, "oriel.pipeline.tasks" in sys.modules)
import pandas as pd
from oriel.pipeline.late_pandas import use_imported_pandas
use_imported_pandas()
print(pa.array(pd.Series([1.0, float("nan")])).null_count)
"""


def _printed(script: str) -> list[str]:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_modules_of_a_run_do_not_import_pandas() -> None:
    """After a user has imported it, pyarrow converts its missing values to nulls."""
    assert _printed(_IMPORTS) == ["False True", "1"]


def test_pandas_that_is_imported_already_stays() -> None:
    """A topology can be loaded by a process that uses pandas."""
    script = """
import pandas as pd
import pyarrow as pa
from oriel.pipeline.late_pandas import without_pandas

with without_pandas():
    import pandas
    assert pandas is pd
print(pa.array(pd.Series([1.0, float("nan")])).null_count)
"""
    assert _printed(script) == ["1"]
