"""``python -m oriel.sql.query_process``: a process that runs queries of ``POST /v1/sql``.

The process writes an empty line when it is ready. The service then writes one JSON line per query
to its standard input. For each query, the process writes a JSON line and the body of the response.
The service kills it if the time is over or if the client has disconnected.
"""

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import duckdb
import orjson

from oriel.sql.errors import InvalidQuery, QueryLimit
from oriel.sql.queries import Limits, Result, StoreQueries, open_queries, store_tables
from oriel.sql.rendering import arrow_stream, csv_lines, json_lines
from oriel.storage import StorageError, UnknownStore, end_with_parent

#: Codes of the problems of the service, by the error. Any other error is of a table.
_CODES: Mapping[type[Exception], str] = {
    InvalidQuery: "invalid-sql", QueryLimit: "sql-limit", UnknownStore: "unknown-store",
}  # fmt: skip
#: Bytes of memory for Python and Arrow, in addition to the memory of DuckDB.
_OTHER_MEMORY = 512 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run queries until the input ends. Only the service calls this."""
    parser = argparse.ArgumentParser(prog="python -m oriel.sql.query_process", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    options = parser.parse_args(arguments)
    end_with_parent(options.parent_pid)
    # Nothing else can write to the standard output, which has the responses.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.nice(10)
    _limit_memory(options.memory)
    output.write(b"\n")
    output.flush()
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        head, body = _respond(options.data, request, Limits(**request["limits"]))
        output.write(orjson.dumps({**head, "bytes": len(body)}) + b"\n" + body)
        output.flush()
    return 0


def _limit_memory(memory: int) -> None:
    """Limit the memory. If the system needs memory, it ends this process first."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Only Linux has these files.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
        most = pages * resource.getpagesize() + memory + _OTHER_MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _respond(data: Path, request: Mapping[str, Any], limits: Limits) -> tuple[Any, bytes]:
    """Return the head and the body of the response."""
    statement, patterns = request["query"], request["stores"]
    try:
        tables = {
            name: path
            for name, path in store_tables(data).items()
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        with open_queries(tables, statement, limits) as queries:
            result = queries.run(statement)
            body = _BODIES[request["format"]](result, queries)
            head = {
                "rows": len(result.rows),
                "truncated": result.is_cut,
                "positions": queries.positions,
            }
        if len(body) > request["body_bytes"]:
            message = (
                f"the response has more than {request['body_bytes']:,} bytes. Select fewer rows or "
                "columns"
            )
            raise QueryLimit(message)
    except (StorageError, OSError) as error:
        code = _CODES.get(type(error), "table-damaged")
        return {"problem": code, "detail": f"query: {error}."}, b""
    except (MemoryError, duckdb.Error) as error:
        # Memory can be full in any place.
        return {"problem": "sql-limit", "detail": f"query: {type(error).__name__}"}, b""
    return head, body


def _json(result: Result, queries: StoreQueries) -> bytes:
    columns = [
        {"name": name, "type": each}
        for name, each in zip(result.rows.column_names, result.types, strict=True)
    ]
    rows = ",".join(line.rstrip("\n") for line in json_lines(result.rows))
    return (
        f'{{"positions":{json.dumps(queries.positions)},"columns":{json.dumps(columns)},"rows":[{rows}],'
        f'"truncated":{json.dumps(result.is_cut)}}}'
    ).encode()


_BODIES: Mapping[str, Callable[[Result, StoreQueries], bytes]] = {
    "application/json": _json,
    "application/x-ndjson": lambda result, _: "".join(json_lines(result.rows)).encode(),
    "text/csv": lambda result, _: "".join(csv_lines(result.rows)).encode(),
    "application/vnd.apache.arrow.stream": lambda result, _: arrow_stream(result.rows),
}


if __name__ == "__main__":
    sys.exit(main())
