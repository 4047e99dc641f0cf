"""Exit codes and messages of a run whose records are dead letters."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.storage.waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]

TOPOLOGY = """
from oriel import StreamsBuilder


def add(_key, value, total):
    return total + value["amount"]


builder = StreamsBuilder()
values = builder.stream("t", "v INT").group_by_key()
values.aggregate(lambda: 0, add, schema="total BIGINT").materialize("s")
topology = builder.build()
"""

WARNING = (
    "dead letters: reason=function-raised count=2 topic=t partition=0 offset=0 "
    "detail=\"store 's', aggregate: KeyError: 'amount'\""
)
REJECTED = (
    "oriel run: all records that this run read are dead letters. Show them with "
    "`oriel dead-letters list`"
)


@pytest.fixture(name="command")
def _command(tmp_path: Path) -> list[str]:
    """Return a command that runs the topology over two records."""
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    (tmp_path / "log" / "t").mkdir(parents=True)
    lines = (b'{"key":"k","value":{"v":1},"timestamp_ms":%d}\n' % time for time in (1, 2))
    (tmp_path / "log" / "t" / "0.jsonl").write_bytes(b"".join(lines))
    command = [sys.executable, "-P", "-m", "oriel", "run", str(tmp_path / "topology.py")]
    return [*command, "--event-log", str(tmp_path / "log"), "--data", str(tmp_path / "data")]


def test_a_run_that_rejects_all_records_has_its_own_exit_code(command: list[str]) -> None:
    """``--once`` prints the reason and exits with 3. A run without input exits with 0."""
    codes, errors, inputs = [], [], []
    for _ in range(2):
        ended = subprocess.run(
            [*command, "--once"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        codes.append(ended.returncode)
        errors.append(ended.stderr.splitlines())
        summary = orjson.loads(ended.stdout)
        inputs += [store["input"] for store in summary["stores"].values()]
    assert codes == [3, 0]
    assert errors[0].count(WARNING) == 1
    assert errors[0][-1] == REJECTED
    assert [line for line in errors[1] if "dead letter" in line] == []
    assert inputs == [2]


def test_a_live_run_warns_and_continues(command: list[str], tmp_path: Path) -> None:
    """The warning appears while the run continues, and the run ends with 0 on SIGTERM."""
    log = tmp_path / "stderr"
    with log.open("wb") as errors, subprocess.Popen(command, cwd=ROOT, stderr=errors) as run:
        try:
            wait_until(lambda: WARNING in log.read_text(), "the run warns")
            assert run.poll() is None
            os.kill(run.pid, signal.SIGTERM)
            assert run.wait() == 0
        finally:
            run.kill()
    assert REJECTED not in log.read_text()
