"""Each start of a pipeline fences the previous process, which changes nothing afterwards."""

from pathlib import Path

import pytest

from oriel.pipeline.errors import Fenced
from tests.pipeline.commit.writers import Writer, write_log


def test_epochs_rise_and_old_ones_go(tmp_path: Path) -> None:
    """Each start has the next epoch, and the last ten epoch files are kept."""
    write_log(tmp_path, 1)
    first = Writer(tmp_path)
    for _ in range(15):
        Writer(tmp_path).close()
    names = sorted(path.name for path in (first.checkpoint.directory / "epochs").iterdir())
    assert names == [f"{number:012d}.json" for number in range(7, 17)]
    with pytest.raises(Fenced, match=r"process \d+ on .* took over this pipeline at .*epoch 16"):
        first.run()
    first.close()


def test_a_successor_whose_name_was_not_kept_fences_off_as_well(tmp_path: Path) -> None:
    """An epoch file that a power loss has emptied also fences the previous process."""
    write_log(tmp_path, 1)
    first = Writer(tmp_path)
    Writer(tmp_path).close()
    (first.checkpoint.directory / "epochs" / f"{2:012d}.json").write_bytes(b"")
    with pytest.raises(Fenced, match="another process took over"):
        first.checkpoint.check_epoch()
    first.close()
