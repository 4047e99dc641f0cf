"""Write the pictures of docs/reference/dashboard.md: ``python -m tools.pictures DEMO SESSIONS``.

DEMO is the address of a running ``oriel demo``. SESSIONS is the address of a running ``oriel
example clicks``. Each picture is a screenshot of a view in Chromium.
"""

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from tests.chromium import start_chromium

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_STORE = {"store": "departures_by_origin", "key": "EWR"}
_CHARTS = [
    urlencode({**_STORE, "range": "last-86400000", "key": ["EWR", "JFK", "LGA"]}, doseq=True),
    urlencode({**_STORE, "aggregate": "mean_delay", "range": "last-86400000", "threshold": 60}),
]
_WAIT_SECONDS = 60.0

#: Name, view, width and height in pixels, and the selector of an element that is drawn last.
_Picture = tuple[str, dict[str, object], int, int, str]

_DEMO: tuple[_Picture, ...] = (
    ("store-light", {**_STORE, "range": "last-86400000"}, 1280, 940, ".chart canvas"),
    ("overview-light", {}, 1280, 560, ".trend polyline[points]"),
    ("wall-dark", {"view": "wall", "store": "departures_by_carrier"}, 1280, 720, ".tiles a"),
    ("board-light", {"view": "board", "title": "New York", "chart": _CHARTS}, 1280, 640,
     ".board section:nth-child(2) .chart canvas"),
    ("phone-dark", {**_STORE, "range": "last-86400000"}, 390, 844, ".chart canvas"),
)  # fmt: skip
_SESSIONS: tuple[_Picture, ...] = (
    ("sessions-dark", {"store": "visits", "key": "user-007"}, 1280, 800, ".chart canvas"),
    ("letters-light", {"view": "letters"}, 1280, 620, ".letters details"),
)


def main(demo: str, sessions: str) -> None:
    """Write all pictures.

    Args:
        demo: address of the service of the demo.
        sessions: address of the service of the example with sessions and dead letters.
    """
    with tempfile.TemporaryDirectory() as profile:
        browser = start_chromium(Path(profile))
        try:
            for url, views in ((demo, _DEMO), (sessions, _SESSIONS)):
                for name, choice, width, height, shown in views:
                    _take(browser, f"{url}/#{urlencode(choice, doseq=True)}", name,
                          (width, height), shown)  # fmt: skip
        finally:
            browser.quit()


def _take(browser: Chrome, url: str, name: str, size: tuple[int, int], shown: str) -> None:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    theme = {"name": "prefers-color-scheme", "value": name.rpartition("-")[2]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    browser.get("about:blank")
    browser.get(url)
    script = "return document.querySelector(arguments[0])?.checkVisibility() ?? false"
    WebDriverWait(browser, _WAIT_SECONDS).until(lambda _: browser.execute_script(script, shown))
    # After two frames, the browser has drawn everything.
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    browser.save_screenshot(str(_PICTURES / f"{name}.png"))


if __name__ == "__main__":
    main(*sys.argv[1:])
