"""Messages about coverage below its minimum."""

from collections import Counter

import pytest

from tests.tidy.project import ROOT
from tools.coverage_floors import FLOORS, below, table


def _file(lines: int, branches: int, of: int = 1000) -> Counter[str]:
    return Counter({"lines": lines, "all lines": of, "branches": branches, "all branches": of})


def test_every_path_exists() -> None:
    """A renamed path would have no lines, and therefore 100 percent."""
    missing = [path for path in FLOORS if not (ROOT / path).exists()]
    assert not missing, f"these paths do not exist: {missing}"


def test_nothing_is_reported_at_the_minimum() -> None:
    """95 percent of the product is enough, and 100 percent of the key codec."""
    counts = {"app/a.py": _file(950, 950), "storage/key_codec.py": _file(1000, 1000)}
    assert below(counts) == []


@pytest.mark.parametrize(
    ("table_file", "message"),
    [
        (_file(949, 1000), "storage: tests run 94.9 % of the lines, the minimum is 95 %"),
        (_file(1000, 949), "storage: tests run 94.9 % of the branches, the minimum is 95 %"),
    ],
)
def test_a_package_below_its_minimum_is_reported(table_file: Counter[str], message: str) -> None:
    """The message names the file with the most missing lines or branches."""
    others = {f"storage/{number}.py": _file(0, 0, 0) for number in range(4)}
    app = {"app/a.py": _file(9000, 9000, 9000)}
    (found,) = below({**others, **app, "storage/table.py": table_file})
    assert found.startswith(message)
    assert "Write tests first for storage/table.py" in found


def test_one_missing_branch_is_reported_if_the_minimum_is_100() -> None:
    """99.99 percent of the key codec is not enough, although it is printed as 100.0."""
    counts = {"storage/key_codec.py": _file(10_000, 9_999, 10_000)}
    assert [message.split(":")[0] for message in below(counts)] == ["storage/key_codec.py"]


def test_the_table_has_a_row_for_each_path() -> None:
    """A row has the percentages of lines and branches."""
    rows = table({"client/a.py": _file(900, 500)}).splitlines()
    assert "| client | 90.0 | 50.0 | 95 |" in rows
    assert len(rows) == 2 + len(FLOORS)
