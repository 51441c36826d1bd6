"""The page in a browser: what it shows, from where, and what it does when answers stay away."""

from __future__ import annotations

import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.service.page.canned import LEARNS, Canned, report, served
from tests.service.page.look import Look

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>alert(1)</script>"
TWO = [report("main"), report("try-out", simulated=True, engine="simulate", round=77)]


def test_numbers_of_tenant_are_shown(look: Look, address: str) -> None:
    look.open(address)
    assert look.text("h1") == "main"
    assert look.text("#state") == "Serving"
    assert look.text(".kind") == "CKKS, 128 bits"
    now = look.text(".gauges")
    for said in ("648 ms", "1.31 s", "37 rounds/min", "waiting 2", "Open rounds 12", "enrolled 37"):
        assert said in now
    assert "version 0.1.0 · up 3 h 12 min" in look.text("header")
    assert not look.visible("#tenants")
    for notice in ("simulated", "failed", "starting", "due", "past"):
        assert not look.visible(f"#{notice}")
    assert look.complaints() == []


def test_model_ledger_and_parameters_are_shown(look: Look, address: str) -> None:
    look.open(address)
    page = look.text("main")
    for said in (
        "1,284 rounds of 10,000 planned",
        "updates adopted 61",
        "updates rejected by their check 1",
        "held for the next update 3",
        "1,345 bits told of a budget of 27,615",
        "Rotation is not due.",
        "Last error None.",
        "ring N = 2¹⁴ = 16,384",
        "52cbd58d1299796c8d7bb637c5c97414",
    ):
        assert said in page
    meter = look.find("#bits-meter")
    assert meter.get_attribute("aria-valuenow") == "1345"
    assert meter.get_attribute("aria-valuemax") == "27615"
    share = look.run(
        "const bar = document.querySelector('#bits-meter');"
        "return bar.firstElementChild.offsetWidth / bar.clientWidth"
    )
    assert share == pytest.approx(1345 / 27615, abs=0.01)


