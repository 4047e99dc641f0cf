"""Measure frames and freshness of the dashboard: ``oriel bench dashboard``.

Chromium shows the pages of the service on this machine:

- blank: Frames of an empty page, the best that the machine can do.
- wall: Tiles of 1,000 keys that all change once per second, while the page scrolls.
- chart: A chart of 100,000 windows of one key. One window changes once per second.
- table: Scroll through those 100,000 windows.
- fresh: The time from the append of a record to the event log until the page shows its window,
  through a pipeline with a trigger of 100 ms.

A frame is the time between two animation frames. The goals are frames of at most 100 ms, and a
record on the page within 1 s. Prints a table, and JSON in the last line.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from selenium.webdriver import Chrome

from oriel.demo import serving
from oriel.storage import StoreKind, WindowSpec
from tests.chromium import start_chromium
from tests.storage.store_tables import StoreTable, make_definition

_EPOCH_MS = 1_700_000_000_000
_MINUTE_MS = 60_000
_TUMBLING = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)
_WAIT_SECONDS = 120.0
_FRESH_RECORDS = 20

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, count

builder = StreamsBuilder()
windows = TimeWindows.of_size_and_grace(60_000, 60_000)
builder.stream("events", "v DOUBLE").group_by_key().windowed_by(windows).aggregate(
    n=count()
).materialize("fresh")
topology = builder.build()
"""

#: Collects the time between frames, and the tasks of more than 50 ms.
_RECORD_FRAMES = """
    window.frameMs = [];
    window.taskMs = [];
    let last = performance.now();
    const tick = (now) => {
        frameMs.push(now - last);
        last = now;
        requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) taskMs.push(entry.duration);
    }).observe({ type: "longtask" });
"""
_SCROLL = """
    const box = document.querySelector(arguments[0]) ?? document.scrollingElement;
    let down = true;
    setInterval(() => {
        const before = box.scrollTop;
        box.scrollTop += (down ? 1 : -1) * arguments[1];
        if (box.scrollTop === before) down = !down;
    }, 16);
"""
#: Records when the number on the page changes. The process that appends has the same wall clock.
_NOTE_FIGURES = """
    window.figures = {};
    const figure = document.querySelector(".figure");
    new MutationObserver(() => { figures[figure.textContent] ??= Date.now(); })
        .observe(figure, { childList: true, characterData: true, subtree: true });
"""


class Frames(NamedTuple):
    """Frames of a scene, in ms. ``longest_task_ms`` is 0 if no task is longer than 50 ms.

    ``processor_ms`` is the processor time of the page's main thread per second. On a busy machine,
    this is the most reliable figure, because the others include waits for other processes.
    """

    frames: int
    median_ms: float
    longest_ms: float
    over_100_ms: int
    longest_task_ms: float
    processor_ms: float


def main() -> int:
    """Measure, print a table and one line of JSON."""
    options = _parse()
    with tempfile.TemporaryDirectory(prefix="oriel-bench-dashboard-") as name:
        directory = Path(name)
        with _chromium(directory) as browser:
            scenes = measure_frames(directory / "frames", browser, options)
            _print_frames(scenes)
            fresh_ms = measure_fresh(directory / "fresh", browser)
    median_ms = statistics.median(fresh_ms)
    print(f"append to page: median {median_ms:.0f} ms, longest {max(fresh_ms)} ms")
    results = {scene: found._asdict() for scene, found in scenes.items()}
    print(json.dumps({"benchmark": "dashboard", "frames": results, "fresh_ms": fresh_ms}))
    return 0


def _print_frames(scenes: dict[str, Frames]) -> None:
    heads = (
        "scene", "frames", "median ms", "longest ms", "over 100 ms", "longest task ms",
        "processor ms/s",
    )  # fmt: skip
    print("".join(f"{head:>17}" for head in heads))
    for scene, found in scenes.items():
        numbers = "".join(f"{number:17,.0f}" for number in found)
        print(f"{scene:>17}{numbers}", flush=True)


def measure_frames(data: Path, browser: Chrome, options: argparse.Namespace) -> dict[str, Frames]:
    """Return the frames of each scene while the stores change once per second."""
    wall = StoreTable(data, make_definition("wall", window=_TUMBLING))
    wall.commit(_wall_rows(options.keys, 0))
    long = StoreTable(data, make_definition("long", window=_TUMBLING))
    long.commit([_long_row(number, 1) for number in range(options.windows)])
    scenes: dict[str, Frames] = {}

    def change(second: int) -> None:
        wall.commit(_wall_rows(options.keys, second))
        long.commit([_long_row(options.windows, second)])

    with serving(data) as client:
        scenes["blank"] = _frames_of(browser, "about:blank", lambda: True, options.seconds)
        browser.get("about:blank")
        root = str(client.base_url)
        all_tiles = f"return document.querySelectorAll('.tiles a').length === {options.keys}"
        scenes["wall"] = _frames_of(
            browser, f"{root}/#view=wall&store=wall", lambda: browser.execute_script(all_tiles),
            options.seconds, change, ("html", 40),
        )  # fmt: skip
        drawn = "return Number(document.querySelector('.chart')?.dataset.windows) >= %d"
        address = f"{root}/#store=long&key=key&range=all"

        def is_drawn() -> bool:
            return bool(browser.execute_script(drawn % options.windows))

        scenes["chart"] = _frames_of(browser, address, is_drawn, options.seconds, change)
        scenes["table"] = _frames_of(
            browser, f"{address}&", is_drawn, options.seconds, change, (".scroll", 400)
        )
    return scenes


