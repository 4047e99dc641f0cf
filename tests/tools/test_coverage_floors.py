"""Floors of coverage: what is reported when tests run too little of the product."""

from collections import Counter

import pytest

from tests.tidy.project import ROOT
from tools.coverage_floors import FLOORS, below, table


def _file(lines: int, branches: int, of: int = 1000) -> Counter[str]:
    return Counter({"lines": lines, "all lines": of, "branches": branches, "all branches": of})


def test_every_floor_is_of_a_path_of_the_product() -> None:
    """A path that was renamed would have no lines, and so 100 percent."""
    missing = [path for path in FLOORS if not (ROOT / path).exists()]
    assert not missing, f"name these paths as they are now: {missing}"


def test_nothing_is_reported_at_the_floors() -> None:
    """95 percent of the product is enough, and 100 percent of the key codec."""
    counts = {"app/a.py": _file(950, 950), "storage/key_codec.py": _file(1000, 1000)}
    assert below(counts) == []


@pytest.mark.parametrize(
    ("table_file", "message"),
    [
        (_file(949, 1000), "storage: tests run 94.9 % of the lines, the floor is 95 %"),
        (_file(1000, 949), "storage: tests run 94.9 % of the branches, the floor is 95 %"),
    ],
)
def test_a_package_below_its_floor_is_reported(table_file: Counter[str], message: str) -> None:
    """Lines and branches have the same floor, and the message names the file that lacks most."""
    others = {f"storage/{number}.py": _file(0, 0, 0) for number in range(4)}
    app = {"app/a.py": _file(9000, 9000, 9000)}
    (found,) = below({**others, **app, "storage/table.py": table_file})
    assert found.startswith(message)
    assert "Write tests first for storage/table.py" in found


def test_one_branch_that_no_test_runs_is_reported_for_a_floor_of_all() -> None:
    """99.99 percent of the key codec is not enough, although it is printed as 100.0."""
    counts = {"storage/key_codec.py": _file(10_000, 9_999, 10_000)}
    assert [message.split(":")[0] for message in below(counts)] == ["storage/key_codec.py"]


def test_the_table_has_a_row_for_each_floor() -> None:
    """With the percents of lines and of branches."""
    rows = table({"client/a.py": _file(900, 500)}).splitlines()
    assert "| client | 90.0 | 50.0 | 95 |" in rows
    assert len(rows) == 2 + len(FLOORS)
