"""`oriel dead-letters`: what it lists, what it sends again, and what it does not send."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.pipeline.commit.store_tables import open_dead_letters
from oriel.pipeline.errors import ReplayRejected
from oriel.pipeline.operations import compact
from oriel.pipeline.operations.dead_letters import command as dead_letters
from oriel.pipeline.operations.dead_letters.replay import EventLogTarget, replay
from oriel.pipeline.sources import Message
from oriel.storage import DataLayout
from oriel.storage.dead_letters import Selection, read_replays
from oriel.storage.delta import DEAD_LETTER_SCHEMA, open_table, write_file
from tests.object_store import ObjectStore

#: The columns of a table that was created before dead letters had keys.
OLD_SCHEMA = pa.schema(list(DEAD_LETTER_SCHEMA)[:8])

Letter = dict[str, Any]


def letter(offset: int, reason: str = "not-json", **other: Any) -> Letter:
    """Return a dead letter of the topic `t`, whose bytes are its offset."""
    given = {"topic": "t", "partition": 0, "offset": offset, "reason": reason, "detail": "it is so"}
    return {**given, "raw": str(offset).encode(), "revision": offset, **other}


def commit(
    data: Path, batch: int, *dead_letter_rows: Letter, schema: pa.Schema = DEAD_LETTER_SCHEMA
) -> None:
    """Add dead letters to the table of `data`."""
    directory = DataLayout(data).dead_letters
    if schema is OLD_SCHEMA:
        table = open_table(directory, schema, {}, sync=False)
    else:
        table = open_dead_letters(directory, sync=False)
    file = write_file(
        directory, pa.Table.from_pylist(list(dead_letter_rows), schema), "dead", sync=False
    )
    table.commit([file], "app/s", batch, {})


def listed(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[Letter]:
    """Return the output of `list --json`."""
    capsys.readouterr()
    assert dead_letters.main(["list", "--data", str(data), "--json", *options]) == 0
    return [orjson.loads(text) for text in capsys.readouterr().out.splitlines()]


def replayed(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return the output of `replay`."""
    capsys.readouterr()
    assert dead_letters.main(["replay", "--data", str(data), *options]) == 0
    return capsys.readouterr().out


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    (tmp_path / "log" / "t").mkdir(parents=True)
    (tmp_path / "log" / "t" / "0.jsonl").write_bytes(b"before\n")
    return tmp_path / "log"


def lines(log: Path) -> list[bytes]:
    """Return the lines that were appended to partition 0."""
    return (log / "t" / "0.jsonl").read_bytes().splitlines()[1:]


