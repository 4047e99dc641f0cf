"""The webhook of the alert example gets each final window once, also after failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from examples import webhook
from examples.webhook import Alert, Delivered, Undelivered, send_alerts

ALERT = Alert("s", "n", 4, "http://hook/alerts")
Handler = Callable[[httpx.Request], httpx.Response]


def _window(start_ms: int, n: int, *, final: bool = True) -> dict[str, Any]:
    return {"key": "d", "window_start_ms": start_ms, "window_end_ms": start_ms, "n": n,
            "final": final}  # fmt: skip


class Sides:
    """A service with windows by version, and a webhook with given responses."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.versions: list[list[dict[str, Any]]] = []
        self.responses: list[int] = []
        self.received: list[str] = []
        #: The oldest version whose changes the log of the table has.
        self.oldest = 0

    def send(self) -> int:
        """Send new alerts, as a process does after its start."""
        with (
            httpx.Client(
                transport=httpx.MockTransport(self._serve), base_url="http://s"
            ) as service,
            httpx.Client(transport=httpx.MockTransport(self._receive)) as hook,
        ):
            return send_alerts(service, hook, ALERT, Delivered.read(self.state))

    def _serve(self, request: httpx.Request) -> httpx.Response:
        position = {"version": len(self.versions)}
        if request.url.path.endswith("/all"):
            rows = [row for version in self.versions for row in version]
            body = {"windows": rows, "next_cursor": None, "position": position}
            return httpx.Response(200, json=body)
        since = int(request.url.params["since_version"])
        if since < self.oldest:
            return httpx.Response(410)
        # A page for each version.
        page = int(request.url.params.get("cursor", since))
        rows = self.versions[page] if page < len(self.versions) else []
        more = page + 1 < len(self.versions)
        return httpx.Response(200, json={
            "changes": [{"row": row} for row in rows], "position": position,
            "through_version": min(page + 1, len(self.versions)),
            "next_cursor": str(page + 1) if more else None,
        })  # fmt: skip

    def _receive(self, request: httpx.Request) -> httpx.Response:
        status = self.responses.pop(0) if self.responses else 204
        if status < 400:
            assert orjson.loads(request.content)["store"] == "s"
            self.received.append(request.headers["Idempotency-Key"])
        if status == 0:
            message = "the response was lost"
            raise httpx.ReadError(message)
        return httpx.Response(status)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sides:
    """Return the service and the webhook, without pauses between attempts."""
    monkeypatch.setattr(webhook, "_PAUSES_SECONDS", (0.0,))
    return Sides(tmp_path / "sent.json")


def test_each_final_window_below_the_threshold_sends_one_alert(sides: Sides) -> None:
    """Other windows send no alert, and the next start sends no alert again."""
    sides.versions = [[_window(1, 3), _window(2, 4)], [_window(3, 0, final=False)]]
    assert sides.send() == 1
    sides.versions.append([_window(3, 1)])
    assert sides.send() == 1
    assert sides.send() == 0
    assert sides.received == ["s/d/1", "s/d/3"]


def test_a_request_that_fails_is_repeated(sides: Sides) -> None:
    """The request has the same key, so that a receiver can recognize it."""
    sides.versions = [[_window(1, 3)]]
    sides.responses = [503, 429, 0, 200]
    assert sides.send() == 1
    assert sides.received == ["s/d/1", "s/d/1"]
    assert sides.send() == 0


def test_a_start_after_a_failure_resumes(sides: Sides) -> None:
    """After a permanent failure, the next start sends only the other alerts."""
    sides.versions = [[_window(1, 3), _window(2, 3)], [_window(3, 3)]]
    sides.responses = [204, 400]
    with pytest.raises(Undelivered, match=r"s/d/2: it responded with 400"):
        sides.send()
    sides.responses = [204, *[500] * 10]
    with pytest.raises(Undelivered, match=r"s/d/3: it responded with 500"):
        sides.send()
    assert sides.send() == 1
    assert sides.received == ["s/d/1", "s/d/2", "s/d/3"]


def test_all_windows_are_read_after_the_log_was_cleaned_up(sides: Sides) -> None:
    """Repeated alerts have the same keys, and later runs read changes again."""
    sides.versions = [[_window(1, 3)]]
    sides.send()
    sides.versions += [[_window(2, 3)], [_window(3, 9)]]
    sides.oldest = 2
    assert sides.send() == 2
    assert sides.received == ["s/d/1", "s/d/1", "s/d/2"]
    assert sides.send() == 0


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (None, 0, ""),
        (
            Undelivered("the webhook did not accept the alert s/d/1: it responded with 400"),
            1,
            "s/d/1",
        ),
        (httpx.ConnectError("refused"), 1, "cannot read from http://s: refused"),
    ],
)
def test_the_command_ends_with_a_line_and_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    failure: Exception | None, code: int, said: str,
) -> None:  # fmt: skip
    """The options define the alert, and a failure has a message and an exit code."""

    def send(
        _service: httpx.Client, _hook: httpx.Client, alert: Alert, delivered: Delivered
    ) -> int:
        assert (alert, delivered.version) == (ALERT, 0)
        if failure is not None:
            raise failure
        return 1

    monkeypatch.setattr(webhook, "send_alerts", send)
    options = ["--service", "http://s", "--store", "s", "--column", "n", "--below", "4"]
    options += ["--to", ALERT.to, "--state", str(tmp_path / "sent.json"), "--once"]
    assert webhook.main(options) == code
    assert said in capsys.readouterr().err
