"""The web page can be read by people with a keyboard, a screen reader or weak eyes, in headless Chromium.

Needs Chromium and its driver (tools/install_deps.sh ui). PENSTOCK_UI_SHOTS=folder keeps a picture of
each tab, light and dark.
"""

import os
import pathlib
import re
import time

import pytest

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.keys import Keys

from ui_page import CHROMIUM, DRIVER, chat_folder, driver, embed, page, pick, run, ui_server  # noqa: F401

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="CHROMIUM IS NOT HERE: tools/install_deps.sh ui")

TABS = ["live", "models", "playground", "requests"]
# axe's rules color-contrast, label, button-name, aria-valid, duplicate-id, in small: what cannot be
# read or named. Returns a list of sentences.
CHECKS = (pathlib.Path(__file__).parent / "ui_checks.js").read_text()


# A reply in which every kind of Markdown stands.
REPLY = r"""
    const real = window.fetch;
    const text = '## The pipe\n\nA **penstock** leads *water* from the reservoir to the [turbine](https://example.com/turbine); see `flow()`.\n\n' +
      '1. The valve opens.\n2. Water falls:\n   - fast,\n   - under pressure.\n\n' +
      '| head | flow | power |\n|:---|---:|---:|\n| 100 m | 2 m³/s | 1.8 MW |\n| 250 m | 4 m³/s | 8.8 MW |\n\n' +
      '```python\ndef power_mw(head_m, flow_m3_s, efficiency=0.9):\n    return 9.81e-3 * head_m * flow_m3_s * efficiency\n```\n\n> Losses are left out.';
    const events = text.match(/.{1,12}/gs).map((content) => `data: ${JSON.stringify({choices: [{delta: {content}}]})}\n\n`);
    window.fetch = (path, options) => (path !== 'v1/chat/completions' ? real(path, options)
      : Promise.resolve(new Response(events.join(''))));"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1360, 390])
def test_can_be_read_by_all(page, ui_server, width, dark):
    page.screen(width, 900, dark)
    embed(ui_server)
    page.live()
    for tab in TABS:
        page.tab(tab)
        if tab == "models":
            page.until(lambda: page.all("article.model"), "the models")
        if tab == "playground":
            pick(page, "Embed")
            run(page)
            page.until(lambda: page.all(".heat td"), "the heat map")
            check(page, tab, width, dark)
            pick(page, "Tensors")
            page.until(lambda: page.all("fieldset.tensor"), "the inputs")
            run(page)
            page.until(lambda: page.all(".output"), "the outputs")
            tab = "tensors"
            check(page, tab, width, dark)
            pick(page, "Search")
            page.one("#playground form button.main").click()
            page.until(lambda: page.all("#playground .bars li"), "the passages")
            check(page, "search", width, dark)
            pick(page, "Chat")
            page.driver.execute_script(REPLY)
            page.one("#chat-input").send_keys("What is a penstock?", Keys.ENTER)
            page.until(lambda: page.all(".chat .retry"), "the reply")
            tab = "chat"
        if tab == "requests":
            page.until(lambda: page.all("#slow > *"), "the list")
        check(page, tab, width, dark)
    assert not page.errors()


@pytest.mark.parametrize("dark", [False, True])
def test_the_name_of_every_stage_is_read_on_its_colour(page, ui_server, dark):
    page.screen(1360, 900, dark)
    embed(ui_server)
    page.live()
    page.until(lambda: page.all("#live .stack > div"), "the bar of stages")
    # The bar as it is where one stage takes nearly all of the time, for each of them.
    page.driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        import(new URL('live.js', document.querySelector('script[type=module]').src)).then((live) => {
          const bars = live.STAGES.map(([stage]) => live.stageBar([{stage, share: 1}]));
          // Beside what the page writes anew each second.
          const box = document.createElement('div');
          box.id = 'all-stages';
          box.append(...bars);
          document.querySelector('#live').before(box);
          done(bars.length);
        });""")
    assert len([bar for bar in page.all("#all-stages .stack > div") if " 100" in bar.text]) >= 12
    check(page, "stages", 1360, dark)


def check(page, tab, width, dark):
    """That the tab can be read; and its picture."""
    assert page.driver.execute_script(CHECKS) == [], (tab, width, dark)
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width, tab
    folder = os.environ.get("PENSTOCK_UI_SHOTS")
    if folder:
        name = f"ui-{tab}-{'dark' if dark else 'light'}{'-phone' if width < 500 else ''}.png"
        page.driver.save_screenshot(str(pathlib.Path(folder) / name))


def test_the_keyboard_reaches_everything(page):
    page.live()
    page.driver.execute_script("document.activeElement.blur()")
    body = page.one("body")
    body.send_keys(Keys.TAB)
    assert page.driver.switch_to.active_element.text == "Skip to content"
    page.one("#tab-live").send_keys(Keys.ARROW_RIGHT)
    assert page.driver.switch_to.active_element.get_attribute("id") == "tab-models"
    assert page.one("#models").is_displayed() and not page.one("#live").is_displayed()
    page.driver.switch_to.active_element.send_keys(Keys.END)
    assert page.one("#requests").is_displayed()
    page.driver.switch_to.active_element.send_keys(Keys.HOME)
    page.until(lambda: len(page.driver.execute_script("return performance.getEntriesByType('resource')")) > 0)
    time.sleep(2.2)  # two points at least
    plot = page.one(".chart .plot")
    plot.send_keys(Keys.ARROW_LEFT)
    when = page.one(".chart .when").text
    assert re.fullmatch(r"\d\d:\d\d:\d\d", when)
    spoken = page.one(".chart p.hidden")
    assert spoken.get_attribute("aria-live") == "polite"
    assert spoken.get_attribute("textContent").startswith(f"{when}: receive ")
    page.one("#pause").send_keys("")  # takes the focus
    assert not spoken.get_attribute("aria-live")


def test_the_theme_is_kept(page):
    page.one("#theme").click()
    assert page.one("html").get_attribute("data-theme") == "dark"
    page.driver.refresh()
    assert page.one("html").get_attribute("data-theme") == "dark"
