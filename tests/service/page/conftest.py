"""A browser for the whole session, and a server of canned answers for every test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.service.page.canned import Canned, served
from tests.service.page.look import Look

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    chrome = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def canned() -> Canned:
    return Canned()


@pytest.fixture
def address(canned: Canned) -> Iterator[str]:
    with served(canned) as url:
        yield url


@pytest.fixture
def look(browser: webdriver.Chrome) -> Iterator[Look]:
    """What a person at the browser sees, on an enroller."""
    seen = Look(browser)
    seen.resize(1280, 900)
    browser.get_log("browser")  # what the test before left
    yield seen
    seen.prefer("")
    browser.get("about:blank")


@pytest.fixture
def hasty(look: Look) -> Iterator[Look]:
    """What is seen where the page's time runs faster."""
    with look.hurry():
        yield look
