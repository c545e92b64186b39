"""The page's views, in headless Chromium: Back and addresses, tiles, GPUs, the choice of models, failed answers,
models that are added, and the search over passages."""
import pathlib
import re

import pytest

from conftest import EMBED, GOLDEN, binary, clean_environment, model_args, run
from fake_hub import FakeHub

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ui_page import CHROMIUM, DRIVER, Page, chat_folder, driver, embed, page, ui_server  # noqa: F401

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="CHROMIUM IS NOT HERE: tools/install_deps.sh ui")


def part(page, name):
    page.tab("playground")
    page.until(lambda: page.all("#playground-model option"), "the models")
    page.one(f"#playground [data-name={name}]").click()


def shown_view(page):
    """The tab that is shown, and the part of the playground."""
    tabs = [one.get_attribute("id") for one in page.all("main > section") if one.is_displayed()]
    assert len(tabs) == 1
    assert page.one(".tabs [aria-selected=true]").get_attribute("id") == f"tab-{tabs[0]}"
    return tabs[0] if tabs[0] != "playground" else page.one("#playground .segments [aria-selected=true]").get_attribute("data-name")


def address(page):
    return page.driver.current_url.removeprefix(page.server.url)


def test_back_goes_through_the_views(page):
    driver = page.driver
    begin = driver.execute_script("return history.length")
    page.tab("models")
    part(page, "rerank")
    part(page, "chat")  # through the tab, which is shown already
    page.tab("requests")
    visited = [("/ui", "live"), ("/ui#models", "models"), ("/ui#playground/embed", "embed"), ("/ui#playground/rerank", "rerank"),
               ("/ui#playground/chat", "chat"), ("/ui#requests", "requests")]
    assert (address(page), shown_view(page)) == visited[-1]
    assert driver.execute_script("return history.length") == begin + len(visited) - 1
    for one in visited[-2::-1]:
        driver.back()
        page.until(lambda: (address(page), shown_view(page)) == one, f"{one} by Back")
    for one in visited[1:]:
        driver.forward()
        page.until(lambda: (address(page), shown_view(page)) == one, f"{one} by Forward")
    assert not page.errors()


def test_an_address_shows_its_view(page):
    driver = page.driver
    for view, shown in (("models", "models"), ("playground/classify", "classify"), ("live", "live")):
        driver.execute_script("location.hash = arguments[0]", view)
        page.until(lambda: shown_view(page) == shown, view)
    driver.get(page.server.url + "/ui#playground/chat")
    driver.refresh()
    page.until(lambda: page.all("#chat-input") and page.one("#chat-input").is_displayed(), "the chat, opened by its address")
    assert driver.title == "Playground – Penstock"
    for nowhere in ("main", "nowhere", "constructor", "playground/nowhere"):
        driver.execute_script("location.hash = arguments[0]", nowhere)
        page.until(lambda: shown_view(page) == "chat", nowhere)
    assert not page.errors()


@pytest.mark.parametrize("width, rows", [(1280, [4, 4]), (1440, [8]), (1000, [4, 4]), (600, [3, 3, 2]), (390, [2, 2, 2, 2])])
def test_tiles_wrap_evenly(page, width, rows):
    page.live()
    page.screen(width, 900)

    def tops():
        found = {}
        for tile in page.all(".tile"):
            if tile.is_displayed():
                found.setdefault(tile.rect["y"], []).append(tile.rect["width"])
        return found

    page.until(lambda: [len(row) for row in tops().values()] == rows, f"rows of {rows}, not {tops()}")
    widths = [one for row in tops().values() for one in row]
    assert max(widths) - min(widths) < 1.5


# ---- GPUs
@pytest.fixture
def gpu_env():
    """The environment of a server with the emulated GPU."""
    fake = pathlib.Path(binary()).resolve().parent / "libfake_cuda_driver.so"
    if not fake.is_file():
        pytest.skip(f"{fake} IS NOT BUILT")
    env = clean_environment(PENSTOCK_CUDA_DRIVER=str(fake))
    probe = run("embed", "--device", "cuda", "--model", GOLDEN / EMBED, stdin=b"a dog", env=env, check=False)
    if b"without kernels" in probe.stderr:
        pytest.skip("THE PROGRAM WAS BUILT WITHOUT NVCC: it has no kernels")
    assert probe.returncode == 0, probe.stderr.decode()
    return env


