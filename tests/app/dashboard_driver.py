"""A driver of the dashboard, which opens, reads and operates it in Chromium."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.app.serving import Serving
from tests.storage.waiting import wait_for, wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DESKTOP = (1280, 900)
PHONE = (390, 844)


class Dashboard:
    """The dashboard of one service in a browser."""

    def __init__(self, browser: "Chrome", serving: Serving) -> None:
        self.browser = browser
        self.serving = serving
        self.address = f"http://127.0.0.1:{serving.port}/"

    def clear_storage(self) -> None:
        """Delete what earlier tests left in the browser, for example the board."""
        storage = {"origin": self.address.rstrip("/"), "storageTypes": "local_storage"}
        self.browser.execute_cdp_cmd("Storage.clearDataForOrigin", storage)

    def open(self, **choice: object) -> None:
        """Load the page with a selection in its address, with desktop size and light colors."""
        self.look(DESKTOP)
        self.browser.get("about:blank")
        # Move the pointer away, so that no element reacts to it.
        away = {"type": "mouseMoved", "x": 1, "y": 1}
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", away)
        self.console()
        self.browser.get(f"{self.address}#{urlencode(choice, doseq=True)}")

    def look(self, size: tuple[int, int], theme: str = "light") -> None:
        """Use a window of this size in pixels, with light or dark colors."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page."""
        return self.browser.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all visible elements of a selector."""
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((e) => e.checkVisibility()).map((e) => e.textContent)"
        )
        return list(self.run(script, selector))

    def text(self, selector: str) -> str:
        """Return the texts of all visible elements of a selector as one string."""
        return "\n".join(self.texts(selector))

    def wait_for(self, selector: str, text: str) -> None:
        """Wait until an element of a selector contains a text."""
        wait_until(
            lambda: self.text(selector), f"{text!r} in {selector}", lambda shown: text in shown
        )

    def wait_for_address(self, part: str) -> None:
        """Wait until the address of the page contains a part."""
        wait_until(
            lambda: self.browser.current_url, f"{part} in the address", lambda url: part in url
        )

    def attribute(self, selector: str, name: str) -> str | None:
        """Return an attribute of the first element of a selector, or None without it."""
        script = "return document.querySelector(arguments[0])?.getAttribute(arguments[1]) ?? null"
        value: str | None = self.run(script, selector, name)
        return value

    def rows(self) -> list[list[str]]:
        """Return the cells of the rendered rows of the table."""
        script = (
            "return [...document.querySelectorAll('tbody:not([aria-hidden]) tr')]"
            ".filter((e) => e.checkVisibility())"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        return [list(row) for row in self.run(script)]

    def wait_for_windows(self, count: int) -> None:
        """Wait until the chart shows this number of windows."""
        wait_for(str(count), lambda: self.attribute(".chart", "data-windows"), "the windows shown")

    def windows(self) -> list[tuple[str, int, int]]:
        """Return key, start and end of each window in the table, newest first."""
        script = (
            "return document.querySelector('section[aria-label=Windows] .scroll').items"
            ".map((row) => [row.key, row.window_start_ms, row.window_end_ms])"
        )
        return [(key, start, end) for key, start, end in self.run(script)]

    def drawn(self) -> list[tuple[str, int, int]]:
        """Return key, start and end of each window in the chart, by key, oldest first."""
        script = (
            "const chart = document.querySelector('.chart');"
            "const series = chart.checkVisibility() ? chart.series : [];"
            "return series.filter((each) => each.aggregate === series[0].aggregate)"
            ".flatMap((each) => each.rows)"
            ".map((row) => [row.key, row.window_start_ms, row.window_end_ms])"
        )
        return [(key, start, end) for key, start, end in self.run(script)]

    def axis(self) -> tuple[float, float]:
        """Return the ends of the chart's time axis in ms."""
        script = (
            "const { min, max } = document.querySelector('.chart').plot.scales.x;return [min, max]"
        )
        first, last = self.run(script)
        return 1000 * first, 1000 * last

    def drag(self, from_share: float, to_share: float) -> None:
        """Select a range of the chart with the pointer, by fractions of the chart's width."""
        from selenium.webdriver import ActionChains  # noqa: PLC0415

        over = self.browser.find_element("css selector", ".u-over")
        width = over.size["width"]
        steps = ActionChains(self.browser).move_to_element_with_offset(
            over, round((from_share - 0.5) * width), 0
        )
        steps.click_and_hold().move_by_offset(round((to_share - from_share) * width), 0)
        steps.release().perform()

    def press_button(self, name: str) -> None:
        """Press the button with this text."""
        self.browser.find_element("xpath", f"//button[.='{name}']").click()

    def choose(self, box: str, value: str) -> None:
        """Choose a value in the box with this id."""
        self.run(
            "const box = document.getElementById(arguments[0]); box.value = arguments[1];"
            "box.dispatchEvent(new Event('change'))", box, value,
        )  # fmt: skip

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, in the focused element."""
        from selenium.webdriver import ActionChains  # noqa: PLC0415

        actions = ActionChains(self.browser)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def type_key(self, text: str) -> None:
        """Type into the input for keys, and replace its content."""
        self.browser.find_element("id", "key").click()
        is_selected = (
            "const box = document.activeElement;"
            "return box.id === 'key' && box.selectionEnd - box.selectionStart === box.value.length"
        )
        wait_until(lambda: self.run(is_selected), "the selection of the box of keys")
        self.press(*text)

    def console(self) -> list[str]:
        """Return the errors in the console since the last call."""
        entries = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
