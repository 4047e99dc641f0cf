"""The webhook of the alert: each final window is told once, whatever fails on the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from examples import webhook
from examples.webhook import Alert, Delivered, Undelivered, tell_new

ALERT = Alert("s", "n", 4, "http://hook/alerts")
Handler = Callable[[httpx.Request], httpx.Response]


def _window(start_ms: int, n: int, *, final: bool = True) -> dict[str, Any]:
    return {"key": "d", "window_start_ms": start_ms, "window_end_ms": start_ms, "n": n,
            "final": final}  # fmt: skip


class Sides:
    """A service with windows by version, and a webhook that answers as told."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.versions: list[list[dict[str, Any]]] = []
        self.answers: list[int] = []
        self.heard: list[str] = []
        #: Below it the log no longer says what changed.
        self.oldest = 0

    def tell(self) -> int:
        """Tell the webhook of what is new, as a process that was just started."""
        with (
            httpx.Client(
                transport=httpx.MockTransport(self._serve), base_url="http://s"
            ) as service,
            httpx.Client(transport=httpx.MockTransport(self._hear)) as hook,
        ):
            return tell_new(service, hook, ALERT, Delivered.read(self.state))

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

    def _hear(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0) if self.answers else 204
        if answer < 400:
            assert orjson.loads(request.content)["store"] == "s"
            self.heard.append(request.headers["Idempotency-Key"])
        if answer == 0:
            message = "the answer was lost"
            raise httpx.ReadError(message)
        return httpx.Response(answer)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sides:
    """Both sides; pauses between attempts are none."""
    monkeypatch.setattr(webhook, "_PAUSES_SECONDS", (0.0,))
    return Sides(tmp_path / "sent.json")


def test_final_windows_below_the_threshold_are_told_once(sides: Sides) -> None:
    """Others are not; and nothing is told again by the next start."""
    sides.versions = [[_window(1, 3), _window(2, 4)], [_window(3, 0, final=False)]]
    assert sides.tell() == 1
    sides.versions.append([_window(3, 1)])
    assert sides.tell() == 1
    assert sides.tell() == 0
    assert sides.heard == ["s/d/1", "s/d/3"]


def test_a_request_that_fails_is_repeated(sides: Sides) -> None:
    """With the same key, so that a receiver that heard it knows it again."""
    sides.versions = [[_window(1, 3)]]
    sides.answers = [503, 429, 0, 200]
    assert sides.tell() == 1
    assert sides.heard == ["s/d/1", "s/d/1"]
    assert sides.tell() == 0


def test_after_a_failure_it_goes_on_where_it_was(sides: Sides) -> None:
    """What was told before the webhook failed for good is not told again."""
    sides.versions = [[_window(1, 3), _window(2, 3)], [_window(3, 3)]]
    sides.answers = [204, 400]
    with pytest.raises(Undelivered, match=r"s/d/2: it responded with 400"):
        sides.tell()
    sides.answers = [204, *[500] * 10]
    with pytest.raises(Undelivered, match=r"s/d/3: it responded with 500"):
        sides.tell()
    assert sides.tell() == 1
    assert sides.heard == ["s/d/1", "s/d/2", "s/d/3"]


def test_where_the_log_was_cleaned_up_all_windows_are_looked_at(sides: Sides) -> None:
    """Those that are told again have their keys; from then on it goes by changes."""
    sides.versions = [[_window(1, 3)]]
    sides.tell()
    sides.versions += [[_window(2, 3)], [_window(3, 9)]]
    sides.oldest = 2
    assert sides.tell() == 2
    assert sides.heard == ["s/d/1", "s/d/1", "s/d/2"]
    assert sides.tell() == 0


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
    """What it is told of the alert reaches the one function that does the work."""

    def tell(
        _service: httpx.Client, _hook: httpx.Client, alert: Alert, delivered: Delivered
    ) -> int:
        assert (alert, delivered.version) == (ALERT, 0)
        if failure is not None:
            raise failure
        return 1

    monkeypatch.setattr(webhook, "tell_new", tell)
    options = ["--service", "http://s", "--store", "s", "--column", "n", "--below", "4"]
    options += ["--to", ALERT.to, "--state", str(tmp_path / "sent.json"), "--once"]
    assert webhook.main(options) == code
    assert said in capsys.readouterr().err