def test_who_learns_what_is_a_table(look: Look, address: str) -> None:
    look.open(address)
    rows = look.run(
        "return [...document.querySelectorAll('#learns tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert rows == [[row["who"], row["learns"], row["never"]] for row in LEARNS]


def test_history_is_drawn_with_axes(look: Look, address: str) -> None:
    look.open(address)
    look.wait_for(lambda: look.visible("#chart-rounds .line.rounds"))
    for name in ("rounds", "updates", "latency"):
        label = look.find(f"#chart-{name}").get_attribute("aria-label")
        assert str(label).startswith("Last 60 minutes.")
        texts = look.run(
            f"return [...document.querySelectorAll('#chart-{name} text')].map((t) => t.textContent)"
        )
        assert "0" in texts
        assert sum(bool(re.fullmatch(r"\d\d:\d\d", text)) for text in texts) >= 4
    assert "a minute" in look.text("#charts")
    assert "milliseconds" in look.text("#charts")
    gap = look.run("return document.querySelectorAll('#chart-latency .line').length")
    assert gap == 2  # nobody asked in one minute: the line has a gap, not a zero


def test_history_can_be_read_by_mouse_keyboard_and_table(look: Look, address: str) -> None:
    look.open(address)
    look.wait_for(lambda: look.text("#readout").startswith("In all: "))
    ActionChains(look.browser).move_to_element(look.find("#chart-rounds")).perform()
    look.wait_for(lambda: re.match(r"\d\d:\d\d: \d+ rounds, ", look.text("#readout")))
    ActionChains(look.browser).move_to_element(look.find("h1")).perform()
    look.wait_for(lambda: look.text("#readout").startswith("In all: "))
    look.run("document.getElementById('charts').focus()")
    look.browser.switch_to.active_element.send_keys(Keys.HOME)
    first = look.text("#readout")
    look.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert re.match(r"\d\d:\d\d: 20 rounds, 20 rewards, 0 updates, 600 ms", first)
    assert look.text("#readout") != first
    assert look.run("return document.querySelectorAll('#charts .cursor').length") == 3
    look.find("#as-table summary").click()
    look.wait_for(lambda: look.run("return document.querySelectorAll('#rows tr').length") == 60)


def test_two_tenants_can_be_selected(look: Look, address: str, canned: Canned) -> None:
    canned.tenants = TWO
    look.open(address)
    assert look.visible("#tenants")
    assert not look.visible("#simulated")
    look.find("[role=tab]:nth-child(2)").click()
    look.wait_for(lambda: look.text("h1") == "try-out")
    look.wait_for(lambda: "history of try-out" in canned.asked)
    assert "77 rounds" in look.text("main")
    look.browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    look.wait_for(lambda: look.text("h1") == "main")
    selected = look.run("return document.querySelector('[aria-selected=true]').textContent")
    assert selected == "main"
    assert look.run("return document.activeElement.textContent") == "main"
    assert look.find("[role=tabpanel]").get_attribute("aria-labelledby") == "tab-0"


def test_link_leads_to_a_tenant(look: Look, address: str, canned: Canned) -> None:
    canned.tenants = TWO
    look.open(f"{address}/#try-out")
    assert look.text("h1") == "try-out"


def test_simulated_tenant_says_loudly_that_it_protects_nothing(
    look: Look, address: str, canned: Canned
) -> None:
    canned.tenants = TWO[1:]
    look.open(address)
    assert "Simulated: this tenant protects nothing." in look.text("#simulated")
    assert look.text("[data-show=security]") == "none: simulated"
    assert "hides nothing" in look.text("#would")


def test_states_and_warnings_are_said(look: Look, address: str, canned: Canned) -> None:
    nothing = {"p50": None, "p95": None}
    canned.tenants = [
        report("a", state="starting", latency_ms=nothing, round=None, bits=None, ring_dim=None),
        report("b", state="failed", last_error="the evaluator ended"),
        report("c", rotation_due=True, bits=30000, round=10000),
    ]
    look.open(address)
    assert look.visible("#starting")
    assert "– rounds of 10,000" in look.text("main")
    look.find("[role=tab]:nth-child(2)").click()
    look.wait_for(lambda: look.visible("#failed"))
    assert "does not serve. the evaluator ended" in look.text("#failed")
    look.find("[role=tab]:nth-child(3)").click()
    look.wait_for(lambda: look.visible("#due"))
    assert look.visible("#past")
    assert not look.visible("#failed")
    assert look.complaints() == []


def test_hostile_strings_are_shown_as_text(look: Look, address: str, canned: Canned) -> None:
    learns = [{"who": HOSTILE, "learns": HOSTILE, "never": HOSTILE}]
    canned.tenants = [
        report(HOSTILE, last_error=HOSTILE, key=HOSTILE, learns=learns, engine="__proto__"),
        report("other", state=HOSTILE, security=HOSTILE),
    ]
    look.open(address)
    assert look.text("h1") == HOSTILE
    assert look.text(".error") == HOSTILE
    assert look.text("#learns td") == HOSTILE
    look.find("[role=tab]:nth-child(2)").click()
    look.wait_for(lambda: look.text("#state") == HOSTILE)
    assert look.run("return document.querySelectorAll('main img, main script').length") == 0
    assert "broken" not in look.browser.title.split("<")[0]
    assert [said for said in look.complaints() if "404" not in said] == []


def test_page_asks_its_own_server_only(look: Look, address: str) -> None:
    look.open(address)
    look.wait_for(lambda: any("history" in name for name in look.requests()))
    assert all(name.startswith(f"{address}/") for name in look.requests())
    assert look.complaints() == []  # nor was anything blocked by the policy


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_page_fits_the_width(look: Look, address: str, canned: Canned, width: int) -> None:
    long = "w" * 60
    canned.tenants = [report(last_error=long * 3), report(long, simulated=True)]
    look.resize(width, 800)
    for fragment in ("", f"#{long}"):
        look.open(f"{address}/{fragment}")
        look.wait_for(lambda: look.visible("#chart-rounds"))
        assert look.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_page_follows_the_scheme_of_the_screen(
    look: Look, address: str, scheme: str, dark: bool
) -> None:
    look.prefer(scheme)
    look.open(address)
    colour = look.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour))) < 3 * 128) == dark


def test_numbers_go_when_no_answer_comes_and_return_with_it(
    hasty: Look, address: str, canned: Canned
) -> None:
    hasty.open(address)
    canned.failing = 503
    words = r"No answer since \d\d:\d\d:\d\d: the server answers with 503"
    hasty.wait_for(lambda: re.fullmatch(words, hasty.text("#pulse")))
    assert not hasty.visible("#panel")
    assert not hasty.visible("#server")
    assert hasty.browser.title == "no answer · helba"
    canned.failing = None
    hasty.wait_for(lambda: hasty.visible("#panel") and hasty.text("#pulse") == "Answering")


def test_page_says_since_when_the_server_is_away(hasty: Look, canned: Canned) -> None:
    with served(canned) as address:
        hasty.open(address)
    hasty.wait_for(lambda: hasty.text("#pulse").startswith("No answer since "))
    assert not hasty.visible("#panel")
    assert "1,284" not in hasty.text("body")


def test_page_asks_again_and_again(hasty: Look, address: str, canned: Canned) -> None:
    hasty.open(address)
    canned.tenants = [report(round=1285)]
    hasty.wait_for(lambda: "1,285 rounds" in hasty.text("main"))
    hasty.wait_for(lambda: canned.asked.count("history of main") >= 2)
    assert canned.asked.count("status") > canned.asked.count("history of main")
