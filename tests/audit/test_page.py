"""The HTML page in a real browser. If these fail, it cannot be read, filtered, or used without a mouse or a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from audit import results
from nirmap.audit.page import as_html

Browser = Any  # selenium's driver


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "audit.html"
    path.write_text(as_html(results.audit()), encoding="utf-8")
    browser.get(path.as_uri())
    return browser


def find(page: Browser, selector: str) -> list[Any]:
    return list(page.find_elements("css selector", selector))


def visible(page: Browser, selector: str) -> list[str]:
    return [element.get_attribute("aria-label") for element in find(page, selector) if element.is_displayed()]


def test_it_needs_no_network_and_raises_nothing(page: Browser) -> None:
    text = as_html(results.audit())
    assert not re.findall(r"(?:src|href)=\"(?!data:)|url\(|https?:|@import", text)
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_every_cell_is_a_button_that_says_what_it_is(page: Browser) -> None:
    labels = visible(page, "button.cell")
    assert len(labels) == 2 * len(results.STATUSES)
    for row, status in results.STATUSES.items():
        assert f"{row} from NIR, first: {status}" in labels
    assert "absent: No module named 'second'" in page.page_source


def test_pressing_a_cell_shows_its_reasons_as_text(page: Browser) -> None:
    (button,) = find(page, "[data-key='first|IF|from NIR']")
    button.click()
    (dialog,) = find(page, "dialog[open]")
    assert dialog.find_element("css selector", "h2").text == "IF from NIR, first"
    assert results.CONDITION.that in dialog.text
    assert results.CONDITION.because in dialog.text  # with its tags, which are no markup
    assert "2.0e-16 in float64, at most 1e-12 on any machine" in dialog.text
    assert "corner: refused" in dialog.text
    dialog.find_element("css selector", "#close").click()
    assert find(page, "dialog[open]") == []


def test_it_is_filtered_by_framework_and_by_status(page: Browser) -> None:
    (count,) = find(page, "#count")
    assert count.text == "12 cells"
    find(page, "input[value='exact when']")[0].click()
    assert count.text == "10 cells"
    assert len(find(page, ".cell.faded")) == 2
    find(page, "input[value='first']")[0].click()
    assert count.text == "0 cells"
    assert visible(page, "button.cell") == []
    assert not find(page, "thead th[data-framework='first']")[0].is_displayed()
    find(page, "input[value='first']")[0].click()
    find(page, "input[value='exact when']")[0].click()
    assert count.text == "12 cells"


def test_it_is_used_with_the_keyboard_alone(page: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(key: str) -> Any:
        ActionChains(page).send_keys(key).perform()
        return page.switch_to.active_element

    focused = press(Keys.TAB)
    assert focused.get_attribute("value") == "first"
    for _ in range(40):
        if "cell" in (focused.get_attribute("class") or "").split():
            break
        focused = press(Keys.TAB)
    assert focused.get_attribute("data-key") == "first|Scale|from NIR"
    press(Keys.ENTER)
    assert find(page, "dialog[open] h2")[0].text == "Scale from NIR, first"
    press(Keys.ESCAPE)
    assert find(page, "dialog[open]") == []
    assert page.switch_to.active_element.get_attribute("data-key") == "first|Scale|from NIR"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(page: Browser, scheme: str) -> None:
    """A contrast of 4.5 or more, as WCAG 2.1 (1.4.3) asks for."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    colours = page.execute_script(
        "return [...document.querySelectorAll('button.cell')].map((b) => {"
        "const s = getComputedStyle(b); return [s.color, s.backgroundColor]; })"
    )
    colours.append(
        page.execute_script("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    )
    for pair in colours:
        lights = sorted(_luminance(colour) for colour in pair)
        assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5, pair


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.1) of ``rgb(r, g, b)``."""
    parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
