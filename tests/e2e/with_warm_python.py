"""``python -m tests.e2e.with_warm_python MODULE ARGUMENTS...``: a module of ours as a program.

Its Spark starts Pythons quickly (``tests.warm_python``).
"""

import runpy
import sys

from tests.warm_python import use_warm_python


def warm_oriel(*arguments: str) -> list[str]:
    """The command ``oriel ARGUMENTS`` as a program, of a test that has the warm Python."""
    return [sys.executable, "-m", "tests.e2e.with_warm_python", "oriel.__main__", *arguments]


if __name__ == "__main__":
    use_warm_python()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
