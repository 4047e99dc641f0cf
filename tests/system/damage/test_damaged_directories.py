"""A damaged file of a data directory causes an error that says what to do, never a wrong row."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, randrange
from typing import Any

import orjson
import pytest

from oriel.storage import DataLayout
from oriel.storage.delta import add_checkpoint
from tests.campaigns import cases
from tests.e2e.runs_in_one_process import Ended, Runs
from tests.golden.directories import TOPOLOGIES, topology, write_log
from tests.system.damage.campaign import Campaign, ReadingProcess
from tests.system.damage.damages import (
    Sources,
    cut_off,
    delete,
    draw_damage,
    files_by_class,
    make_directory,
    of_another_day,
    of_another_directory,
    swap,
    zero_file,
    zero_page,
)
from tests.system.damage.rare_files import add_rare_files

pytestmark = pytest.mark.e2e

#: A message about damage must contain a solution from this list.
SOLUTION = re.compile(
    r"[Rr]estore|rebuil|[Rr]emove|[Dd]elete|[Rr]etry|again|back from a backup|"
    r"start .*empty|[Uu]pgrade|"
    r"give .* up|[Nn]ame the directory|--name|[Rr]un the"
)


@dataclass(frozen=True)
class Prepared:
    """A data directory to damage, and the content of each version of its tables.

    ``versions`` also has the versions after a pipeline has read the rest of the log.
    """

    directory: Path
    sources: Sources
    versions: dict[str, list[dict[str, Any]]]
    topology_of: dict[str, str]


@pytest.fixture(scope="module", name="prepared")
def _prepared(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Create three directories: one to damage, one of an earlier day, and one of another owner."""
    directory = tmp_path_factory.mktemp("damage")
    topology_of: dict[str, str] = {}
    write_log(directory / "log", part=4)
    _run_all(runs, directory / "log", directory / "data")
    _index(runs, directory / "data")
    shutil.copytree(directory / "data", directory / "earlier")
    write_log(directory / "log", part=2)
    _run_all(runs, directory / "log", directory / "data")
    for name in TOPOLOGIES:
        states = directory / "data" / "checkpoints" / name / "state"
        topology_of |= {path.name.partition("@")[0]: name for path in states.iterdir()}
    for table in DataLayout(directory / "data").tables.iterdir():
        add_checkpoint(table)
    _index(runs, directory / "data")
    write_log(directory / "other-log", part=3)
    _run_all(runs, directory / "other-log", directory / "foreign")
    _index(runs, directory / "foreign")
    backup = runs.oriel(
        "backup", "--data", str(directory / "data"), "--to", str(directory / "backup")
    )
    assert backup.code == 0, backup.errors
    shutil.move(directory / "backup", directory / "data" / "backup")
    shutil.copytree(directory / "data", directory / "whole")
    write_log(directory / "log")
    _run_all(runs, directory / "log", directory / "whole")
    ended = runs.call("tests.system.damage.served", str(directory / "whole"), "versions")
    assert ended.code == 0, ended.errors
    sources = Sources(directory / "earlier", directory / "foreign")
    return Prepared(directory, sources, orjson.loads(ended.output), topology_of)


def _run_all(runs: Runs, log: Path, data: Path) -> None:
    for name in TOPOLOGIES:
        ended = _run(runs, name, log, data, "--max-batch-bytes", "5000")
        assert ended.code == 0, ended.errors


def _run(runs: Runs, name: str, log: Path, data: Path, *more: str) -> Ended:
    paths = ["--event-log", str(log), "--data", str(data)]
    return runs.run(str(topology(name)), *paths, "--once", "--cores", "2", *more)


def _served(runs: Runs, data: Path) -> dict[str, Any]:
    ended = runs.call("tests.system.damage.served", str(data))
    assert ended.code == 0, ended.errors
    found: dict[str, Any] = orjson.loads(ended.output)
    return found


def _index(runs: Runs, data: Path) -> None:
    found = _served(runs, data)["after"]
    assert [store for store, read in found.items() if "rows" not in read] == []


@cases(12, 200)
def test_a_damaged_file_gives_the_right_rows_or_an_error_with_a_solution(
    prepared: Prepared, runs: Runs, tmp_path: Path, number: int
) -> None:
    """One file of each directory is damaged. Then the service reads it and the pipeline resumes."""
    classes = sorted(files_by_class(prepared.directory / "data"))
    found = []
    for seed in range(number):
        data = tmp_path / "data"
        shutil.copytree(prepared.directory / "data", data)
        wrong = _damaged_run(prepared, runs, data, Random(seed), classes[seed % len(classes)])
        if wrong is not None:
            found.append(f"seed {seed}: {wrong}")
        shutil.rmtree(data, ignore_errors=True)
    assert found == []


