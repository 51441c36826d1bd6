"""Looking at the page: what is visible, what the console says, where requests went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

__all__ = ["Look"]

PATIENCE_SECONDS = 30.0
# The page's clock and timers run so many times as fast as ours.
HASTE = 10
HURRY = f"""
const start = Date.now(), now = Date.now.bind(Date), later = setTimeout, often = setInterval;
Date.now = () => start + (now() - start) * {HASTE};
setTimeout = (action, milliseconds) => later(action, milliseconds / {HASTE});
setInterval = (action, milliseconds) => often(action, milliseconds / {HASTE});
"""


class Look:
    """A browser, with questions in the words of the tests."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def open(self, url: str) -> None:
        """Open the page, and wait until it shows a tenant."""
        self.browser.get("about:blank")
        self.browser.get(url)
        self.wait_for(lambda: self.visible("#panel"))

    def resize(self, width: int, height: int) -> None:
        """Be a screen of that size, also of one that no window may have."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark pages, or neither if empty."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Have time run faster in pages that are opened meanwhile."""
        script = "Page.addScriptToEvaluateOnNewDocument"
        added = self.browser.execute_cdp_cmd(script, {"source": HURRY})
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Wait until it holds, or fail."""
        WebDriverWait(self.browser, PATIENCE_SECONDS, poll_frequency=0.1).until(
            lambda _: condition()
        )

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def visible(self, selector: str) -> bool:
        """Whether there is such an element, and a person could see it."""
        script = (
            "const found = document.querySelector(arguments[0]);"
            "return found !== null && found.checkVisibility()"
        )
        return bool(self.browser.execute_script(script, selector))

    def text(self, selector: str) -> str:
        """The visible text, on one line."""
        script = "return document.querySelector(arguments[0]).innerText"
        return " ".join(str(self.browser.execute_script(script, selector)).split())

    def run(self, script: str) -> Any:
        """Evaluate JavaScript in the page."""
        return self.browser.execute_script(script)

    def complaints(self) -> list[str]:
        """What the console said since it was last asked."""
        return [str(entry["message"]) for entry in self.browser.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that the page has asked for."""
        script = "return performance.getEntriesByType('resource').map((one) => one.name)"
        return cast("list[str]", self.run(script))