@pytest.mark.parametrize("upgraded", [True, False])
def test_a_table_without_keys_is_listed_and_gets_the_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, upgraded: bool
) -> None:
    """Older dead letters have null in the new columns, before and after a run adds them."""
    commit(tmp_path, 0, letter(1), schema=OLD_SCHEMA)
    headers = [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    if upgraded:
        commit(tmp_path, 1, letter(2, key=b"k", timestamp_ms=7, headers=headers))
        open_dead_letters(DataLayout(tmp_path).dead_letters, sync=True)
        table = DeltaTable(DataLayout(tmp_path).dead_letters)
        assert table.version() == 3, "the columns are added once"
        assert table.protocol().min_writer_version == 2
    first, *others = reversed(listed(tmp_path, capsys))
    assert [first[name] for name in ("offset", "key", "timestamp_ms", "headers")] == [1] + [
        None
    ] * 3
    output = [[{"key": "h", "value": "\\xff"}, {"key": "h", "value": None}]]
    assert [row["headers"] for row in others] == output * upgraded
    assert [row["key"] for row in others] == ["k"] * upgraded
    since = [row["offset"] for row in listed(tmp_path, capsys, "--since", "7")]
    assert since == [2] * upgraded


def test_files_of_before_and_after_the_columns_are_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compaction changes no dead letter."""
    commit(tmp_path, 0, letter(1), schema=OLD_SCHEMA)
    commit(tmp_path, 1, letter(2, key=b"k", headers=[{"key": "h", "value": b"v"}]))
    before = listed(tmp_path, capsys)
    assert compact.main(["_dead_letters", "--data", str(tmp_path), "--all"]) == 0
    assert len(DeltaTable(DataLayout(tmp_path).dead_letters).file_uris()) == 1
    assert listed(tmp_path, capsys) == before


def test_dead_letters_are_filtered_and_listed_newest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Filters are combined. A limit restricts the rows that are shown, but not the counts."""
    many = [letter(number, timestamp_ms=number) for number in range(2500)]
    commit(tmp_path, 0, *many[::2])
    commit(tmp_path, 1, *many[1::2])
    commit(tmp_path, 2, letter(1, "null-key", topic="u", store="s"), letter(2, "null-key"))

    def offsets(*options: str) -> list[int]:
        return [row["offset"] for row in listed(tmp_path, capsys, *options)]

    assert offsets("--limit", "3") == [2499, 2498, 2497]
    assert len(offsets()) == 20
    assert offsets("--reason", "null-key") == [2, 1]
    assert offsets("--topic", "u") == offsets("--store", "s") == [1]
    assert offsets("--topic", "t", "--reason", "null-key") == [2]
    assert offsets("--since", "1970-01-01T00:00:02.498Z") == [2499, 2498]
    assert dead_letters.main(["list", "--data", str(tmp_path), "--limit", "1"]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "t/0 at 2499  1970-01-01T00:00:02.499+00:00  key -"
    assert [line.split() for line in text[-3:-1]] == [["2,500", "not-json"], ["2", "null-key"]]


def test_values_are_clipped_and_can_not_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long value has its size. Control characters and invalid UTF-8 are escaped."""
    commit(tmp_path, 0, letter(1, raw=b"\x1b[2J\xff" + b"x" * 900, key=b"\r"))
    assert dead_letters.main(["list", "--data", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\\x1b[2J\\xffxxx" in text
    assert "(905 bytes)" in text


def test_each_record_is_sent_once_by_default(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several stores can have a dead letter of one record. A dry run sends and notes nothing."""
    commit(tmp_path, 0, letter(2), letter(1), letter(1))
    target = ("--event-log", str(log))
    assert "2 records would be sent" in replayed(tmp_path, capsys, *target, "--dry-run")
    assert lines(log) == []
    assert "1 records were sent" in replayed(tmp_path, capsys, *target, "--limit", "1")
    assert "1 records were sent" in replayed(tmp_path, capsys, *target)
    assert lines(log) == [b"1", b"2"]
    commit(tmp_path, 1, letter(3))
    assert "1 records were sent" in replayed(tmp_path, capsys, *target)
    assert "0 records were sent" in replayed(tmp_path, capsys, *target)
    assert lines(log) == [b"1", b"2", b"3"]
    assert "3 records were sent" in replayed(tmp_path, capsys, *target, "--again")


def test_what_only_one_store_refuses_is_sent_if_it_is_named(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other stores already have the record, so it would count twice. Join results are not sent."""
    commit(tmp_path, 0, letter(1, "null-key", store="s"), letter(2, raw=b""))
    output = replayed(tmp_path, capsys, "--event-log", str(log))
    assert "0 records were sent" in output
    assert "1 dead letters left out: they failed in one store" in output
    assert "1 dead letters left out: they have no bytes" in output
    replayed(tmp_path, capsys, "--event-log", str(log), "--store", "s")
    assert lines(log) == [b"1"]


def test_a_note_that_a_crash_cut_off_is_of_nothing_that_was_sent(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The torn note is removed, and the next replay sends the record."""
    commit(tmp_path, 0, letter(1), letter(2))
    replayed(tmp_path, capsys, "--event-log", str(log), "--limit", "1")
    noted = DataLayout(tmp_path).replayed
    with noted.open("ab") as file:
        file.write(b'["t",0')
    replayed(tmp_path, capsys, "--event-log", str(log))
    places = [orjson.loads(line)[:3] for line in noted.read_bytes().splitlines()]
    assert places == [["t", 0, 1]] * 2 + [["t", 0, 2]] * 2
    assert lines(log) == [b"1", b"2"]


def test_a_list_shows_replayed_and_repeated_dead_letters(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record that fails again has the offset of its first dead letter, after any replays."""
    target = ("--event-log", str(log))
    commit(tmp_path, 0, letter(1), letter(2))
    replayed(tmp_path, capsys, *target, "--limit", "1")
    # The line b"1" begins at offset 7. It fails again, is sent again and fails again.
    commit(tmp_path, 1, letter(7, raw=b"1"))
    replayed(tmp_path, capsys, *target, "--limit", "2")
    newest = (log / "t" / "0.jsonl").read_bytes().rindex(b"1\n")
    commit(tmp_path, 2, letter(newest, raw=b"1"))
    rows = {row["offset"]: row for row in listed(tmp_path, capsys)}
    assert {at: row["replayed_ms"] is not None for at, row in rows.items()} == {
        1: True, 2: True, 7: True, newest: False,
    }  # fmt: skip
    assert {at: row["repeats_offset"] for at, row in rows.items()} == {
        1: None, 2: None, 7: 1, newest: 1,
    }  # fmt: skip
    assert [row["offset"] for row in listed(tmp_path, capsys, "--not-replayed")] == [newest]
    assert dead_letters.main(["list", "--data", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("    replayed 20") == 3
    assert text.count("    repeats the dead letter at 1\n") == 2
    assert "2  repeat another dead letter" in text.splitlines()[-1]


def test_a_sent_record_has_the_offset_at_which_its_line_begins(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The offset is exact in each partition, also if other producers append lines."""
    (log / "t" / "1.jsonl").write_bytes(b"one line\n")
    commit(tmp_path, 0, letter(1), letter(2, partition=1), letter(3))
    with (log / "t" / "0.jsonl").open("ab") as other:
        other.write(b"another line\n")
    replayed(tmp_path, capsys, "--event-log", str(log))
    origins = read_replays(DataLayout(tmp_path)).origins
    for (topic, partition), offsets in origins.items():
        content = (log / topic / f"{partition}.jsonl").read_bytes()
        for sent, origin in offsets.items():
            assert content[sent:].partition(b"\n")[0] == b"%d" % origin
    assert {place: len(offsets) for place, offsets in origins.items()} == {
        ("t", 0): 2, ("t", 1): 1,
    }  # fmt: skip


def test_notes_of_an_earlier_version_still_count(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such notes have no time, so `replayed_ms` is 0, and the record is not sent again."""
    commit(tmp_path, 0, letter(1))
    noted = DataLayout(tmp_path).replayed
    noted.parent.mkdir()
    noted.write_bytes(b'["t",0,1]\n')
    assert [row["replayed_ms"] for row in listed(tmp_path, capsys)] == [0]
    assert dead_letters.main(["list", "--data", str(tmp_path)]) == 0
    assert "    replayed -\n" in capsys.readouterr().out
    assert "0 records were sent" in replayed(tmp_path, capsys, "--event-log", str(log))


def test_a_replay_that_is_killed_after_it_sent_sends_no_record_twice(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the new offsets are unknown, so the dead letters of the records repeat none."""
    commit(tmp_path, 0, letter(1), letter(2))
    send = EventLogTarget.send

    def killed(target: EventLogTarget, messages: Sequence[Message]) -> list[int]:
        send(target, messages)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EventLogTarget, "send", killed)
        with pytest.raises(KeyboardInterrupt):
            replayed(tmp_path, capsys, "--event-log", str(log))
    assert "0 records were sent" in replayed(tmp_path, capsys, "--event-log", str(log))
    assert lines(log) == [b"1", b"2"]
    commit(tmp_path, 1, letter(7, raw=b"1"))
    rows = {row["offset"]: row for row in listed(tmp_path, capsys)}
    assert rows[7]["repeats_offset"] is None
    assert rows[1]["replayed_ms"] is not None


def test_damaged_notes_are_an_error_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file."""
    commit(tmp_path, 0, letter(1))
    noted = DataLayout(tmp_path).replayed
    noted.parent.mkdir()
    noted.write_bytes(b"\x00\x00\n")
    assert dead_letters.main(["list", "--data", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{noted} is damaged" in line
    assert "delete it" in line


@pytest.mark.parametrize(
    ("log_bytes", "value", "why"),
    [
        (b"half a li", b"1", "is not complete"),
        (None, b"1", "has no file"),
        (b"", b"1\n2", "is not a line of an event log"),
    ],
)
def test_a_refused_replay_sends_and_remembers_nothing(
    tmp_path: Path,
    log: Path,
    capsys: pytest.CaptureFixture[str],
    log_bytes: bytes | None,
    value: bytes,
    why: str,
) -> None:
    """One line says why the replay is rejected."""
    commit(tmp_path, 0, letter(1, raw=value))
    path = log / "t" / "0.jsonl"
    if log_bytes is None:
        path.unlink()
    else:
        path.write_bytes(log_bytes)
    options = ["replay", "--data", str(tmp_path), "--event-log", str(log)]
    assert dead_letters.main(options) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert not DataLayout(tmp_path).replayed.read_bytes()
    assert (path.read_bytes() if path.exists() else None) == log_bytes


def test_a_directory_without_dead_letters_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is created in such a directory."""
    for command in (["list"], ["replay", "--event-log", str(tmp_path)]):
        assert dead_letters.main([*command, "--data", str(tmp_path / "no")]) == 1
        assert "has no dead letters" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


class _Sent:
    """A target that starts another replay before it sends."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        self.messages: list[Message] = []

    def prepare(self, messages: Sequence[Message]) -> None:
        """Run the other replay first."""
        assert messages
        self._before()

    def send(self, messages: Sequence[Message]) -> list[int]:
        """Keep the messages."""
        self.messages += messages
        return [100 + index for index in range(len(messages))]


@pytest.mark.slow
def test_of_two_replays_among_objects_one_sends(object_store: ObjectStore) -> None:
    """No lock exists. The replay that notes the records first sends them."""
    data = object_store.data("replays")
    commit(data, 0, letter(1), letter(2))
    faster = _Sent()
    wanted = Selection()

    def go_in_front() -> None:
        assert replay(data, wanted, faster, limit=None, again=False).sent == 2

    slower = _Sent(go_in_front)
    with pytest.raises(ReplayRejected, match=r"another replay of s3://.* is running"):
        replay(data, wanted, slower, limit=None, again=False)
    assert (len(faster.messages), len(slower.messages)) == (2, 0)
    assert replay(data, wanted, _Sent(), limit=None, again=False).known == 2
    replays = read_replays(DataLayout(data))
    assert replays.origins == {("t", 0): {100: 1, 101: 2}}
    assert list(replays.times_ms["t", 0]) == [1, 2]