def memory_text(page, device):
    sizes = [device["memory_used_bytes"], device["memory_budget_bytes"]]
    used, budget = page.driver.execute_script("return import('./ui/dom.js').then(({bytes}) => arguments[0].map(bytes))", sizes)
    return f"{used} of {budget}"


def test_a_gpu_is_shown_beside_the_host(driver, start, gpu_env):
    server = start(*model_args(("embed", EMBED), ("other", EMBED)), "--device", "embed=cuda", env=gpu_env)
    driver.get_log("browser")  # of the test before
    page = Page(driver, server)
    page.live()
    page.until(lambda: page.one("#devices").is_displayed(), "the devices")

    def row(name):
        return page.one(f"#devices [data-device='{name}']")

    def facts():
        return dict(zip(*([one.text for one in row("cuda").find_elements(By.TAG_NAME, tag)] for tag in ("dt", "dd"))))

    page.until(lambda: embed(server) or re.fullmatch(r"[1-9][\d.,]* (B|KiB)/s", facts()["Copied to it"]), "what is copied")
    page.until(lambda: embed(server) or re.fullmatch(r"[1-9][\d.,]* (B|KiB)/s", facts()["Copied from it"]), "what is copied back")
    assert re.fullmatch(r"\d+(\.\d)? %", facts()["Busy"])
    host, gpu = server.get("/v1/stats").json()["devices"]
    assert gpu["graphs"] > 0 and gpu["memory_used_bytes"] > 0
    graphs = f"{gpu['graphs']} kept, {gpu['graph_captures']} captured"
    page.until(lambda: facts()["Graphs"] == graphs, graphs)
    memory = [memory_text(page, device) for device in (host, gpu)]
    assert row("cuda").text.split("\n")[:2] == ["cuda", f"memory of models: {memory[1]}"]
    assert row("cpu").text.split("\n") == ["cpu", f"memory of models: {memory[0]}"]  # and none of the GPU's facts
    by_class = next(one for one in page.all(".chart") if one.text.startswith("Memory by class"))
    assert "on all devices" in by_class.text

    page.tab("models")
    page.until(lambda: page.all("article.model"), "the models")
    page.until(lambda: f"2 of 2 loaded, {memory[0]} on cpu, {memory[1]} on cuda" in page.one("#models").text, "memory by place")
    assert "on cuda" in page.model("embed").text and "on cpu" in page.model("other").text
    assert not page.errors()


def test_figures_of_a_gpu_are_of_the_time_between_two_events(page):
    show = """const [before, stats] = arguments;
        return import('./ui/devices.js').then(({deviceCard}) => {
          const card = deviceCard();
          card.update(stats, before);
          return [...card.node.querySelectorAll('.list dd, .list .when')].map((one) => one.textContent); })"""

    def gpu(busy_s, copied_in, copied_out, uptime_s, device="cuda"):
        return {"uptime_s": uptime_s, "devices": [
            {"device": device, "memory_budget_bytes": 0, "memory_used_bytes": 3 << 20, "busy_s": busy_s,
             "copied_in_bytes": copied_in, "copied_out_bytes": copied_out, "graphs": 7, "graph_captures": 12_345}]}

    def shown(before, stats):
        return page.driver.execute_script(show, before, stats)

    memory, graphs = "memory of models: 3 MiB", "7 kept, 12.3k captured"
    begin = gpu(10, 1000, 0, 100)
    assert shown(begin, gpu(10.5, 1000 + 4096, 300, 102)) == [memory, "25 %", "2 KiB/s", "150 B/s", graphs]
    assert shown(begin, gpu(13, 1000, 0, 101)) == [memory, "100 %", "0 B/s", "0 B/s", graphs]  # a batch of three seconds
    for unknown in (None, gpu(10, 1000, 0, 100, device="cuda:1")):
        assert shown(unknown, gpu(10.5, 1000, 0, 102)) == [memory, "–", "–", "–", graphs]


