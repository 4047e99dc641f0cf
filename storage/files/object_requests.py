"""Requests to an object store, with retries during outages and errors of ``Files``.

An object store restarts in tens of seconds, and a pipeline that runs for months must survive that.
So a request that gets no response, or a response that the store is busy, is sent again for a
minute. One log line names the store and the object that the process waits for.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from oriel.storage.console import say
from oriel.storage.errors import ObjectStoreFailed
from oriel.storage.files.paths import bucket_and_key, uri

if TYPE_CHECKING:
    from obstore.store import S3Store

_Result = TypeVar("_Result")

#: Seconds for which a request is retried, from its first failure.
RETRY_SECONDS = 60.0
#: The same for the first request of a command, because a person waits for it.
FIRST_RETRY_SECONDS = 5.0
#: Seconds without a byte after which a request has failed. A part of an upload is one request.
IDLE_SECONDS = 20.0
#: No limit in practice: ``IDLE_SECONDS`` bounds a request, so that its size does not matter.
_WHOLE_REQUEST = timedelta(hours=1)
_CONNECT = timedelta(seconds=5)
#: The client retries single failures quickly. ``ObjectRequests`` handles longer outages.
_CLIENT_RETRIES = 2
_FIRST_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 2.0

_NO_BUCKET = "NoSuchBucket"
#: The client raises its own exceptions for these statuses, except for list requests.
_REFUSED = re.compile(r"status code: (?:401|403)\b")
#: No response, a broken one, or a busy or failing store. 501 is excluded: a retry cannot succeed.
_UNAVAILABLE = re.compile(r"HTTP error: |status code: (?:408|429|5(?!01)\d\d)\b")


class _Unavailable(Exception):
    """A request got no response and can be retried."""


class _Outage(NamedTuple):
    """An object store that does not respond.

    Attributes:
        since: The start of the outage, in seconds of ``time.monotonic()``.
        request: The description of the request without a response.
    """

    since: float
    request: str


#: The outages that this process sees, by endpoint and bucket.
_outages: dict[tuple[str, str], _Outage] = {}


def waiting_for() -> str | None:
    """Return which object store does not respond to this process, None if all do."""
    # Copy the outages, because other threads change them.
    for (endpoint, _), outage in _outages.copy().items():
        seconds = time.monotonic() - outage.since
        return f"object store {endpoint}: no response for {seconds:.0f} s to {outage.request}"
    return None


class ObjectRequests:
    """The requests of one process, by bucket."""

    def __init__(self) -> None:
        self._stores: dict[str, S3Store] = {}

    def send(
        self,
        action: str,
        path: Path,
        request: Callable[["S3Store", str], _Result],
        *,
        is_first: bool = False,
    ) -> _Result:
        """Return the result of ``request`` for the store and the key of ``path``.

        Args:
            action: A verb for messages.
            path: The object.
            request: A function that is safe to repeat. It is retried while the store is
                unavailable.
            is_first: A person waits for the result, so retries end early.

        Raises:
            FileNotFoundError: The object does not exist.
            FileExistsError: The object already exists.
            ObjectStoreFailed: The store rejects the request, or is unavailable until retries end.
        """
        bucket, key = bucket_and_key(path)
        store, place = self._store(bucket), (_endpoint(), bucket)
        retry_seconds = FIRST_RETRY_SECONDS if is_first else RETRY_SECONDS
        failed_at, pause = None, _FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                with _errors_of_files(path):
                    result = request(store, key)
            except _Unavailable as error:
                now = time.monotonic()
                if failed_at is None:
                    # The time without a response also counts, because a person waits.
                    failed_at = began if is_first else now
                if now - failed_at >= retry_seconds:
                    raise _failed(path, error.__cause__ or error) from error.__cause__
                outage = _Outage(began, f"the request to {action} {uri(path)} ({error})")
                # Log each outage once, not once per thread.
                if not is_first and _outages.setdefault(place, outage) is outage:
                    _report(outage, retry_seconds)
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            else:
                if _outages and (ended := _outages.pop(place, None)) is not None:
                    _report_end(ended)
                return result

    def _store(self, bucket: str) -> "S3Store":
        from obstore.store import S3Store  # noqa: PLC0415 - only where there are objects

        store = self._stores.get(bucket)
        if store is None:
            store = self._stores[bucket] = S3Store(
                bucket,
                client_options={
                    "timeout": _WHOLE_REQUEST,
                    "read_timeout": timedelta(seconds=IDLE_SECONDS),
                    "connect_timeout": _CONNECT,
                    # Options that are given here replace those of the environment.
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"},
                },
                # After this time without a response, the client does not retry.
                retry_config={"max_retries": _CLIENT_RETRIES, "retry_timeout": _CONNECT},
            )
        return store


def _report(outage: _Outage, retry_seconds: float) -> None:
    line = (
        f"object store {_endpoint()}: no response to {outage.request}. Trying again for "
        f"{retry_seconds:.0f} s. Check the object store and the network"
    )
    say("object-store-unavailable", line, level="warning", request=outage.request)


def _report_end(outage: _Outage) -> None:
    seconds = time.monotonic() - outage.since
    line = f"object store {_endpoint()}: responds again after {seconds:.0f} s"
    say("object-store-available", line)


def object_not_found(path: Path) -> FileNotFoundError:
    """Return the error of a read of an object that does not exist."""
    return FileNotFoundError(2, "the object does not exist", uri(path))


@contextmanager
def _errors_of_files(path: Path) -> Iterator[None]:
    """Translate errors of the client to errors of ``Files`` with one-line messages."""
    from obstore import exceptions  # noqa: PLC0415

    try:
        yield
    except FileNotFoundError as error:
        if _NO_BUCKET in str(error):
            message = (
                f"the bucket {bucket_and_key(path)[0]!r} does not exist. Create it, or use "
                "another bucket"
            )
            raise ObjectStoreFailed(message) from error
        raise object_not_found(path) from error
    except exceptions.AlreadyExistsError as error:
        raise FileExistsError(17, "the object already exists", uri(path)) from error
    except exceptions.BaseError as error:
        line = str(error).partition("\n")[0]
        if _UNAVAILABLE.search(line):
            # Keep only the reason, not the durations of the attempts.
            raise _Unavailable(line.rpartition(" - ")[2][:200]) from error
        raise _failed(path, error) from error


def _failed(path: Path, error: BaseException) -> ObjectStoreFailed:
    """Return the error that matches the response of the object store."""
    text = str(error)
    bucket = bucket_and_key(path)[0]
    if _NO_BUCKET in text:
        return ObjectStoreFailed(
            f"the bucket {bucket!r} does not exist. Create it, or use another bucket"
        )
    if _REFUSED.search(text.partition("\n")[0]):
        return ObjectStoreFailed(
            f"the object store refuses access to {uri(path)}. Check AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION, and the permissions of this access key"
        )
    return ObjectStoreFailed(
        f"the object store at {_endpoint()} cannot be used for {uri(path)} "
        f"({text.partition(chr(10))[0][:200]}). Check AWS_ENDPOINT_URL, AWS_ALLOW_HTTP for http, "
        "and the network, and start again. Nothing is lost"
    )


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL", "AWS")