@pytest.fixture(scope="module", name="varied")
def _varied(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the directory to damage, with every kind of file."""
    directory = tmp_path_factory.mktemp("varied")
    shutil.copytree(prepared.directory / "data", directory / "data")
    add_rare_files(directory / "data", directory / "small", TOPOLOGIES[0])
    return directory / "data"


@contextmanager
def _campaign(data: Path, scratch: Path) -> Iterator[Campaign]:
    """Yield a campaign that must find nothing, and must leave the directory unchanged."""
    before = _contents(data)
    with ReadingProcess(data, scratch) as process:
        # This seed follows from the seed of all tests, which pytest prints (`-p randomly`).
        campaign = Campaign(data, process, randrange(2**32))
        yield campaign
    assert campaign.found == [], f"seed {campaign.seed}"
    assert _contents(data) == before


def _contents(data: Path) -> dict[Path, bytes]:
    files = (path for path in data.rglob("*") if path.is_file())
    # Each reader of an index has an entry in its lock file.
    return {path: path.read_bytes() for path in files if path.name != "lock.mdb"}


@cases(160, 20_000)
def test_each_reader_of_a_flipped_bit_reads_the_same_or_says_what_to_do(
    varied: Path, tmp_path: Path, number: int
) -> None:
    """Flip bits of each byte class of each kind of file, without Spark."""
    with _campaign(varied, tmp_path) as campaign:
        campaign.flip(number)


@cases(60, 2_000)
def test_each_reader_of_a_replaced_file_reads_the_same_or_says_what_to_do(
    prepared: Prepared, varied: Path, tmp_path: Path, number: int
) -> None:
    """Truncate, zero and swap files, and use files from an earlier day or another directory."""
    damages = [
        cut_off, zero_page, zero_file, make_directory, delete, swap, of_another_day,
        of_another_directory,
    ]  # fmt: skip
    with _campaign(varied, tmp_path) as campaign:
        campaign.damage(number, damages, prepared.sources)


def _damaged_run(
    prepared: Prepared, runs: Runs, data: Path, random: Random, kind: str
) -> str | None:
    """Damage one file of ``data``, and return what is wrong with the responses, or None."""
    path = random.choice(files_by_class(data)[kind])
    done = draw_damage(random)(data, path, random, prepared.sources)
    if done is None:
        return None
    change = f"{kind} {path}, {done}"
    # The pipeline and the index read the table only if the index is rebuilt.
    if kind in {"data file", "Delta entry", "Delta checkpoint"} and random.random() < 1 / 2:
        shutil.rmtree(data / "index")
    if kind == "backup":
        restored = data.with_name("restored")
        ended = runs.oriel("restore", "--from", str(data / "backup"), "--data", str(restored))
        shutil.rmtree(data)
        if ended.code:
            return _why_not_clear(change, ended)
        shutil.move(restored, data)
    wrong = _why_wrong(prepared, _served(runs, data), change)
    if wrong is not None:
        return wrong
    name = _topology_of(prepared, path)
    ended = _run(runs, name, prepared.directory / "log", data)
    if ended.code:
        wrong = _why_not_clear(change, ended)
    return wrong or _why_wrong(prepared, _served(runs, data), f"{change}, after the run")


def _topology_of(prepared: Prepared, path: Path) -> str:
    """Return the topology that reads a file of the data directory."""
    if path.parts[0] == "checkpoints":
        return path.parts[1]
    named = [name for store, name in prepared.topology_of.items() if store in path.parts]
    return named[0] if named else TOPOLOGIES[0]


def _why_not_clear(change: str, ended: Ended) -> str | None:
    """Return why the error of a command is not clear, or None."""
    text = " ".join(ended.errors)
    is_clear = ended.code in {1, 3} and "oriel " in text and SOLUTION.search(text)
    return None if is_clear else f"{change}: exit code {ended.code}: {ended.errors[-5:]}"


def _why_wrong(prepared: Prepared, served: dict[str, Any], change: str) -> str | None:
    """Return why a response is wrong, or None if all are right or errors with a solution."""
    for moment, stores in served.items():
        for store, read in stores.items():
            place = f"{change}: {store} {moment} the tailer's work"
            if "rows" in read:
                wanted = prepared.versions[store]
                if {name: read[name] for name in ("rows", "offsets")} not in wanted:
                    return f"{place}: {_difference(read, wanted)}"
            elif read["status"] not in {404, 503} or not (
                SOLUTION.search(read["error"]) or SOLUTION.search(read.get("problem") or "")
            ):
                return f"{place}: {read}"
    return None


def _difference(read: dict[str, Any], wanted: list[dict[str, Any]]) -> str:
    """Return a short description of the difference from the right responses."""
    counts = [len(one["rows"]) for one in wanted]
    known = [row for one in wanted for row in one["rows"]]
    other = [row for row in read["rows"] if row not in known]
    return f"{len(read['rows'])} rows, not {counts}, at {read['offsets']}, other rows {other[:2]}"