def test_a_lost_gpu_is_marked(driver, start, gpu_env):
    server = start(*model_args(("embed", EMBED), ("other", EMBED)), "--device", "embed=cuda",
                   env={**gpu_env, "PENSTOCK_FAKE_LOST": "1500"})
    page = Page(driver, server)
    page.live()
    page.until(lambda: page.one("#devices").is_displayed(), "the devices")
    assert not page.one("#devices .state").is_displayed()
    for _ in range(1000):
        if server.post("/v1/embeddings", {"model": "embed", "input": ["a dog"]}).status_code != 200:
            break
    gpu = page.one("#devices [data-device=cuda]")
    page.until(lambda: "the GPU is lost" in gpu.text, "the reason")
    assert gpu.find_element(By.CSS_SELECTOR, ".state").text == "lost"
    assert "lost" not in page.one("#devices [data-device=cpu]").text


def test_without_a_gpu_nothing_is_said_of_devices(page):
    page.live()
    page.until(lambda: page.one("#bottleneck-name").text, "the first statistics")
    assert not page.one("#devices").is_displayed()
    assert "device" not in page.one("#live").text.lower()
    page.tab("models")
    page.until(lambda: page.all("article.model"), "the models")
    assert "cpu" not in page.one("#models").text


def test_a_part_begins_with_the_model_that_fits_best(page):
    def chosen():
        return page.one("#playground-model").get_attribute("value")

    part(page, "rerank")
    assert chosen() == "rerank"
    part(page, "classify")
    assert chosen() == "classify"  # not the reranker, which could do it as well
    Select(page.one("#playground-model")).select_by_value("rerank")
    part(page, "embed")
    part(page, "classify")
    assert chosen() == "rerank"  # what was chosen for this part


def test_percentages_have_one_form(page):
    form = "return import('./ui/dom.js').then(({percent}) => arguments[0].map(percent))"
    assert page.driver.execute_script(form, [0, 0.662, 0.67, 0.99951, 0.0004, 1, None]) == [
        "0 %", "66.2 %", "67 %", "100 %", "0 %", "100 %", "–"]


def counts(page, caption):
    table = next(one for one in page.all("#requests table") if one.find_element(By.TAG_NAME, "caption").get_attribute("textContent") == caption)
    return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]


def test_failed_answers_are_counted_once(page, ui_server):
    for path, body in (("/v1/embeddings", {"model": "embed"}), ("/v1/rerank", {}), ("/nowhere", {}), ("/embed_sparse", {"inputs": "a"})):
        assert ui_server.post(path, body).status_code >= 400
    page.tab("requests")
    page.until(lambda: "since the start" in page.one("#requests").text, "the failures")
    kinds, routes = counts(page, "Failed answers by status"), counts(page, "Failed answers by route")
    for status in {row[1] for row in routes}:
        assert sum(int(row[2]) for row in routes if row[1] == status) == sum(int(row[2]) for row in kinds if row[0] == status)
    assert {row[0] for row in kinds} == {row[1] for row in routes}
    assert f"{sum(int(row[2]) for row in kinds)} since the start" in page.one("#requests").text
    assert all(row[1] for row in kinds)


def test_every_status_has_a_word(page):
    page.driver.execute_script("""
        const real = window.fetch;
        const failures = [424, 0, 400, 418].map((status, i) => ({method: 'POST', route: '/r', status, count: i + 1}));
        window.fetch = (path, ...more) => (path === 'v1/requests'
          ? Promise.resolve(Response.json({slow_request_ms: 1, slow_count: 0, slow: [], errors: [], failures})) : real(path, ...more));""")
    page.tab("requests")
    page.until(lambda: "10 since the start" in page.one("#requests").text, "the failures")
    assert counts(page, "Failed answers by status") == [
        ["400", "malformed", "3"], ["418", "a status that is seldom", "4"], ["424", "the model has no part for it", "1"],
        ["other", "a status that is seldom", "2"]]


# ---- Models
def facts(page, model):
    return dict(zip(*([one.text for one in page.model(model).find_elements(By.TAG_NAME, tag)] for tag in ("dt", "dd"))))


def test_limits_of_a_model_that_is_not_loaded(page):
    """As the server knows them, or that a load tells them."""
    page.driver.execute_script("""
        const life = (state) => ({state, pinned: false, loads: 0, memory: {weights_bytes: 0, activations_bytes: 0, cache_bytes: 0}});
        const model = (id, state, more) => ({id, task: '', aliases: [], ...more, lifecycle: life(state)});
        const data = [model('known', 'absent', {max_tokens: 512}), model('writer', 'absent', {context_length: 8192, max_tokens: 0}),
                      model('unknown', 'absent', {max_tokens: 0}), model('batches', 'absent', {max_batch_size: 8})];
        const real = window.fetch;
        window.fetch = (path, ...more) => (path === 'v1/models' ? Promise.resolve(Response.json({data})) : real(path, ...more));""")
    page.tab("models")
    page.until(lambda: len(page.all("article.model")) == 4, "the models")
    assert [facts(page, name)["Limits"] for name in ("known", "writer", "unknown", "batches")] == [
        "512 tokens a text", "8,192 tokens of context", "told by a load", "8 rows a batch"]


