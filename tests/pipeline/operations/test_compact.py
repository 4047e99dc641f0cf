"""``oriel compact``: by hand, with figures before and after, and mistakes in one line."""

from pathlib import Path

import pytest

from oriel.pipeline.operations.compact import main
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import SLIDING


def figures(printed: str) -> dict[str, tuple[int, int]]:
    """What was printed: title -> before and after."""
    found = {}
    for line in printed.splitlines()[1:]:
        title, before, after = line.rsplit(maxsplit=2)
        found[title.strip()] = int(before.replace(",", "")), int(after.replace(",", ""))
    return found


def test_everything_is_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--all`` the table is one run of visible rows, behind one Delta checkpoint."""
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
    assert len(list((table.folder / "_delta_log").glob("*.checkpoint.parquet"))) == 1
    table.assert_unchanged()
    assert main(["store", "--data", str(tmp_path), "--all"]) == 0
    table.assert_unchanged()


def test_what_is_not_due_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without ``--all`` it is what the pipeline would do."""
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
        ("nothing", "there is no store 'nothing'"),
        ("../x", "is not valid"),
        ("to(x)", "to(x) is a stream's topic: it has no table to compact"),
        ("_dead_letters", "there is no store '_dead_letters'"),
    ],
)
def test_an_unknown_store_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, said: str
) -> None:
    """With the stores that there are."""
    CompactedTable(tmp_path, SLIDING)
    assert main([store, "--data", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_damaged_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What delta-rs says of it, without a trace."""
    table = CompactedTable(tmp_path, SLIDING)
    table.commit([{"key": "a", "start": 1}])
    (table.folder / "_delta_log" / f"{0:020d}.json").write_bytes(b"")
    assert main(["store", "--data", str(tmp_path), "--all"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "can't be read" in error
