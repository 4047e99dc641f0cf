"""The flights as lines of an event log, made column by column."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.demo.records.flight_data import ORIGINS

TOPIC = "flights"


def to_lines(records: pa.Table) -> pa.Array:
    """Return each record as its line of JSON, newline included.

    The texts of the flights hold no character that JSON escapes.
    """
    parts = [
        '{"key": ', _text(records["key"]),
        ', "value": {"carrier": ', _text(records["carrier"]),
        ', "flight": ', records["flight"].cast(pa.string()),
        ', "tailnum": ', _text(records["tailnum"]),
        ', "dest": ', _text(records["dest"]),
        ', "dep_delay": ', pc.fill_null(records["dep_delay"].cast(pa.string()), "null"),
        ', "distance": ', records["distance"].cast(pa.string()),
        '}, "timestamp_ms": ', records["timestamp_ms"].cast(pa.string()),
        "}\n",
    ]  # fmt: skip
    columns = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, "").combine_chunks()


def create_partitions(root: Path) -> None:
    """Create the empty files of all partitions."""
    directory = root / TOPIC
    directory.mkdir(parents=True)
    for number in range(len(ORIGINS)):
        (directory / f"{number}.jsonl").touch()


def append_lines(root: Path, partition: np.ndarray, lines: pa.Array) -> None:
    """Append lines to the files of their partitions, each partition in the given order."""
    directory = root / TOPIC
    directory.mkdir(parents=True, exist_ok=True)
    for number in np.unique(partition).tolist():
        text = "".join(lines.filter(pa.array(partition == number)).to_pylist())
        with (directory / f"{number}.jsonl").open("a", encoding="utf-8") as file:
            file.write(text)


def log_sizes(root: Path) -> dict[str, int]:
    """Return the bytes of each partition, as a position names them."""
    return {path.stem: path.stat().st_size for path in (root / TOPIC).glob("*.jsonl")}


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.binary_join_element_wise('"', column, '"', ""), "null")