@pytest.fixture
def hub():
    folder = GOLDEN / EMBED
    files = {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*"))
             if file.is_file() and file.name != "expected.json"}
    hub = FakeHub({"acme/embedder": files})
    yield hub
    hub.close()


@pytest.fixture
def hub_env(tmp_path, hub):
    kept = {k: v for k, v in clean_environment().items() if not k.startswith(("HF_", "XDG_", "HUGGING"))}
    return {**kept, "HOME": str(tmp_path), "HF_ENDPOINT": hub.url}


def status_of_pull(page):
    return page.one(".pull p").text


def add(page, name):
    field = page.one("#pull-model")
    field.clear()
    field.send_keys(name, Keys.ENTER)


def test_a_model_is_added(driver, start, hub, hub_env):
    page = Page(driver, start("--allow-pull", env=hub_env))
    page.live()
    page.tab("models")
    driver.get_log("browser")
    add(page, "acme/embedder")
    page.until(lambda: status_of_pull(page) == "acme/embedder is served now.", "the model")
    page.until(lambda: len(page.all("article.model")) == 2, "its card")
    assert "acme/embedder" in page.one("#models .models").text
    assert not page.one(".pull progress").is_displayed()
    assert not page.errors()
    add(page, "acme/gone")
    page.until(lambda: "error" in page.one(".pull p").get_attribute("class") and "acme/gone" in status_of_pull(page), "the refusal")
    add(page, "../x")
    page.until(lambda: "../x" in status_of_pull(page), "the refusal")
    driver.get_log("browser")  # of the 4xx


def test_the_progress_of_a_download_is_shown_and_it_is_stopped(driver, start, hub, hub_env):
    hub.rate = 2000  # bytes a second, so that a pull takes far longer than this test
    page = Page(driver, start("--allow-pull", "--shutdown-timeout-s", "1", env=hub_env))
    page.live()
    page.tab("models")
    add(page, "acme/embedder")
    page.until(lambda: " of " in status_of_pull(page) and "model.safetensors" in status_of_pull(page), "the progress")
    assert page.one(".pull progress").is_displayed()
    assert not page.button("Add", ".pull").is_enabled()
    page.button("Stop", ".pull").click()
    page.until(lambda: status_of_pull(page).startswith("Stopped."), "the stop")
    page.until(lambda: page.button("Add", ".pull").is_enabled(), "the button")
    assert not page.one(".pull progress").is_displayed()


def test_lines_of_a_download(page):
    """Parts of a line that come apart, totals, and an end without success."""
    page.driver.execute_script("""
        const real = window.fetch;
        let stream;
        window.push = (text) => stream.enqueue(new TextEncoder().encode(text));
        window.close = () => stream.close();
        window.fetch = (path, options) => (path !== 'api/pull' ? real(path, options)
          : Promise.resolve(new Response(new ReadableStream({start: (one) => (stream = one)}))));""")
    page.tab("models")
    # This server takes no models, and says so; the box is shown for this test.
    page.driver.execute_script("return import('./ui/live.js').then(({feed}) => { feed.limits.pulls = true; })")
    page.until(lambda: page.all("#pull-model") and page.one("#pull-model").is_displayed(), "the box")
    add(page, "a/b")
    page.driver.execute_script("push('{\"status\": \"pulling x\", \"total\": 2097152, \"comp'); push('leted\": 1048576}\\n')")
    page.until(lambda: status_of_pull(page) == "pulling x: 1 MiB of 2 MiB, 50 %", "the progress")
    assert float(page.one(".pull progress").get_attribute("value")) == 0.5
    page.driver.execute_script("close()")
    page.until(lambda: "connection was lost" in status_of_pull(page), "the word of it")


