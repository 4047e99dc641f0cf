"""`oriel verify` finds each kind of damage, and has no findings in an intact directory."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import lmdb
import orjson
import pytest

from oriel.pipeline.commit import check_log
from oriel.pipeline.operations import verify
from oriel.pipeline.operations.verification import Site, confirmed
from oriel.pipeline.operations.verification.agreement import KafkaTopics
from oriel.pipeline.sources import TopicLog
from oriel.storage import DataLayout, with_digest
from oriel.storage.delta import (
    DeltaLog,
    MaintenanceSettings,
    TableMaintenance,
    add_checkpoint,
)
from oriel.storage.index import IndexDirectory, build_generation
from tests.campaigns import cases
from tests.golden.directories import LOG, archives, unpack
from tests.pipeline.commit.writers import Writer, write_log
from tests.pipeline.operations.damages import cut, delete

BATCHES = 5


def _build_index(data: Path, store: str) -> None:
    layout = DataLayout(data)
    index = IndexDirectory(layout.index(store))
    generation = index.new_generation()
    build_generation(layout.table(store), DeltaLog(layout.table(store)).snapshot(), generation)
    index.publish(generation)


@pytest.fixture(scope="module", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of two stores after some batches, with a Delta checkpoint."""
    directory = tmp_path_factory.mktemp("written")
    write_log(directory, BATCHES)
    writer = Writer(directory, sync=False)
    writer.run()
    check_log(writer.checkpoint.directory, {"log": "an event log"}, sync=False)
    writer.close()
    add_checkpoint(directory / "data" / "tables" / "first", 3)
    return directory


@pytest.fixture(name="data")
def _data(written: Path, tmp_path: Path) -> Path:
    """Return a data directory to damage, next to its event log."""
    shutil.copytree(written, tmp_path / "site")
    return tmp_path / "site" / "data"


class Verified:
    """The exit code and the lines of one run of the command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        capsys.readouterr()
        self.code = verify.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        self.error = captured.err
        self.lines = captured.out.splitlines()

    @property
    def findings(self) -> list[str]:
        """Return all lines except the summary."""
        return self.lines[:-1]


def test_an_intact_directory_has_no_findings(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary counts what was checked, and the exit code is 0."""
    _build_index(data, "first")
    log = data.parent / "log"
    verified = Verified(capsys, "--data", data, "--event-log", log)
    assert (verified.code, verified.findings) == (0, [])
    assert verified.lines[0].startswith("0 damaged, 0 surplus. ")
    assert verified.error == ""


@pytest.mark.parametrize("name", archives())
def test_directories_of_earlier_versions_are_intact(name: str, tmp_path: Path) -> None:
    """Files of earlier versions have no digests, owners or seals, and are still intact."""
    unpack(name, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "index")
    assert list(confirmed(Site(DataLayout(tmp_path / "data"), LOG))) == []


def _entry(store: str, version: int) -> str:
    return f"tables/{store}/_delta_log/{version:020d}.json"


def _state(store: str, name: str) -> str:
    return f"checkpoints/app/state/{store}/{name}"


_NEWEST = f"{BATCHES - 1:012d}.json"


def _garble(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(40) + content[80:])


def _miscount(path: Path) -> None:
    fields = orjson.loads(path.read_bytes())
    fields["record"]["counters"]["late"] += 1
    # A file of an earlier version has no digest.
    fields.pop("digest", None)
    path.write_bytes(orjson.dumps(fields))


def _belong_elsewhere(path: Path) -> None:
    """Replace the application by another one, in an intact file."""
    path.write_bytes(with_digest(orjson.dumps({"application": "elsewhere"})))


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _leave_temporary_file(path: Path) -> None:
    """Remove the newest entries of a table, so that it equals an older backup."""
    for version in range(2, BATCHES + 1):
        (path / f"{version:020d}.json").unlink()


