"""Tests of the states of a connection that reads requests: each has its limits."""

from oriel.app.contract import BodyTooLarge, HeaderTooLarge, Limits, RequestTimeout, UrlTooLong
from oriel.app.guards.reading import RequestReading

_LIMITS = Limits(url_bytes=10, header_bytes=20, body_bytes=100, header_seconds=5, body_seconds=30)


def test_each_state_has_its_deadline() -> None:
    """Header and body have deadlines after the begin of the request. Other states do not."""
    reading = RequestReading(_LIMITS, 0.0)
    assert reading.lateness(1_000.0) is None
    reading.begin(100.0)
    assert reading.lateness(105.0) is None
    assert "--limit-header-seconds" in str(reading.lateness(105.1))
    reading.begin_body()
    assert reading.lateness(135.0) is None
    late = reading.lateness(135.1)
    assert isinstance(late, RequestTimeout)
    assert "--limit-body-seconds" in str(late)
    reading.state = "between"
    assert reading.lateness(1_000.0) is None


def test_each_state_has_its_limit_of_bytes() -> None:
    """A header is limited before and when it is complete, a body by its pieces, and a trailer."""
    reading = RequestReading(_LIMITS, 0.0)
    reading.begin(0.0)
    reading.count(30)
    assert reading.problem(b"/short") is None
    assert isinstance(reading.problem(b"/" * 11), UrlTooLong)
    reading.count(1)
    assert isinstance(reading.problem(b"/short"), HeaderTooLarge)
    # Only the fields of a complete header count, without the bytes between them.
    assert reading.header_problem(b"/short", [(b"a" * 10, b"b" * 10)]) is None
    assert isinstance(reading.header_problem(b"/short", [(b"a" * 10, b"b" * 11)]), HeaderTooLarge)
    assert isinstance(reading.header_problem(b"/" * 11, []), UrlTooLong)
    reading.begin_body()
    assert reading.problem(b"/" * 11) is None
    assert reading.count_body(100) is None
    reading.count(30)
    assert reading.problem(b"") is None
    reading.count(1)
    assert isinstance(reading.problem(b""), HeaderTooLarge)
    assert isinstance(reading.count_body(1), BodyTooLarge)
    assert reading.problem(b"") is None
