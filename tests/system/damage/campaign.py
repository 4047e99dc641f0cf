"""A campaign damages the files of a data directory one after the other, and reads them again."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.system.damage.byte_classes import Span, byte_classes
from tests.system.damage.damages import Damage, Sources, files_by_class

ROOT = Path(__file__).resolve().parents[3]
#: Spark writes its log again at each start, and nothing else reads the log.
_UNREAD = {"Spark's log"}
#: Modification times of damaged files in ns. Two damages of a file never have the same.
_TIMES_NS = count(1_000_000_000_000_000_000, 1_000_000)


class ReadingProcess:
    """The process with all readers. It starts again if a damaged file ends it."""

    def __init__(self, data: Path, scratch: Path) -> None:
        self._arguments = [str(data), str(scratch)]
        self._learned: list[Path] = []
        self._process = self._start()

    def learn(self, path: Path) -> None:
        """Record the results of the readers of an intact file."""
        if path not in self._learned:
            self._learned.append(path)
            code = self._ask("learn", path)
            assert code is None, f"the readers of {path} ended with {code}, see above"

    def wrong(self, path: Path) -> tuple[list[str], bool]:
        """Return the problems of the responses, and whether a reader rejects the file."""
        response = self._ask("check", path)
        if isinstance(response, int):
            return [f"the process ended with {response}"], False
        wrong, is_refused = response
        return wrong, is_refused

    def learn_again(self) -> None:
        """Start another process if this one has ended. All files are intact at this point."""
        if self._process.poll() is not None:
            self._process = self._start()
            for path in self._learned:
                assert self._ask("learn", path) is None

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.system.damage.flips", *self._arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip

    def _ask(self, command: str, path: Path) -> Any:
        """Return the response, or the exit code if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, str(path)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return json.loads(line) if line else self._process.wait()

    def __enter__(self) -> Self:
        """Keep the process for the time of a ``with`` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        with self._process:
            self._process.kill()


@dataclass
class Campaign:
    """Damages of one data directory.

    Attributes:
        data: The data directory.
        process: The process with the readers.
        seed: The seed of the random damages.
        found: The problems.
        counts: How often each class of files had which result.
    """

    data: Path
    process: ReadingProcess
    seed: int
    found: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        files = files_by_class(self.data)
        self._files = {name: paths for name, paths in files.items() if name not in _UNREAD}
        self._random = Random(self.seed)

    def flip(self, number: int) -> None:
        """Flip one bit of each byte class in turn, ``number`` times."""
        spans: dict[str, list[tuple[Path, list[Span]]]] = {}
        for name, paths in self._files.items():
            for path in paths:
                # The manifest has a digest of every byte of a copy.
                is_copy = name == "backup" and path.name != "backup.json"
                classes = byte_classes(self.data / path, is_whole=is_copy)
                for byte_class, found in classes.items():
                    spans.setdefault(f"{name}, {byte_class}", []).append((path, found))
        for case in range(number):
            kind = sorted(spans)[case % len(spans)]
            path, found = self._random.choice(spans[kind])
            begin, end = self._random.choice(found)
            at, bit = self._random.randrange(begin, end), self._random.randrange(8)
            with self._damaged(path) as file:
                content = bytearray(file.read_bytes())
                content[at] ^= 1 << bit
                file.write_bytes(content)
                self._check(kind, path, f"bit {bit} of byte {at}")

    def damage(self, number: int, damages: Sequence[Damage], sources: Sources) -> None:
        """Damage a file of each class in turn with one of the ``damages``, ``number`` times."""
        for case in range(number):
            kind = sorted(self._files)[case % len(self._files)]
            path, damage = self._random.choice(self._files[kind]), self._random.choice(damages)
            with self._damaged(path):
                done = damage(self.data, path, self._random, sources)
                if done is not None:
                    self._check(f"{kind}, {damage.__name__}", path, done)

    @contextmanager
    def _damaged(self, path: Path) -> Iterator[Path]:
        self.process.learn(path)
        file = self.data / path
        whole, status = file.read_bytes(), file.stat()
        try:
            yield file
        finally:
            if file.is_dir():
                shutil.rmtree(file)
            file.write_bytes(whole)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.process.learn_again()

    def _check(self, kind: str, path: Path, done: str) -> None:
        file = self.data / path
        if file.exists():
            os.utime(file, ns=(next(_TIMES_NS),) * 2)
        wrong, is_refused = self.process.wrong(path)
        self.counts[f"{kind}: {'refused' if is_refused else 'wrong' if wrong else 'the same'}"] += 1
        self.found += [f"{path}, {done}: {problem}" for problem in wrong]