@pytest.mark.parametrize(
    ("pattern", "damage", "problem", "action"),
    [
        ("tables/second/part-*.parquet", delete, "file is missing", "`oriel rebuild second`"),
        ("tables/second/part-*.parquet", cut, " bytes, the log says", "`oriel rebuild second`"),
        ("tables/second/part-*.parquet", _garble, "the data file ", "`oriel rebuild second`"),
        ("tables/_dead_letters/*.parquet", delete, "file is missing", "Restore it from a backup"),
        (_entry("second", 2), delete, "the entry is missing", "`oriel rebuild second`"),
        (_entry("second", 2), cut, "cut off", "`oriel rebuild second`"),
        (_entry("second", BATCHES), cut, "it is the newest one", "commits the batch again"),
        ("tables/first/_delta_log/*.checkpoint.parquet", _garble, "checkpoint", "Delete it"),
        (_state("first", _NEWEST), cut, "is damaged", "`oriel rebuild first`"),
        (_state("first", _NEWEST), delete, "state version is missing", "computes this state again"),
        (_state("first", _NEWEST), _miscount, "counters", "`oriel rebuild first`"),
        (_state("first", f"{BATCHES - 1:012d}-*.arrow"), delete, "missing", "oriel rebuild first"),
        (_state("first", f"{BATCHES - 1:012d}-*.arrow"), cut, "the digest", "oriel rebuild first"),
        ("checkpoints/app/application.json", delete, "is missing", "Restore it from a backup"),
        ("checkpoints/app/application.json", _belong_elsewhere, "elsewhere, the states", "Restore"),
        ("checkpoints/app/lock", _make_directory, "is a directory", "Delete the directory"),
        ("checkpoints/app/log.json", _garble, "is damaged", "Restore it from a backup"),
        ("tables/second", delete, "table of store 'second' is missing", "oriel rebuild second"),
    ],
)  # fmt: skip
def test_damage_is_found_and_named(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    pattern: str,
    damage: Callable[[Path], None],
    problem: str,
    action: str,
) -> None:
    """One line names the damaged file, what is wrong with it, and what replaces it."""
    path = min(data.glob(pattern))
    damage(path)
    verified = Verified(capsys, "--data", data)
    assert verified.code == 1
    named = [line for line in verified.findings if line.startswith(f"{path}: ")]
    assert named, verified.findings
    assert problem in named[0]
    assert action in named[0]