def test_a_server_that_takes_no_models_says_why(page):
    page.live()
    page.tab("models")
    page.until(lambda: page.all("article.model"), "the models")
    page.until(lambda: "--allow-pull" in status_of_pull(page), "the reason")
    assert not page.one("#pull-model").is_displayed()


# ---- Search
def search(page, query, passages):
    page.one("#search-query").clear()
    page.one("#search-query").send_keys(query)
    page.driver.execute_script("document.getElementById('search-passages').value = arguments[0]; "
                               "document.querySelector('#playground .result').replaceChildren()", passages)
    page.one("#playground form button.main").click()
    page.until(lambda: page.all("#playground .result > *"), "the answer")


def ranking(page):
    return [(one.find_element(By.CSS_SELECTOR, ".head span").text, one.find_element(By.TAG_NAME, "b").text) for one in page.all("#playground .bars li")]


PASSAGES = ["the dog sleeps", "a train\nwas late", "rain falls on the mountain", "an orchestra plays"]


def cosines(server, query):
    """Cosines of the query and each passage, with the prompts that the model has for them."""
    def vectors(texts, kind):
        answer = server.post("/v1/embeddings", {"model": "embed", "input": texts, "input_type": kind})
        return [one["embedding"] for one in answer.json()["data"]]

    asked = vectors([query], "query")[0]
    return [sum(a * b for a, b in zip(asked, one)) for one in vectors(PASSAGES, "document")]


def test_passages_are_ranked_by_cosine(page, ui_server):
    part(page, "search")
    assert [one.get_attribute("value") for one in page.all("#search-reranker option")] == ["rerank", ""]
    Select(page.one("#search-reranker")).select_by_value("")
    search(page, "a dog", "\n\n".join(PASSAGES))
    values = cosines(ui_server, "a dog")
    order = sorted(range(4), key=lambda i: -values[i])
    assert [text for text, _ in ranking(page)] == [PASSAGES[i].replace("\n", " ") for i in order]
    for (_, shown), i in zip(ranking(page), order):
        assert float(shown.replace("−", "-")) == pytest.approx(values[i], abs=0.0006)
    assert not page.errors()


def test_the_best_passages_are_reranked(page, ui_server):
    part(page, "search")
    search(page, "a dog", "\n\n".join(PASSAGES))
    results = ui_server.post("/v1/rerank", {"model": "rerank", "query": "a dog", "documents": PASSAGES}).json()["results"]
    assert [text for text, _ in ranking(page)] == [PASSAGES[one["index"]].replace("\n", " ") for one in results]
    values = cosines(ui_server, "a dog")
    places = {i: place + 1 for place, i in enumerate(sorted(range(4), key=lambda i: -values[i]))}
    for (_, shown), one in zip(ranking(page), results):
        score, cosine, place = shown.replace("−", "-").replace("·", " ").split()
        assert float(score) == pytest.approx(one["relevance_score"], rel=0.006, abs=1e-4)
        assert float(cosine) == pytest.approx(values[one["index"]], abs=0.0006)
        assert place == f"({places[one['index']]}.)"
    assert not page.errors()


def test_vectors_of_passages_are_kept_for_the_next_query(page):
    part(page, "search")
    Select(page.one("#search-reranker")).select_by_value("")
    page.driver.execute_script("""
        const real = window.fetch;
        window.asked = [];
        window.fetch = (path, options) => {
          if (path === 'v1/embeddings') window.asked.push(JSON.parse(options.body));
          return real(path, options);
        };""")
    lines = [f"line {i}" for i in range(130)]
    search(page, "one", "\n".join([*lines, "line 7"]))
    page.until(lambda: len(page.all("#playground .bars li")) == 20, "the best")
    assert "the best 20 of 131 passages" in page.one("#playground .result").text
    search(page, "two", "\n".join([*lines[:100], "new"]))
    page.until(lambda: "of 101 passages" in page.one("#playground .result").text, "the second answer")
    asked = page.driver.execute_script("return window.asked")
    assert [(len(one["input"]), one["input_type"]) for one in asked] == [(64, "document"), (64, "document"), (2, "document"), (1, "query"),
                                                                      (1, "document"), (1, "query")]
    assert asked[4]["input"] == ["new"]


def test_a_search_without_words_is_said(page):
    part(page, "search")
    search(page, "a", " \n \n")
    assert "no passages" in page.one("#playground .result").text
    search(page, "", "a\nb")
    assert "query is empty" in page.one("#playground .result").text
