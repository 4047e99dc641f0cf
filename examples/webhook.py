"""Tells a webhook of each final window whose count is below a threshold, once.

    python -m examples.webhook --service http://127.0.0.1:8080 --store STORE --column COLUMN
        --below N --to https://... --state FILE [--once]

HTTP can't say whether a request whose answer was lost was heard, so nobody can promise exactly one
request. Here a window is told of until a 2xx answer comes, which the state file then remembers. It
is told of again, with the same ``Idempotency-Key``, only where this process was killed or lost the
answer between the two, or where it was away so long that the table's log no longer says what
changed. A receiver that remembers these keys hears of each window exactly once.
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

#: Pauses between attempts, in seconds; the last one goes on.
_PAUSES_SECONDS = (0.1, 0.5, 2.0, 10.0)
_ATTEMPTS = 10
_POLL_SECONDS = 1.0
_PAGE = 1000


class Undelivered(Exception):
    """The webhook can't be told; the state says how far it got, so start again to go on."""


@dataclass
class Delivered:
    """What the webhook was told: all of the store up to ``version``, and ``keys`` behind it."""

    file: Path
    version: int = 0
    keys: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, file: Path) -> "Delivered":
        """What the file says; without one, nothing was told."""
        if not file.exists():
            return cls(file)
        fields = orjson.loads(file.read_bytes())
        return cls(file, fields["version"], set(fields["keys"]))

    def note(self, key: str) -> None:
        """Remember that the webhook was told of one window."""
        self.keys.add(key)
        self._write()

    def advance(self, version: int) -> None:
        """Remember that there is nothing left to tell up to a version."""
        if version != self.version:
            self.version, self.keys = version, set()
            self._write()

    def _write(self) -> None:
        draft = self.file.with_suffix(".draft")
        draft.write_bytes(orjson.dumps({"version": self.version, "keys": sorted(self.keys)}))
        draft.replace(self.file)


@dataclass(frozen=True)
class Alert:
    """Windows of ``store`` with ``column`` below ``below`` are told to the address ``to``."""

    store: str
    column: str
    below: float
    to: str


def tell_new(
    service: httpx.Client, webhook: httpx.Client, alert: Alert, delivered: Delivered
) -> int:
    """Tell the webhook of all windows that became final since ``delivered``; return how many.

    Raises:
        Undelivered: it does not answer, or refuses one.
        httpx.HTTPError: the service does not answer.
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
    """Pages of windows that are final, and up to which version the last of them tell of all."""
    path, parameters = f"/v1/stores/{store}/changes", {"since_version": since, "limit": _PAGE}
    answer = service.get(path, params=parameters)
    if answer.status_code == httpx.codes.GONE:
        # The log no longer says what changed since then: all windows are looked at again.
        path, parameters = f"/v1/stores/{store}/all", {"limit": _PAGE}
        answer = service.get(path, params=parameters)
    first: int | None = None
    while True:
        body = answer.raise_for_status().json()
        # A scan of all may move on to newer versions: what it began with is sure.
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
            reason = f"it answered {answer.status_code}"
            if answer.is_client_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                # The same request would be refused again.
                break
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSES_SECONDS[min(attempt, len(_PAUSES_SECONDS) - 1)])
    message = f"the webhook was not told of {key}: {reason}"
    raise Undelivered(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell of windows until Ctrl-C, or once; exit code 1 where the webhook can't be told."""
    parser = argparse.ArgumentParser(prog="python -m examples.webhook", description=__doc__)
    parser.add_argument("--service", required=True, help="address of `oriel serve`")
    parser.add_argument("--store", required=True)
    parser.add_argument("--column", required=True, help="the aggregate that is looked at")
    parser.add_argument("--below", type=float, required=True, help="tell of windows below it")
    parser.add_argument("--to", required=True, help="address that gets a POST for each window")
    parser.add_argument("--state", type=Path, required=True, help="file of what was told")
    parser.add_argument("--once", action="store_true", help="tell of what there is, and end")
    options = parser.parse_args(arguments)
    alert = Alert(options.store, options.column, options.below, options.to)
    delivered = Delivered.read(options.state)
    with httpx.Client(base_url=options.service) as service, httpx.Client() as webhook:
        while True:
            try:
                tell_new(service, webhook, alert, delivered)
            except Undelivered as error:
                sys.stderr.write(f"{error}\n")
                return 1
            except httpx.HTTPError as error:
                sys.stderr.write(f"{options.service} can't be asked: {error}\n")
                if options.once:
                    return 1
            if options.once:
                return 0
            time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