def _flip(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


#: Files whose content decides nothing. For epochs, the names count. Spark's log is written again at
#: each start. Only the version is read from a pointer.
_WITHOUT_DECISION = {"epochs", "spark", "lock", "status.json", "_last_checkpoint"}


@cases(100, 5_000)
def test_each_flipped_bit_is_found(data: Path, number: int) -> None:
    """A flipped bit in any file of tables and checkpoints is a finding with the file's name."""
    files = [
        path
        for path in sorted([*data.glob("tables/**/*"), *data.glob("checkpoints/**/*")])
        if path.is_file() and path.stat().st_size and not _WITHOUT_DECISION & {*path.parts}
    ]
    site = Site(DataLayout(data))
    missed = []
    for seed in range(number):
        random = Random(seed)
        path = random.choice(files)
        whole = path.read_bytes()
        _flip(path, random)
        site.forget()
        damaged = {finding.path for finding in confirmed(site) if finding.is_damage}
        # A digest that differs is reported for the file that it belongs to.
        if damaged.isdisjoint({path, path.with_suffix(".parquet")}):
            missed.append(f"seed {seed}: {path.relative_to(data)}: {damaged}")
        path.write_bytes(whole)
    assert missed == []
    site.forget()
    assert list(confirmed(site)) == []


def test_a_table_of_an_earlier_day_is_found(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is several batches older than the state, which no crash can cause."""
    _leave_temporary_file(data / "tables" / "second" / "_delta_log")
    verified = Verified(capsys, "--data", data)
    table = data / "tables" / "second"
    assert f"{table}: the table is at batch 0, but the state in " in verified.findings[0]
    assert verified.code == 1


@pytest.mark.parametrize("is_cut", [True, False])
def test_an_event_log_that_is_too_short_is_found(
    data: Path, capsys: pytest.CaptureFixture[str], *, is_cut: bool
) -> None:
    """The log ends before the offset that was read, or no line ends there."""
    log = data.parent / "log"
    path = log / "t" / "0.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-30] if is_cut else content[:-1] + b"xx\n")
    verified = Verified(capsys, "--data", data, "--event-log", log)
    assert verified.code == 1
    assert [line for line in verified.findings if not line.startswith(f"{path}: ")] == []
    captured = "the file has" if is_cut else "no line ends at"
    assert captured in verified.findings[0]


_WAS_READ = 10**6


@pytest.mark.parametrize(
    ("earliest", "latest", "topic_id", "problem"),
    [
        (0, _WAS_READ, "known", None),
        (_WAS_READ, _WAS_READ, "AAAAAAAAAAAAAAAAAAAAAA", None),
        (0, 9, "known", "partition 0 of topic 't' ends at 9 in Kafka"),
        (_WAS_READ + 1, _WAS_READ + 1, "known", "partition 0 of topic 't' begins at 1,000,001"),
        (0, _WAS_READ, "other", "topic 't' was deleted and created again in Kafka"),
        (0, None, "known", "partition 0 of topic 't' does not exist in Kafka"),
        (None, None, "known", "topic 't' does not exist in Kafka"),
    ],
)
def test_offsets_are_compared_with_the_topics_of_kafka(
    data: Path, earliest: int | None, latest: int | None, topic_id: str, problem: str | None
) -> None:
    """An offset outside the range of the partition is a finding, and so is another topic."""
    ends = {} if latest is None else {"0": latest}
    log = None if earliest is None else TopicLog(topic_id, {"0": earliest}, ends)
    checkpoint = data / "checkpoints" / "app"
    (checkpoint / "kafka.json").write_bytes(b'{"topic_ids":{"t":"known"}}')
    for state in sorted((checkpoint / "state").iterdir()):
        _set_offset(state / _NEWEST, _WAS_READ)
    site = Site(DataLayout(data), fetch_topic={"t": log}.__getitem__)
    found = list(confirmed(site, [KafkaTopics()]))
    assert [str(finding.path) for finding in found] == [
        str(checkpoint / "state" / store / _NEWEST)
        for store in sorted({path.name for path in (checkpoint / "state").iterdir()})
        if problem is not None
    ]
    assert {finding.problem.startswith(str(problem)) for finding in found} <= {True}


def _set_offset(decision: Path, offset: int) -> None:
    fields = orjson.loads(decision.read_bytes())
    fields["record"]["offsets"] = {"t": {"0": offset}}
    fields.pop("digest", None)
    decision.write_bytes(orjson.dumps(fields))


def _remove_row(file: Path) -> None:
    with lmdb.open(str(file.parent), max_dbs=4) as env:
        windows = env.open_db(b"windows")
        with env.begin(write=True) as txn:
            cursor = txn.cursor(windows)
            assert cursor.first()
            cursor.delete()


@pytest.mark.parametrize(
    ("damage", "problem"), [(cut, "beyond EOF"), (_remove_row, "1 rows are missing")]
)
def test_an_index_that_differs_from_its_table_is_found(
    data: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], problem: str
) -> None:
    """An index that differs is a finding, also if its file is intact."""
    _build_index(data, "first")
    path = next(data.glob("index/*/first/generation-*/data.mdb"))
    damage(path)
    verified = Verified(capsys, "--data", data)
    assert verified.code == 1
    (line,) = verified.findings
    assert line.startswith(f"{path}: ")
    assert problem in line
    assert "the service rebuilds it" in line


@pytest.mark.parametrize(
    "name",
    [
        "tables/first/part-000000000001-0000-left.parquet",
        "tables/empty",
        _state("first", "000000000001-0000-left.arrow"),
        "strange",
        "rebuilds/first",
        "index/_format-1",
    ],
)
def test_files_that_nothing_refers_to_are_information(
    data: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Such files are listed, and the exit code is 0."""
    path = data / name
    if path.suffix:
        path.write_bytes(b"x")
    else:
        path.mkdir(parents=True)
    verified = Verified(capsys, "--data", data)
    assert [line.partition(": ")[0] for line in verified.findings] == [str(path)]
    assert verified.code == 0
    assert verified.lines[-1].startswith("0 damaged, 1 surplus. ")


def test_damaged_marks_of_replayed_dead_letters_are_found(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damaged marks are a finding, because a replay would send records again."""
    path = DataLayout(data).replayed
    path.parent.mkdir()
    path.write_bytes(b'["t",0,5,7]\n')
    assert Verified(capsys, "--data", data).code == 0
    path.write_bytes(b'["t",0,5,7\n')
    verified = Verified(capsys, "--data", data)
    assert verified.code == 1
    assert verified.findings[0].startswith(f"{path}: the marks of replayed dead letters")


def test_programs_get_one_object_per_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json`, the last object is the summary."""
    path = data / _entry("second", 2)
    path.unlink()
    verified = Verified(capsys, "--data", data, "--json")
    finding, *_, summary = map(orjson.loads, verified.lines)
    assert finding["finding"] == "damage"
    assert finding["path"] == str(path)
    assert {"problem", "action"} < set(finding)
    assert summary["summary"]["damaged"] >= 1


def test_a_directory_that_cannot_be_verified_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script can distinguish this from damage by the exit code."""
    verified = Verified(capsys, "--data", tmp_path)
    assert (verified.code, verified.lines) == (2, [])
    assert "it has no tables" in verified.error
    verified = Verified(capsys, "--backup", tmp_path)
    assert (verified.code, verified.lines) == (2, [])
    assert "it is not a finished backup" in verified.error


def test_a_running_pipeline_makes_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check has no findings while batches are committed and files are compacted and removed."""
    write_log(tmp_path, 25)
    writer = Writer(tmp_path, sync=False)
    writer.run(2)
    table = DataLayout(writer.data).table("first")
    is_done = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while writer.has_more_lines:
                writer.run_batch()
                maintenance = TableMaintenance(table, MaintenanceSettings())
                while maintenance.step({"": 0}):
                    pass
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            is_done.set()

    thread = threading.Thread(target=run)
    thread.start()
    looks: list[Any] = []
    try:
        while not is_done.is_set() or not looks:
            looks.append(Verified(capsys, "--data", writer.data))
    finally:
        thread.join()
        writer.close()
    assert failed == []
    damaged = [look.lines for look in looks if look.code]
    assert damaged == []
