"""The request that a connection reads, with its limits of bytes and times.

    between ---bytes--> header ---> body ---> between
                           |          |
                           +----------+---> rejected: the connection is closed

A connection reads thousands of requests per second, so one object serves all of its states.
"""

from collections.abc import Sequence
from typing import Literal

from oriel.app.contract import (
    ApiError,
    BodyTooLarge,
    HeaderTooLarge,
    Limits,
    ProblemResponse,
    RequestTimeout,
    UrlTooLong,
)


class RequestReading:
    """The state of a connection that reads requests.

    Attributes:
        state: The part of the request that is being read.
        since: When the last request began, or was responded to, in seconds of the event loop.
        rejection: In the state ``rejected``, the response.
    """

    __slots__ = ("_limits", "_size", "_trailer_size", "rejection", "since", "state")

    def __init__(self, limits: Limits, now: float) -> None:
        self.state: Literal["between", "header", "body", "rejected"] = "between"
        self.since = now
        self.rejection: ProblemResponse | None = None
        self._limits = limits
        #: Bytes of the header or of the body.
        self._size = 0
        #: Bytes after the last piece of a body, for example trailer fields, which the parser keeps.
        self._trailer_size = 0

    def begin(self, now: float, size: int = 0) -> None:
        """Begin the header of a request. ``size`` is the number of its bytes so far."""
        self.state, self.since, self._size = "header", now, size

    def begin_body(self) -> None:
        """Begin the body, after the header is complete."""
        self.state, self._size, self._trailer_size = "body", 0, 0

    def reject(self, response: ProblemResponse) -> None:
        """Reject the request with this response."""
        self.state, self.rejection = "rejected", response

    def count(self, size: int) -> None:
        """Count bytes before the parser reads them, because it joins the bytes of a header."""
        if self.state == "header":
            self._size += size
        else:
            self._trailer_size += size

    def count_body(self, size: int) -> ApiError | None:
        """Count a piece of the body. Return an error if the body exceeds its limit."""
        self._size += size
        self._trailer_size = 0
        if self._size <= self._limits.body_bytes:
            return None
        return BodyTooLarge(
            f"--limit-body-bytes: the body must have at most {self._limits.body_bytes} "
            "bytes. Send a smaller body."
        )

    def header_problem(self, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> ApiError | None:
        """Return an error if the URL or the fields of a complete header exceed a limit."""
        limits = self._limits
        if len(url) > limits.url_bytes:
            return self._url_too_long()
        # Count the fields only if the bytes could exceed the limit.
        if self._size <= limits.header_bytes:
            return None
        size = sum(len(name) + len(value) for name, value in fields)
        return self._header_too_large() if size > limits.header_bytes else None

    def problem(self, url: bytes) -> ApiError | None:
        """Return an error if an incomplete header or a trailer exceeds its limit."""
        limits = self._limits
        if self.state == "header" and len(url) > limits.url_bytes:
            return self._url_too_long()
        size = {"header": self._size, "body": self._trailer_size}.get(self.state, 0)
        return self._header_too_large() if size > limits.header_bytes + limits.url_bytes else None

    def lateness(self, now: float) -> ApiError | None:
        """Return an error if the header or the body is past its deadline."""
        seconds, limits = now - self.since, self._limits
        if self.state == "header" and seconds > limits.header_seconds:
            return RequestTimeout(
                "--limit-header-seconds: the header must arrive within "
                f"{limits.header_seconds} s. Send the request again."
            )
        if self.state == "body" and seconds > limits.header_seconds + limits.body_seconds:
            return RequestTimeout(
                "--limit-body-seconds: the body must arrive within "
                f"{limits.body_seconds} s. Send the request again."
            )
        return None

    def _url_too_long(self) -> ApiError:
        return UrlTooLong(
            f"--limit-url-bytes: path and query must have at most {self._limits.url_bytes} "
            "bytes. Send a shorter URL."
        )

    def _header_too_large(self) -> ApiError:
        return HeaderTooLarge(
            "--limit-header-bytes: the header fields must have at most "
            f"{self._limits.header_bytes} bytes. Send fewer or shorter fields."
        )
