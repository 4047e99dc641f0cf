"""Write screenshots of the dashboard and of the documentation in Chromium.

    python -m tools.pictures DEMO SESSIONS      for docs/reference/dashboard.md
    python -m tools.pictures                    for docs/contributing/site.md

DEMO is the address of a running ``oriel demo``. SESSIONS is the address of a running ``oriel
example clicks``. Without addresses, the tool builds and serves the site itself.
"""

import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlencode

from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from tests.chromium import start_chromium
from tools.site import build_site, site_server

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
#: Pages of the site, by the name of their picture.
SITE_PAGES = {
    "home": "index.html",
    "quickstart": "get-started/quickstart.html",
    "windows": "concepts/windows.html",
    "streams": "reference/topology/streams.html",
    "http-api": "reference/http-api.html",
}
#: Theme, width and height of a device.
SITE_DEVICES = {"desktop-light": (1280, 800), "phone-dark": (390, 844)}


def site() -> None:
    """Write a picture of each page in ``SITE_PAGES`` on each device in ``SITE_DEVICES``."""
    with tempfile.TemporaryDirectory() as directory:
        build_site(Path(directory) / "site")
        with site_server(Path(directory) / "site", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser = start_chromium(Path(directory) / "profile")
            try:
                for page, path in SITE_PAGES.items():
                    for device, size in SITE_DEVICES.items():
                        url = f"http://127.0.0.1:{server.server_port}/{path}"
                        _take(browser, url, f"site-{page}-{device}", size, "article h1")
            finally:
                browser.quit()
                server.shutdown()


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
    # The site keeps the theme of an earlier picture.
    browser.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
    browser.get(url)
    script = "return document.querySelector(arguments[0])?.checkVisibility() ?? false"
    WebDriverWait(browser, _WAIT_SECONDS).until(lambda _: browser.execute_script(script, shown))
    # After two frames, the browser has drawn everything.
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    browser.save_screenshot(str(_PICTURES / f"{name}.png"))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        site()
