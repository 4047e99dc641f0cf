"""Runs the blocks of docs/how-to/production-cluster.md on machines with the page's names."""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.documentation.pages import Block, blocks
from tests.storage.waiting import wait_until
from tests.system.cluster.machines import Machines, Started
from tests.tidy.project import ROOT

PAGE = ROOT / "docs" / "how-to" / "production-cluster.md"
HERE = "tests/system/cluster/test_production.py"
_RUN = re.compile(rf"not run: {HERE} (runs|starts) it as (\w+) on ([\w -]+)")
_FILE = re.compile(rf"not run: {HERE} writes it as ([\w.]+)")
_ROW = re.compile(r"^\| (`.*`.*) \| (.*) \| `(\w+:\w+)`, (\d+) \|$", re.MULTILINE)
_NUMBER = re.compile(r"\d[\d,.]*|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b")


class PlacedFile(NamedTuple):
    """A file of ``/etc/oriel``, as the table of the page describes it."""

    name: str
    machines: tuple[str, ...]
    owner: str
    mode: str


def placed_files() -> list[PlacedFile]:
    """Return the rows of the page's table of files, one per file."""
    groups = {"head": ("head",), "workers": ("worker-1", "worker-2"),
              "services": ("serve-1", "serve-2"), "proxy": ("proxy",)}  # fmt: skip
    placed = []
    for names, where, owner, mode in _ROW.findall(PAGE.read_text()):
        machines = [m for word in re.findall(r"\w+", where) for m in groups[word]]
        # The words after a comma can name the file that refers to this one.
        found = re.findall(r"`([\w-]+(?:\.\w+)?)`", names.partition(", which")[0])
        placed += [PlacedFile(name, tuple(machines), owner, mode) for name in found]
    return placed


def block_places() -> list[tuple[Block, str, list[str]]]:
    """Return each block of commands with the user and the machines of its note."""
    return [
        (block, match[2], match[3].split())
        for block in blocks(PAGE)
        if (match := _RUN.fullmatch(block.note))
    ]


class PageRun:
    """The blocks of the page that have not run yet, and their machines."""

    def __init__(
        self,
        machines: Machines,
        logs: Path,
        substitute: Callable[[str, str], str],
        admin: Mapping[str, str],
    ) -> None:
        """Store the arguments.

        Args:
            machines: The machines of the page.
            logs: The directory for the logs of started commands.
            substitute: Returns a script with real values, for a script and a machine.
            admin: The variables of the administrator's commands.
        """
        self._machines, self._logs, self._substitute = machines, logs, substitute
        self._admin = admin
        self._blocks = list(blocks(PAGE))
        for block in list(self._blocks):
            if match := _FILE.fullmatch(block.note):
                self._blocks.remove(block)
                for machine in machines.by_name.values():
                    (machine.root / "srv" / match[1]).write_text(block.text)

    def is_done(self) -> bool:
        """Return whether all blocks have run."""
        return not self._blocks

    def run(self, first_words: str) -> dict[str, str]:
        """Run the next block, which begins with ``first_words``.

        Returns:
            The output of each machine.
        """
        block, user, names = self._next("runs", first_words)
        printed = {}
        for name in names:
            printed[name] = self.again(block.text, name, user)
        self._compare_with_page(printed.values())
        return printed

    def run_until(self, first_words: str, holds: Callable[[str], bool]) -> None:
        """Run the next block repeatedly until ``holds`` accepts its output."""
        block, user, (name,) = self._next("runs", first_words)
        printed = wait_until(lambda: self.again(block.text, name, user), block.place, holds)
        self._compare_with_page([printed])

    def _compare_with_page(self, printed: Iterable[str]) -> None:
        if self._blocks and self._blocks[0].language == "text":
            shown = self._blocks.pop(0)
            for text in printed:
                _compare(shown, text)

    def again(self, script: str, name: str, user: str, code: int = 0) -> str:
        """Run a script on one machine, with the substitutions of the page."""
        machine = self._machines[name]
        if user == "admin":
            environment = {**machine.environment, **self._admin}
            machine, user = replace(machine, environment=environment), "root"
        return machine.run(self._substitute(script, name), user, code)

    def start(self, first_words: str) -> tuple[list[Started], str]:
        """Start the next block, which begins with ``first_words``, on each of its machines."""
        block, user, names = self._next("starts", first_words)
        return [self.start_again(block.text, name, user) for name in names], block.text

    def start_again(self, script: str, name: str, user: str) -> Started:
        """Start a script of the page on one machine."""
        number = len(list(self._logs.iterdir()))
        log = self._logs / f"{name}-{number}.log"
        return self._machines[name].start(self._substitute(script, name), user, log)

    def _next(self, verb: str, first_words: str) -> tuple[Block, str, Sequence[str]]:
        block = self._blocks.pop(0)
        match = _RUN.fullmatch(block.note)
        assert match, f"{block.place}: say which machine runs it"
        commands = block.text.replace("set -a; . /etc/oriel/environment\n", "")
        assert commands.startswith(first_words), f"{block.place}: is not {first_words!r}"
        assert match[1] == verb, block.place
        return block, match[2], match[3].split()


def _compare(shown: Block, printed: str) -> None:
    """Check that each line of the page was printed, ignoring numbers. ``...`` are other lines."""
    lines = [_NUMBER.sub("1", line).split() for line in printed.splitlines()]
    for line in shown.text.splitlines():
        if line != "...":
            found = _NUMBER.sub("1", line).split() in lines
            assert found, f"{shown.place}: {line!r} is not in {printed}"


def put(machines: Machines, name: str, source: Path) -> None:
    """Copy a file to the machines of the page's table, with its owner and mode."""
    placed = [row for row in placed_files() if row.name == name]
    assert placed, f"{name} is not in the table of {PAGE.name}"
    for row in placed:
        for machine in row.machines:
            target = machines[machine].root / "etc" / "oriel" / name
            target.parent.mkdir(exist_ok=True)
            draft = target.with_name(f"{name}.draft")
            shutil.copyfile(source, draft)
            # The machine resolves the user names.
            path = f"/etc/oriel/{draft.name}"
            machines[machine].run(
                f"chown {row.owner} {path}; chmod {row.mode} {path}; mv {path} /etc/oriel/{name}"
            )
