"""Headless Chromium under WebDriver, for tests of the dashboard and its benchmark."""

import shutil
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

#: The programs that must be on the search path.
PROGRAMS = ("chromium", "chromedriver")


def start_chromium(profile: Path) -> Chrome:
    """Start Chromium with a new profile in this directory. The caller must quit it."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",  # root in CI has no sandbox
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        # No background requests, because tests are only about this project's page.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    return Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
