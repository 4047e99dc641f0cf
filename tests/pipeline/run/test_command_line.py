"""The command line: each mistake is one clear line."""

import argparse
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from oriel.pipeline.arguments import run_parser
from oriel.pipeline.arguments.kafka import add_kafka_arguments
from oriel.pipeline.run.options import maintenance_settings
from oriel.pipeline.run_command import main, rebuild
from oriel.pipeline.spark import is_cluster
from oriel.storage import DataLayout, is_object
from oriel.storage.delta import Limits
from tests.storage.store_tables import StoreTable, make_definition

ROOT = Path(__file__).resolve().parents[3]
_CLUSTER_PAGE = ROOT / "docs" / "how-to" / "cluster.md"
TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder

builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_with_no_grace(10)
builder.stream("t", "v INT").group_by_key().windowed_by(windows).count().materialize("s")
topology = builder.build()
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--event-log", "x", "--kafka", "y"], "not allowed with"),
        ([], "one of the arguments"),
        (["--event-log", "x", "--trigger", "fast"], "'fast' is not a time like 200ms"),
        (["--event-log", "x", "--once", "--trigger", "1s"], "not allowed with"),
        (["--event-log", "x", "--once", "--standby"], "so omit --once and --explain"),
        (["--event-log", "x", "--cores", "0"], "'0' is not a positive whole number"),
        (["--event-log", "x", "--max-batch-bytes", "-5"], "not a positive whole number"),
        (["--event-log", "x", "--conf", "spark.x"], "'spark.x' is not a Spark option"),
        (["--event-log", "x", "--conf", "x=1"], "'x=1' is not a Spark option"),
        (["--event-log", "x", "--start", "latest"], "--start needs --kafka"),
        (["--event-log", "x", "--kafka-option", "a=b"], "--kafka-option needs --kafka"),
        (["--kafka", "x", "--start", "2026"], "'2026' is not a start. Use earliest, latest,"),
        (["--kafka", "x", "--on-data-loss", "skip"], "invalid choice: 'skip'"),
    ],
)
def test_wrong_options_are_explained(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    """A wrong option ends with code 2 and says what is wrong."""
    with pytest.raises(SystemExit) as ended:
        main(["topology.py", "--data", "d", *options])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_help_has_the_limits_of_compaction() -> None:
    """The parser does not import the limits, because the start of Java waits for the parser."""
    defaults = " ".join(run_parser().format_help().split())
    assert f"has this many. Default: {Limits().small_files}" in defaults
    options = run_parser().parse_args(["t.py", "--event-log", "x", "--data", "d"])
    assert maintenance_settings(options).limits == Limits()
    options = run_parser().parse_args(
        ["t.py", "--event-log", "x", "--data", "d", "--compact-files", "7"]
    )
    assert maintenance_settings(options).limits == Limits(small_files=7)


def _documented_commands() -> list[str]:
    commands = re.findall(r"^oriel run (?:.*\\\n)*.*$", _CLUSTER_PAGE.read_text(), re.MULTILINE)
    return [command.replace("\\\n", "") for command in commands]


def test_the_commands_for_clusters_are_understood() -> None:
    """The parser accepts each command in docs/how-to/cluster.md, for every cluster manager."""
    commands = [shlex.split(command)[2:] for command in _documented_commands()]
    parsed = [run_parser().parse_args(command) for command in commands]
    managers = [options.master.split(":")[0] for options in parsed]
    assert sorted(set(managers)) == ["k8s", "spark", "yarn"]
    assert [options.master for options in parsed if not is_cluster(options.master)] == []
    directories = [options.data for options in parsed]
    assert [one for one in directories if not (one.is_absolute() or is_object(one))] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "topology file "),
        ("topology = 3", "must define `topology = builder.build()`"),
        ("from oriel import StreamsBuilder\nStreamsBuilder().build()", "has no store"),
        (TOPOLOGY.replace("(10)", "(-10)"), "time difference must not be negative"),
    ],
)
def test_a_topology_file_that_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    """The line says what to fix, and the exit code is 1. No stack trace is printed."""
    path = tmp_path / "topology.py"
    if content is not None:
        path.write_text(content)
    assert main([str(path), "--event-log", str(tmp_path), "--data", str(tmp_path / "d")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("oriel run: ")
    assert said in message
    assert message.count("\n") == 1
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["", "../elsewhere", "/elsewhere", "a/b", "..", "_x"])
def test_the_error_for_a_wrong_name_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`--name` is one directory name. Another value is rejected before a directory is created."""
    path = tmp_path / "topology.py"
    path.write_text(TOPOLOGY)
    arguments = [str(path), "--event-log", str(tmp_path), "--data", str(tmp_path / "d")]
    assert main([*arguments, "--name", name]) == 1
    message = capsys.readouterr().err
    assert message.startswith(
        f"oriel run: --name must be a valid name of a pipeline, not {name!r}."
    )
    assert "store" not in message
    assert [each for each in tmp_path.iterdir() if each.name != "__pycache__"] == [path]


def test_a_file_whose_name_is_none_for_a_checkpoint_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default is the name of the topology file, and the message says how to set another."""
    path = tmp_path / "my topology.py"
    path.write_text(TOPOLOGY)
    assert main([str(path), "--event-log", str(tmp_path), "--data", str(tmp_path / "d")]) == 1
    message = capsys.readouterr().err
    assert "not 'my topology'. Use --name" in message


def test_data_that_is_a_file_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--data` names a directory. A file at this path is not changed."""
    path = tmp_path / "topology.py"
    path.write_text(TOPOLOGY)
    assert main([str(path), "--event-log", str(tmp_path), "--data", str(path)]) == 1
    assert f"--data {path} is a file. Name a directory" in capsys.readouterr().err
    assert path.read_text() == TOPOLOGY


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("group.id", "must be NAME=VALUE"),
        ("auto.offset.reset=latest", "option auto.offset.reset cannot be set: use --start"),
    ],
)
def test_an_option_of_kafkas_that_cannot_be_given_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, said: str
) -> None:
    """The error is reported before Spark starts, and nothing is created."""
    path = tmp_path / "topology.py"
    path.write_text(TOPOLOGY)
    arguments = [str(path), "--kafka", "x:1", "--data", str(tmp_path / "d")]
    assert main([*arguments, "--kafka-option", option]) == 1
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert [each for each in tmp_path.iterdir() if each.name != "__pycache__"] == [path]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T02:00:01+02:00", 1_000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_start_is_a_word_or_a_time(text: str, start: str | int) -> None:
    """A time without a zone is UTC."""
    parser = argparse.ArgumentParser()
    add_kafka_arguments(parser, int, int)
    assert parser.parse_args(["--start", text]).start == [(None, start)]
    assert parser.parse_args(["--start", f"t={text}"]).start == [("t", start)]


@pytest.mark.parametrize("topic", ["a/b", "..", "", "a b"])
def test_an_invalid_topic_is_an_error_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    """A topic is the name of a directory, so Kafka's rule also holds for the event log."""
    path = tmp_path / "topology.py"
    path.write_text(TOPOLOGY.replace('stream("t"', f'stream("{topic}"'))
    assert main([str(path), "--event-log", str(tmp_path), "--data", str(tmp_path / "d")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("oriel run: ")
    assert repr(topic) in message
    assert [each for each in tmp_path.iterdir() if each.name != "__pycache__"] == [path]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Return a data directory in which the pipeline "orders" wrote the store "s"."""
    data = tmp_path / "data"
    StoreTable(data, make_definition("s"))
    checkpoint = DataLayout(data).checkpoint("orders")
    checkpoint.mkdir(parents=True)
    content = orjson.dumps({"application": make_definition("s").application})
    (checkpoint / "application.json").write_bytes(content)
    (tmp_path / "log" / "t").mkdir(parents=True)
    (tmp_path / "renamed.py").write_text(TOPOLOGY)
    return data


def _files(directory: Path) -> set[Path]:
    """Return all files except the bytecode of topologies."""
    return {path for path in directory.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("command", [main, rebuild])
def test_another_name_for_a_pipeline_is_refused_before_it_writes(
    orders: Path, capsys: pytest.CaptureFixture[str], command: Callable[[list[str]], int]
) -> None:
    """The message has the option that continues the pipeline. Spark does not start."""
    before = _files(orders)
    store = [] if command is main else ["s"]
    topology = [*store, str(orders.parent / "renamed.py")]
    arguments = [*topology, "--event-log", str(orders.parent / "log"), "--data", str(orders)]
    assert command(arguments) == 1
    said = capsys.readouterr().err
    assert "store 's' belongs to the pipeline 'orders', but this is the pipeline 'renamed'" in said
    assert "--name orders" in said
    assert _files(orders) == before


def test_a_table_whose_checkpoint_is_missing_is_refused_before_anything_is_written(
    orders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No option helps, so the message names no option."""
    shutil.rmtree(DataLayout(orders).checkpoints)
    before = _files(orders)
    log = str(orders.parent / "log")
    topology = str(orders.parent / "renamed.py")
    assert main([topology, "--event-log", log, "--data", str(orders)]) == 1
    said = capsys.readouterr().err
    assert "Restore the checkpoint from a backup" in said
    assert "--name" not in said
    assert _files(orders) == before


@pytest.mark.parametrize("has_pipelines", [True, False])
def test_a_store_of_a_pipeline_that_never_ran_is_not_rebuilt(
    orders: Path, capsys: pytest.CaptureFixture[str], has_pipelines: bool
) -> None:
    """A mistyped --data is not created, and a topology of new stores names the pipelines."""
    topology = orders.parent / "other.py"
    topology.write_text(TOPOLOGY.replace('"s"', '"other"'))
    data = orders if has_pipelines else orders.parent / "mistyped"
    before = _files(orders.parent)
    log = str(orders.parent / "log")
    assert rebuild(["other", str(topology), "--event-log", log, "--data", str(data)]) == 1
    said = capsys.readouterr().err
    expected = (
        "has no pipeline 'other', only orders" if has_pipelines else "the pipeline has not run"
    )
    assert expected in said
    assert _files(orders.parent) == before
