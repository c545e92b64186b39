"""The web page in headless Chromium, for the tests of it: a server, a driver, and what is on the page."""
import shutil

import pytest

from conftest import ALL_MODELS, GOLDEN, model_args, serving

selenium = pytest.importorskip("selenium")
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
CHAT = GOLDEN.parent / "decoders" / "llama"
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ui") / "chat"
    shutil.copytree(CHAT, folder)
    (folder / "chat_template.jinja").write_text(CHATML)
    return folder


@pytest.fixture(scope="module")
def ui_server(chat_folder):
    # As drawn from all tokens, a text of random weights goes on long enough to be stopped.
    drawn = ("--temperature", "chat=1", "--top-k", "chat=0", "--top-p", "chat=1", "--min-p", "chat=0")
    with serving(*model_args(*ALL_MODELS), "--model", f"chat={chat_folder}", *drawn,
                 "--model", "add=builtin:add?type=INT32&shape=4&batch=8", "--slow-request-ms", "1") as server:
        yield server


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking", "--window-size=1360,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    def __init__(self, driver, server, path="/ui"):
        self.driver, self.server = driver, server
        self.screen()
        driver.get(server.url + path)

    def screen(self, width=1360, height=900, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, holds, what="it"):
        return WebDriverWait(self.driver, 20, 0.05).until(lambda _: holds(), f"waited for {what}")

    def tab(self, name):
        self.one(f"#tab-{name}").click()

    def live(self):
        self.until(lambda: self.one("#link").text == "live", "the first events")
        self.until(lambda: self.all("#stage-table tr"), "the stages")

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" or "Content Security Policy" in entry["message"]]

    def model(self, name):
        return self.one(f"article[data-model='{name}']")

    def button(self, text, inside="main"):
        return next(one for one in self.all(f"{inside} button") if one.text == text and one.is_displayed())


@pytest.fixture
def page(driver, ui_server):
    page = Page(driver, ui_server)
    driver.get_log("browser")  # of the test before
    driver.execute_script("sessionStorage.clear(); localStorage.clear()")
    driver.get(ui_server.url + "/ui")
    return page


def embed(server, texts=("a dog", "a cat")):
    assert server.post("/v1/embeddings", {"model": "embed", "input": list(texts)}).status_code == 200


def pick(page, name):
    page.tab("playground")
    page.button(name, "#playground").click()
    page.until(lambda: page.all("#playground-model option"), "the models")


def run(page):
    page.button("Run", "#playground").click()
