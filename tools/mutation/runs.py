"""Runs of tests against mutants: in copies of the project, each test run in a process of its own.

A worker has the heavy packages loaded and forks for each mutant, which saves seconds of imports.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

# Loaded here, so that a forked process has them.
import numpy as np  # noqa: F401
import pyarrow.compute  # noqa: F401
import pytest

from tools.mutation.mutants import Mutant, digest

_CONTEXT = multiprocessing.get_context("fork")
#: What a copy leaves out: environments, caches, results.
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".oriel", ".*_cache", ".hypothesis")
#: Each run draws the same examples, so a result can be repeated.
_OPTIONS = (
    "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
    "--hypothesis-seed=0", "-m", "not e2e and not browser and not kafka",
)  # fmt: skip
_ALL_PASSED = 0
#: What pytest prints, in the copy.
_OUTPUT = "mutant.log"


class BaselineFails(Exception):
    """The tests of a module fail without a mutant."""


@dataclass(frozen=True)
class Result:
    """What the tests found: ``survived``, ``killed`` or ``timeout``, for this code and tests."""

    mutant: Mutant
    outcome: str
    code: str
    tests: str


class Results:
    """The results of a module in a file, one per line, so that a run can be resumed."""

    def __init__(self, path: Path) -> None:
        """Read the results of earlier runs, if there are any."""
        self._path = path
        self._known: dict[Mutant, Result] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                fields = json.loads(line)
                result = Result(**{**fields, "mutant": Mutant(**fields["mutant"])})
                self._known[result.mutant] = result

    def add(self, result: Result) -> None:
        """Append a result."""
        self._known[result.mutant] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def get(self, mutant: Mutant, code: str, tests: str) -> Result | None:
        """Return the result of a mutant, or None if its code or the tests of a survivor changed."""
        known = self._known.get(mutant)
        if known is None or known.code != code:
            return None
        return known if known.outcome != "survived" or known.tests == tests else None


def run(
    root: Path, mutants: Sequence[Mutant], tests: tuple[str, ...], processes: int
) -> Iterator[Result]:
    """Test each mutant, in any order.

    Raises:
        BaselineFails: the tests fail without a mutant.
    """
    with tempfile.TemporaryDirectory(prefix="oriel-mutants-") as directory:
        copies = _CONTEXT.SimpleQueue()
        for number in range(processes):
            copy = Path(directory) / str(number)
            shutil.copytree(root, copy, symlinks=True, ignore=_NOT_COPIED)
            copies.put(copy)
        worker = Worker(copies.get(), tests, 3600)
        began = time.monotonic()
        if worker.outcome() != "survived":
            output = (worker.copy / _OUTPUT).read_text(encoding="utf-8")
            message = f"the tests fail without a mutant: {' '.join(tests)}\n{output}"
            raise BaselineFails(message)
        # The machine can be busier later.
        timeout_s = 10 * (time.monotonic() - began) + 30
        copies.put(worker.copy)
        with ProcessPoolExecutor(
            processes, _CONTEXT, initializer=_begin, initargs=(copies, tests, timeout_s)
        ) as pool:
            yield from pool.map(_test, mutants)


class Worker:
    """Tests mutants in one copy of the project."""

    def __init__(self, copy: Path, tests: tuple[str, ...], timeout_s: float) -> None:
        """Use this copy, which has no mutant."""
        self.copy = copy
        self._tests = tests
        self._digest = digest(copy, tests)
        self._timeout_s = timeout_s

    def test(self, mutant: Mutant) -> Result:
        """Write the mutant into the copy, run the tests, and write the code again."""
        file = self.copy / mutant.file
        code = file.read_text(encoding="utf-8")
        changed = mutant.mutated(code)
        assert changed is not None
        try:
            self._write(file, changed)
            outcome = self.outcome()
        finally:
            self._write(file, code)
        return Result(mutant, outcome, digest(self.copy, (mutant.file,)), self._digest)

    def outcome(self) -> str:
        """Run the tests in a forked process."""
        process = _CONTEXT.Process(target=_pytest, args=(self.copy, self._tests), daemon=True)
        process.start()
        process.join(self._timeout_s)
        timed_out = process.is_alive()
        # The process leads a group, so what its tests started ends as well.
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        if timed_out:
            return "timeout"
        return "survived" if process.exitcode == _ALL_PASSED else "killed"

    @staticmethod
    def _write(file: Path, code: str) -> None:
        file.write_text(code, encoding="utf-8")
        # Python compares times in seconds and sizes, which a mutant can share with the code.
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()


_worker: list[Worker] = []


def _begin(copies: "multiprocessing.SimpleQueue[Path]", tests: tuple[str, ...], s: float) -> None:
    _worker.append(Worker(copies.get(), tests, s))


def _test(mutant: Mutant) -> Result:
    return _worker[0].test(mutant)


def _pytest(copy: Path, tests: tuple[str, ...]) -> None:
    """Run pytest in this process, which ends with its exit code."""
    # Tests start processes of their own, which Python refuses to a daemon.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    os.setsid()
    os.chdir(copy)
    sys.stdout = sys.stderr = (copy / _OUTPUT).open("w", buffering=1)
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    # These are the tool's own, of another copy.
    for name in [
        name for name in sys.modules if name.partition(".")[0] in {"oriel", "tests", "tools"}
    ]:
        del sys.modules[name]
    code = pytest.main([*_OPTIONS, *tests])
    os._exit(int(code))
