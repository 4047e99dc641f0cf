"""Measure disk, memory and time for many keys: ``oriel bench keys --keys 1000000``.

For each kind of windows, ``oriel run --once`` reads an event log with one record per key. A second
run reads 6,000 more records of random keys, and starts with the state of all keys, which are open.

The figures are the disk of state, table and index per key, and the time of both runs from start to
end of the process. Also measured are the maximum memory of a process, and the time to build the
index.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peer_runs.cases import KINDS, STORE, topology
from benchmarks.peer_runs.processes import ORIEL_COMMAND, run_to_end
from oriel.storage import DataLayout
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory, build_generation

_KINDS = ("tumbling", "sliding", "sessions", "functions")
_START_MS = 1_600_000_000_000
_PARTITIONS = 2
_BLOCK = 1_000_000
_MORE = 6_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="oriel bench keys", description=__doc__)
    parser.add_argument(
        "--keys", type=int, default=1_000_000, help="number of keys. Default: 1,000,000"
    )
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=list(_KINDS))
    options = parser.parse_args(arguments)
    measured = {}
    for kind in options.kinds:
        with tempfile.TemporaryDirectory(prefix="oriel-bench-") as directory:
            measured[kind] = _measure(Path(directory), kind, options.keys)
    head = ["kind", *next(iter(measured.values()))]
    print("  ".join(head))
    for kind, figures in measured.items():
        values = [f"{value:,}".rjust(len(name)) for name, value in figures.items()]
        print("  ".join([kind.ljust(len(head[0])), *values]))
    print(json.dumps({"keys": options.keys, "kinds": measured}))


def _measure(directory: Path, kind: str, keys: int) -> dict[str, Any]:
    """Do both runs, build the index, and return the figures by name."""
    data, log = directory / "data", directory / "log"
    file = directory / "keys_topology.py"
    file.write_text(topology({STORE: KINDS[kind]}, "events"))
    _say(f"{kind}: writing {keys:,} records")
    _append(log / "events", np.arange(keys), 0)
    command = [*ORIEL_COMMAND, "run", str(file), "--event-log", str(log), "--data", str(data)]
    _say(f"{kind}: first run")
    first = run_to_end("oriel run", [*command, "--once"])
    layout = DataLayout(data)
    state = _size(layout.checkpoint("keys_topology") / "state" / STORE)
    table = _size(layout.table(STORE))
    random = np.random.default_rng(1)
    _append(log / "events", random.integers(0, keys, _MORE), 1_000)
    _say(f"{kind}: second run")
    second = run_to_end("oriel run", [*command, "--once"])
    _say(f"{kind}: building the index")
    began = time.perf_counter()
    generation = IndexDirectory(layout.index(STORE)).new_generation()
    build_generation(layout.table(STORE), DeltaLog(layout.table(STORE)).snapshot(), generation)
    index_seconds = time.perf_counter() - began
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "state_bytes_a_key": round(state / keys, 1),
        "table_bytes_a_key": round(table / keys, 1),
        "index_bytes_a_key": round(_size(generation) / keys, 1),
        "first_run_s": round(first.seconds, 1),
        "second_run_s": round(second.seconds, 1),
        "index_s": round(index_seconds, 1),
        "rss_mb": round(rss / 1000),
    }


def _append(topic: Path, keys: "np.ndarray[Any, np.dtype[np.int64]]", after_ms: int) -> None:
    """Append one record per key, in the order of ``keys``. One second has a million records."""
    topic.mkdir(parents=True, exist_ok=True)
    for begin in range(0, len(keys), _BLOCK):
        block = keys[begin : begin + _BLOCK]
        times = _START_MS + after_ms + (begin + np.arange(len(block))) // 1_000
        lines = pc.binary_join_element_wise(
            '{"key": "key-',
            pa.array(block).cast(pa.string()),
            '", "value": {"v": ',
            pa.array(block % 1000 / 10).cast(pa.string()),
            '}, "timestamp_ms": ',
            pa.array(times).cast(pa.string()),
            "}\n",
            "",
        )
        for partition in range(_PARTITIONS):
            of_partition = lines.filter(pa.array(block % _PARTITIONS == partition))
            with (topic / f"{partition}.jsonl").open("ab") as file:
                file.write(pc.binary_join(pa.array([of_partition.to_pylist()]), "")[0].as_buffer())


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _say(text: str) -> None:
    print(f"keys: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
