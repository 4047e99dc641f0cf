"""`oriel compact` compacts a table, prints figures, and reports mistakes in one line."""

from pathlib import Path

import pytest

from oriel.pipeline.operations.compact import main
from oriel.storage.delta.opening import LogFiles
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import SLIDING


def figures(printed: str) -> dict[str, tuple[int, int]]:
    """Return the printed figures: title -> before and after."""
    found = {}
    for line in printed.splitlines()[1:]:
        title, before, after = line.rsplit(maxsplit=2)
        found[title.strip()] = int(before.replace(",", "")), int(after.replace(",", ""))
    return found


def test_everything_is_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--all`, the table is one sorted run of visible rows, with one Delta checkpoint."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(10):
        table.commit([{"key": "a", "start": batch % 3, "n": batch}])
    assert main(["store", "--data", str(tmp_path), "--all"]) == 0
    printed = capsys.readouterr()
    found = figures(printed.out)
    assert found["files"] == (10, 1)
    assert found["rows"] == (10, 3)
    assert found["log entries"] == (11, 12)
    assert found["bytes"][1] < found["bytes"][0]
    assert "files written: 1" in printed.err
    assert len(list((table.directory / "_delta_log").glob("*.checkpoint.parquet"))) == 1
    table.assert_unchanged()
    assert main(["store", "--data", str(tmp_path), "--all"]) == 0
    table.assert_unchanged()


def test_what_is_not_due_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--all`, the command does what the pipeline would do."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(10):
        table.commit([{"key": "a", "start": batch}])
    assert main(["store", "--data", str(tmp_path)]) == 0
    assert figures(capsys.readouterr().out)["files"] == (10, 10)
    for batch in range(60):
        table.commit([{"key": "a", "start": batch}])
    assert main(["store", "--data", str(tmp_path)]) == 0
    assert figures(capsys.readouterr().out)["files"] == (70, 1)
    table.assert_unchanged()


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("nothing", "store 'nothing' does not exist in"),
        ("../x", "is not valid"),
        ("to(x)", "to(x) is the output topic of a stream, so it has no table to compact"),
        ("_dead_letters", "store '_dead_letters' does not exist in"),
    ],
)
def test_an_unknown_store_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, said: str
) -> None:
    """An invalid store is an error of one line."""
    CompactedTable(tmp_path, SLIDING)
    assert main([store, "--data", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_damaged_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file and the solution."""
    table = CompactedTable(tmp_path, SLIDING)
    table.commit([{"key": "a", "start": 1}])
    entry = table.directory / "_delta_log" / f"{0:020d}.json"
    entry.write_bytes(b"")
    assert main(["store", "--data", str(tmp_path), "--all"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(entry) in error
    assert "it is empty or cut off" in error
    assert "`oriel rebuild store`" in error


@pytest.mark.parametrize("has_digests", [True, False])
@pytest.mark.parametrize("damage", ["page", "footer", "zeros", "empty"])
def test_a_damaged_file_is_not_compacted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: str,
    *,
    has_digests: bool,
) -> None:
    """One line names the file. Files of earlier versions have no digests."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(3):
        table.commit([{"key": "a", "start": batch, "n": batch}])
    if not has_digests:
        monkeypatch.setattr(LogFiles, "tags", lambda _: {})
    files = table.live()
    path = table.directory / min(files)
    content = path.read_bytes()
    damaged = {
        "page": content[:4] + bytes(300) + content[304:],
        "footer": content[:-300] + bytes(292) + content[-8:],
        "zeros": bytes(len(content)),
        "empty": b"",
    }
    path.write_bytes(damaged[damage])
    capsys.readouterr()
    assert main(["store", "--data", str(tmp_path), "--all"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert "backup" in line
    assert table.live() == files
