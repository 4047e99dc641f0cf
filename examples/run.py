"""`oriel example NAME`: create the records, run the topology, and serve it until Ctrl-C."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx

from examples.alert import LEAST_BEATS, STORE
from examples.logs import write_log
from examples.webhook import Alert, Delivered, send_alerts
from oriel.demo import (
    DemoError,
    Service,
    choose_port,
    dashboard_link,
    fresh_directory,
    running,
)

_HERE = Path(__file__).resolve().parent
_HOST = "127.0.0.1"
_READY_SECONDS = 120
_POLL_SECONDS = 0.5


class Shown(NamedTuple):
    """The first output of an example: a key of a store, and the read of its newest rows."""

    store: str
    key: str
    read: str


EXAMPLES = {
    "alert": Shown(STORE, "device-04", "backwardFetch"),
    "clicks": Shown("visits", "user-007", "backwardFindSessions"),
    "orders": Shown("revenue_by_city", "Berlin", "backwardFetch"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example of the command line. Return the exit code."""
    parser = argparse.ArgumentParser(prog="oriel example", description=__doc__)
    parser.add_argument("name", choices=sorted(EXAMPLES), help="the example")
    parser.add_argument("--port", type=int, help="port of the service. Default: 8080")
    parser.add_argument(
        "--folder", type=Path, help="directory of its files, which each start empties"
    )
    parser.add_argument("--exit", action="store_true", help="exit when its windows are served")
    options = parser.parse_args(arguments)
    directory = options.folder or _HERE.parent / ".oriel" / "examples" / options.name
    # A signal also ends the child processes in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(options.name, directory, options.port, stays=not options.exit)
    except DemoError as error:
        sys.stderr.write(f"oriel example: {error}\n")
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _run(example: str, root: Path, port: int | None, *, stays: bool) -> None:
    shown = EXAMPLES[example]
    with ExitStack() as stack:
        directory = stack.enter_context(fresh_directory(root))
        records = write_log(directory.event_log, example)
        chosen = choose_port(port, 8080)
        serve = ["serve", "--data", str(directory.data), "--host", _HOST, "--port", str(chosen)]
        child = stack.enter_context(running("service", serve, directory.logs))
        service = stack.enter_context(
            closing(Service(f"http://{_HOST}:{chosen}", child.require_running))
        )
        _say(f"{records:,} records are written. The pipeline starts")
        run = ["run", str(_HERE / f"{example}.py"), "--event-log", str(directory.event_log)]
        run += ["--data", str(directory.data), "--once"]
        stack.enter_context(running("pipeline", run, directory.logs)).require_success()
        for topic in directory.event_log.iterdir():
            sizes = {file.stem: file.stat().st_size for file in topic.iterdir()}
            service.wait_included(shown.store, topic.name, sizes, _READY_SECONDS)
        link = dashboard_link(service.url, shown.store, shown.key)
        read = f"{service.url}/v1/stores/{shown.store}/{shown.read}/{shown.key}?limit=3"
        print(f"\n  Dashboard   {link}\n\n    curl '{read}'\n", flush=True)
        if example == "alert":
            # The state belongs to the data, because it has a version of the table.
            _send_alerts(service.url, directory.data / "sent.json")
        while stays:
            child.require_running()
            time.sleep(_POLL_SECONDS)


def _send_alerts(service_url: str, state: Path) -> None:
    """Send all alerts to a webhook of this process."""
    with (
        ThreadingHTTPServer((_HOST, 0), _Receiver) as server,
        httpx.Client(base_url=service_url, trust_env=False) as service,
        httpx.Client(trust_env=False) as webhook,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        alert = Alert(STORE, "beats", LEAST_BEATS, f"http://{_HOST}:{server.server_port}/alerts")
        number = send_alerts(service, webhook, alert, Delivered.read(state))
        server.shutdown()
    _say(f"{number} windows had fewer than {LEAST_BEATS} beats. The webhook got one alert for each")


class _Receiver(BaseHTTPRequestHandler):
    """A webhook that prints its alerts."""

    def do_POST(self) -> None:
        """Print the alert."""
        self.rfile.read(int(self.headers["Content-Length"]))
        print(f"  alert: {self.headers['Idempotency-Key']}", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


def _say(text: str) -> None:
    sys.stderr.write(f"example: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
