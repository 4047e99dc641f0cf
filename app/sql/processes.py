"""Run SQL queries in processes. The number of queries is limited."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

from oriel.app.contract import (
    SQL_RESPONSE_BYTES_MAX,
    InvalidSql,
    Limits,
    MediaType,
    SqlBusy,
    SqlFailed,
    SqlLimit,
)
from oriel.storage import UnknownStore, errors, say

#: The errors of the process, by their codes.
_ERRORS: Mapping[str, type[Exception]] = {
    "invalid-sql": InvalidSql,
    "sql-limit": SqlLimit,
    "unknown-store": UnknownStore,
    "table-damaged": errors.CorruptLog,
}
#: Seconds after the time limit in which the process can end by itself, with a message of DuckDB.
_END_SECONDS = 1.0
#: A process ends after this number of queries, because its memory can grow.
_QUERIES_MAX = 100

T = TypeVar("T")


class SqlResponse(NamedTuple):
    """A finished response.

    Attributes:
        body: The body in the requested format.
        rows: The number of rows.
        is_cut: True if the query has more rows.
        positions: The position of each store of the query.
    """

    body: bytes
    rows: int
    is_cut: bool
    positions: Mapping[str, Any]


class SqlProcesses:
    """The processes of one worker. Only the event loop uses it.

    A process starts in about a second, so one process waits for the next query. A process ends if
    its query exceeds a limit, if the client disconnects, and after some queries.
    """

    def __init__(self, data: Path, limits: Limits) -> None:
        """Set the limits. The first query starts a process, after any fork."""
        self._data = data
        self._limits = limits
        self._running = 0
        self._idle: _QueryProcess | None = None
        self._is_closed = False

    async def run(self, query: str, stores: Sequence[str], media: MediaType) -> SqlResponse:
        """Run a query. If the caller is canceled, the query ends.

        Args:
            query: The statement.
            stores: The names of the stores that it can read, in which ``*`` matches any text.
            media: The format of the response.

        Raises:
            SqlBusy: The limit of queries is reached.
            InvalidSql: The statement is not valid.
            SqlLimit: The query exceeds a limit.
            UnknownStore: A table of the statement is not a store.
            CorruptLog: A table cannot be read.
            SqlFailed: The process ended without a result.
        """
        most = self._limits.sql_queries
        if self._running >= most:
            message = (
                f"--limit-sql-queries: the worker already runs {most} SQL queries. Send the query "
                "again later."
            )
            raise SqlBusy(message)
        self._running += 1
        process = self._next_process()
        try:
            head, body = await self._exchange(process, self._request(query, stores, media))
        finally:
            self._running -= 1
            if process.is_usable and self._idle is None and not self._is_closed:
                self._idle = process
            else:
                # If the process has much memory, its end needs some ms.
                await asyncio.to_thread(process.end)
        if "problem" in head:
            raise _ERRORS[head["problem"]](head["detail"])
        return SqlResponse(body, head["rows"], head["truncated"], head["positions"])

    def close(self) -> None:
        """End the process that waits for a query."""
        self._is_closed = True
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.end()

    def _next_process(self) -> "_QueryProcess":
        idle, self._idle = self._idle, None
        if idle is not None:
            if idle.is_running:
                return idle
            idle.end()
        return _QueryProcess(self._data, self._limits.sql_memory_bytes)

    async def _exchange(self, process: "_QueryProcess", request: bytes) -> tuple[Any, bytes]:
        """Return the head and the body of the response of a process."""
        seconds = self._limits.sql_seconds
        await process.wait_until_ready()
        try:
            async with asyncio.timeout(seconds + _END_SECONDS):
                head, body = await process.respond(request)
        except TimeoutError as error:
            message = (
                f"--limit-sql-seconds: the query must end within {seconds} s. Add conditions, or "
                "select fewer rows."
            )
            raise SqlLimit(message) from error
        if not head:
            code = process.end()
            say("sql-failed", f"SQL query failed: exit_code={code}", level="error", exit_code=code)
            message = (
                f"the process of the query ended with exit code {code}. Send the query again, or "
                "select less."
            )
            raise SqlFailed(message)
        return head, body

    def _request(self, query: str, stores: Sequence[str], media: MediaType) -> bytes:
        limits = self._limits
        request = {
            "query": query,
            "stores": stores,
            "format": media.value,
            "body_bytes": SQL_RESPONSE_BYTES_MAX,
            "limits": {
                "seconds": limits.sql_seconds,
                "rows": limits.sql_rows,
                "memory": limits.sql_memory_bytes,
                "temporary": limits.sql_temporary_bytes,
                "result": SQL_RESPONSE_BYTES_MAX,
            },
        }
        return orjson.dumps(request) + b"\n"


class _QueryProcess:
    """A process of ``oriel.sql.query_process``.

    Threads wait for it, so that it does not belong to an event loop.
    """

    def __init__(self, data: Path, memory_bytes: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - only this program and its data directory
            [
                sys.executable, "-m", "oriel.sql.query_process",
                "--data", str(data), "--memory", str(memory_bytes),
                "--parent-pid", str(os.getpid()),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._is_ready = False
        self._queries = 0
        #: Whether the process can run another query.
        self.is_usable = False

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def wait_until_ready(self) -> None:
        """Wait until the process has imported its packages."""
        if not self._is_ready:
            await self._in_thread(self._output.readline)
            self._is_ready = True

    async def respond(self, request: bytes) -> tuple[Any, bytes]:
        """Return the head and the body of a response, or None if the process has ended."""
        self.is_usable = False
        self._queries += 1

        def exchange() -> tuple[Any, bytes]:
            try:
                self._input.write(request)
                self._input.flush()
            except BrokenPipeError:
                return None, b""
            head = orjson.loads(self._output.readline() or b"null")
            return head, b"" if head is None else self._output.read(head["bytes"])

        head, body = await self._in_thread(exchange)
        # After a limit, its memory can be full.
        problem = "sql-limit" if head is None else head.get("problem")
        self.is_usable = problem != "sql-limit" and self._queries < _QUERIES_MAX
        return head, body

    def end(self) -> int:
        """Kill the process if it runs, free its pipes, and return its exit code."""
        self._process.kill()
        self._process.communicate()
        return self._process.returncode

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Run a function that reads the pipes. If the caller is canceled, kill the process."""
        work = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            return await asyncio.shield(work)
        finally:
            if not work.done():
                self._process.kill()
                await asyncio.wait([work])
