"""Send an alert to a webhook for each final window whose count is below a threshold.

    python -m examples.webhook --service http://127.0.0.1:8080 --store STORE --column COLUMN
        --below N --to https://... --state FILE [--once]

If a response is lost, HTTP does not show whether the webhook has read the request. So a client can
only promise at least one request. This program repeats a request until it gets a 2xx response, and
then writes the window to the state file. It sends an alert again, with the same
``Idempotency-Key``, in three cases:

- The process was killed before it wrote the state file.
- The response was lost.
- The process was stopped for so long that the log of the table no longer has the changes.

If the receiver remembers these keys, it handles each window exactly once.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

#: Pauses between attempts in seconds. Later attempts use the last pause.
_PAUSES_SECONDS = (0.1, 0.5, 2.0, 10.0)
_ATTEMPTS = 10
_POLL_SECONDS = 1.0
_PAGE = 1000


class Undelivered(Exception):
    """The webhook did not accept an alert. Start the program again to resume."""


@dataclass
class Delivered:
    """Delivered alerts: all windows up to ``version``, and the windows ``keys`` after it."""

    file: Path
    version: int = 0
    keys: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path) -> "Delivered":
        """Read the state file. Without a file, no alert was delivered."""
        if not file.exists():
            return cls(file)
        fields = orjson.loads(file.read_bytes())
        return cls(file, fields["version"], set(fields["keys"]))

    def note(self, key: str) -> None:
        """Write to the state file that the alert of one window was delivered."""
        self.keys.add(key)
        self._write()

    def advance(self, version: int) -> None:
        """Write to the state file that all alerts up to a version were delivered."""
        if version != self.version:
            self.version, self.keys = version, set()
            self._write()

    def _write(self) -> None:
        draft = self.file.with_suffix(".draft")
        draft.write_bytes(orjson.dumps({"version": self.version, "keys": sorted(self.keys)}))
        draft.replace(self.file)


@dataclass(frozen=True)
class Alert:
    """Send windows of ``store`` with ``column`` less than ``below`` to the URL ``to``."""

    store: str
    column: str
    below: float
    to: str


def send_alerts(
    service: httpx.Client, webhook: httpx.Client, alert: Alert, delivered: Delivered
) -> int:
    """Send alerts for all windows that became final since ``delivered``. Return their number.

    Raises:
        Undelivered: the webhook does not respond, or rejects an alert.
        httpx.HTTPError: the service does not respond.
    """
    number, version = 0, delivered.version
    for reached, windows in _final_windows(service, alert.store, delivered.version):
        version = reached
        for window in windows:
            key = f"{alert.store}/{window['key']}/{window['window_start_ms']}"
            if window[alert.column] < alert.below and key not in delivered.keys:
                _post(webhook, alert.to, key, {"store": alert.store, "window": window})
                delivered.note(key)
                number += 1
    delivered.advance(version)
    return number


def _final_windows(
    service: httpx.Client, store: str, since: int
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield pages of final windows, each with the version that the pages up to it include."""
    path, parameters = f"/v1/stores/{store}/changes", {"since_version": since, "limit": _PAGE}
    answer = service.get(path, params=parameters)
    if answer.status_code == httpx.codes.GONE:
        # The log of the table no longer has these changes, so read all windows.
        path, parameters = f"/v1/stores/{store}/all", {"limit": _PAGE}
        answer = service.get(path, params=parameters)
    first: int | None = None
    while True:
        body = answer.raise_for_status().json()
        # A scan can continue in a newer version, so use the version of its first page.
        first = body["position"]["version"] if first is None else first
        changed = (change["row"] for change in body.get("changes", ()))
        windows = [row for row in (*changed, *body.get("windows", ())) if row and row["final"]]
        yield body.get("through_version", first), windows
        if body["next_cursor"] is None:
            return
        answer = service.get(path, params={**parameters, "cursor": body["next_cursor"]})


def _post(webhook: httpx.Client, url: str, key: str, body: dict[str, Any]) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            answer = webhook.post(url, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError as error:
            reason = str(error)
        else:
            if answer.is_success:
                return
            reason = f"it responded with {answer.status_code}"
            if answer.is_client_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                # The webhook would reject the same request again.
                break
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSES_SECONDS[min(attempt, len(_PAUSES_SECONDS) - 1)])
    message = f"the webhook did not accept the alert {key}: {reason}"
    raise Undelivered(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Send alerts until Ctrl-C, or once. Exit code 1: the webhook did not accept an alert."""
    parser = argparse.ArgumentParser(prog="python -m examples.webhook", description=__doc__)
    parser.add_argument("--service", required=True, help="URL of `oriel serve`")
    parser.add_argument("--store", required=True)
    parser.add_argument("--column", required=True, help="the aggregate to compare")
    parser.add_argument("--below", type=float, required=True, help="the threshold")
    parser.add_argument("--to", required=True, help="URL that gets a POST request for each window")
    parser.add_argument(
        "--state", type=Path, required=True, help="state file with the delivered alerts"
    )
    parser.add_argument("--once", action="store_true", help="send the current alerts and exit")
    options = parser.parse_args(arguments)
    alert = Alert(options.store, options.column, options.below, options.to)
    delivered = Delivered.read(options.state)
    with httpx.Client(base_url=options.service) as service, httpx.Client() as webhook:
        while True:
            try:
                send_alerts(service, webhook, alert, delivered)
            except Undelivered as error:
                sys.stderr.write(f"{error}\n")
                return 1
            except httpx.HTTPError as error:
                sys.stderr.write(f"cannot read from {options.service}: {error}\n")
                if options.once:
                    return 1
            if options.once:
                return 0
            time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