def _frames_of(
    browser: Chrome,
    address: str,
    is_shown: Callable[[], bool],
    seconds: int,
    change: Callable[[int], None] = lambda _second: None,
    scrolling: tuple[str, int] | None = None,
) -> Frames:
    """Open a page, wait until all is shown, and record its frames while things change."""
    browser.get("about:blank")
    browser.get(address)
    _wait_until(is_shown, address)
    browser.execute_script(_RECORD_FRAMES)
    if scrolling is not None:
        browser.execute_script(_SCROLL, *scrolling)
    before_seconds = _processor_seconds(browser)
    for second in range(1, seconds + 1):
        begun = time.monotonic()
        change(second)
        time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))
    processor_ms = 1000 * (_processor_seconds(browser) - before_seconds) / seconds
    frames, tasks = browser.execute_script("return [frameMs, taskMs]")
    over = sum(frame > 100 for frame in frames)
    longest_task = max(tasks, default=0.0)
    median_ms = statistics.median(frames)
    return Frames(len(frames), median_ms, max(frames), over, longest_task, processor_ms)


def _processor_seconds(browser: Chrome) -> float:
    """Return the processor time that the tasks of the page's main thread have used."""
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def _wall_rows(keys: int, second: int) -> list[dict[str, object]]:
    return [
        {"key": f"key {number:05}", "start": _EPOCH_MS, "n": (number * 7 + second * 13) % 997}
        for number in range(keys)
    ]


def _long_row(number: int, amount: int) -> dict[str, object]:
    start_ms = _EPOCH_MS + number * _MINUTE_MS
    return {"key": "key", "start": start_ms, "n": (number * 37) % 101 + amount, "final": True}


def measure_fresh(directory: Path, browser: Chrome) -> list[int]:
    """Return the ms from the append of each record until the page shows its window."""
    log = directory / "log" / "events"
    log.mkdir(parents=True)
    topology = directory / "topology.py"
    topology.write_text(_TOPOLOGY)
    data = directory / "data"
    options = ["--event-log", str(directory / "log"), "--data", str(data), "--trigger", "100ms"]
    # The first record creates the store that the page shows.
    _append(log, 1)
    with _pipeline([str(topology), *options], directory / "pipeline.log"):
        _wait_until((data / "tables" / "fresh" / "_delta_log").is_dir, "the first commit")
        with serving(data) as client:
            _wait_until(lambda: _is_served(client), "the store")
            browser.get("about:blank")
            browser.get(f"{client.base_url}/#store=fresh&key=key")
            figure = "return document.querySelector('.figure')?.textContent ?? ''"
            _wait_until(lambda: browser.execute_script(figure) == "1 records", "the first window")
            browser.execute_script(_NOTE_FIGURES)
            found = []
            for number in range(2, _FRESH_RECORDS + 2):
                appended_ms = time.time_ns() // 1_000_000
                _append(log, number)
                text = f"{number} records"
                _wait_until(lambda: browser.execute_script("return figures[arguments[0]]", text)  # noqa: B023
                            is not None, text)  # fmt: skip
                shown_ms = browser.execute_script("return figures[arguments[0]]", text)
                found.append(int(shown_ms) - appended_ms)
    return found


def _append(log: Path, number: int) -> None:
    record = {"key": "key", "value": {"v": number}, "timestamp_ms": _EPOCH_MS + number}
    with (log / "0.jsonl").open("a") as file:
        file.write(f"{json.dumps(record)}\n")


def _is_served(client: httpx.Client) -> bool:
    keys: object = client.get("/v1/stores/fresh/keys").json().get("keys")
    return keys == ["key"]


@contextmanager
def _pipeline(arguments: list[str], output: Path) -> Iterator[None]:
    command = [sys.executable, "-P", "-m", "oriel", "run", *arguments]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _chromium(directory: Path) -> Iterator[Chrome]:
    browser = start_chromium(directory / "chromium")
    try:
        yield browser
    finally:
        browser.quit()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            message = f"waited {_WAIT_SECONDS:.0f} s for {what}"
            raise TimeoutError(message)
        time.sleep(0.01)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel bench dashboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keys", type=int, default=1_000, help="keys of the wall")
    parser.add_argument("--windows", type=int, default=100_000, help="windows of the chart's key")
    parser.add_argument("--seconds", type=int, default=10, help="seconds of each scene")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
