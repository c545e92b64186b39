"""The web page, in headless Chromium: it shows what /v1/stats says, loads and unloads models, streams
a chat, asks for keys, and lets no markup in.

Needs Chromium and its driver (tools/install_deps.sh ui).
"""
import json
import re
import shutil
import signal
import subprocess
import time

import pytest
import requests

from conftest import EMBED, GOLDEN

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ui_page import CHROMIUM, DRIVER, Page, chat_folder, driver, embed, page, pick, run, ui_server  # noqa: F401

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="CHROMIUM IS NOT HERE: tools/install_deps.sh ui")


def test_what_the_live_tab_shows_is_what_stats_say(page, ui_server):
    counted = ui_server.get("/v1/stats").json()["requests"]["count"]
    for _ in range(20):
        embed(ui_server)
    # A request is counted once its last byte is sent, after its client may have it.
    page.until(lambda: ui_server.get("/v1/stats").json()["requests"]["count"] >= counted + 20, "the last of them")
    stats = ui_server.get("/v1/stats").json()
    page.live()

    def rows():
        return page.driver.execute_script("""
            return Object.fromEntries([...document.querySelectorAll('#stage-table tr')].filter((row) => !row.hidden)
              .map((row) => [row.cells[0].textContent, [...row.cells].slice(1).map((cell) => cell.textContent)]))""")

    page.until(lambda: rows()["whole request"][1] == str(stats["requests"]["count"]), "the number of requests")
    shown = rows()
    assert set(shown) == {one["stage"] for one in stats["stages"] if one["count"]} | {"whole request"}
    for stage in stats["stages"]:
        if stage["count"]:
            share, count, mean, p50, _, p99, longest = shown[stage["stage"]]
            assert float(share.split()[0]) == pytest.approx(stage["percent"], abs=0.06)
            assert int(count) == stage["count"]
            for text, key in ((mean, "mean_ms"), (p50, "p50_ms"), (p99, "p99_ms"), (longest, "max_ms")):
                assert milliseconds(text) == pytest.approx(stage[key], rel=0.006, abs=6e-6), (stage, key)
    assert milliseconds(shown["whole request"][5]) == pytest.approx(stats["requests"]["p99_ms"], rel=0.006)
    assert page.one("#bottleneck-name").text
    assert not page.errors()


def milliseconds(text):
    value, unit = text.split()
    return float(value.replace(",", "")) * {"µs": 1e-3, "ms": 1, "s": 1e3}[unit]


def test_charts_follow_the_load_and_pause(page, ui_server):
    page.live()
    tile = page.one(".tile .big")
    page.until(lambda: embed(ui_server) or float(tile.text.replace(",", "")) > 1, "requests in the first tile")
    paths = "return [...document.querySelectorAll('.chart .line')].map((line) => line.getAttribute('d'))"
    page.until(lambda: sum("L" in path for path in page.driver.execute_script(paths)) > 5, "lines of two points")
    assert len([chart for chart in page.all(".chart") if chart.is_displayed()]) == 14
    for chart in page.all(".chart .plot"):
        assert chart.get_attribute("aria-label").endswith("Arrow keys show earlier values.")
    page.one("#pause").click()
    assert page.one("#pause").get_attribute("aria-pressed") == "true"
    assert page.one("#link").text == "paused"
    before = page.one("#live").get_attribute("innerHTML")
    time.sleep(2.2)  # two events come and change nothing
    assert page.one("#live").get_attribute("innerHTML") == before
    page.one("#pause").click()
    page.until(lambda: page.one("#link").text == "live")
    assert not page.errors()


def test_reset_begins_anew(page, ui_server):
    embed(ui_server)
    page.live()
    page.one("#reset").click()
    page.until(lambda: ui_server.get("/v1/stats").json()["requests"]["count"] == 0, "the reset")
    page.until(lambda: [row.text for row in page.all("#stage-table tr") if row.is_displayed()] ==
               ["whole request – 0 – – – – –"], "the page after it")


def test_a_page_opened_late_has_a_history(driver, ui_server):
    embed(ui_server)
    time.sleep(3)  # points of three seconds
    answer = requests.get(ui_server.url + "/v1/live", stream=True, timeout=10)
    lines = answer.iter_lines()
    assert next(lines) == b"event: history"
    history = json.loads(next(lines).removeprefix(b"data: "))
    answer.close()
    assert len(history["points"]) >= 3
    assert all(len(point) == len(history["fields"]) for point in history["points"])
    page = Page(driver, ui_server)
    page.live()
    assert len(re.findall("[ML]", page.one(".chart .line").get_attribute("d"))) >= 1


def test_models_are_unloaded_loaded_and_pinned(page, ui_server):
    page.tab("models")
    page.until(lambda: len(page.all("article.model")) == 5, "the models")
    model = page.model("classify")
    assert "ready" in model.text

    def press(text):
        next(one for one in model.find_elements(By.TAG_NAME, "button") if one.text == text and one.is_displayed()).click()

    def lifecycle():
        return ui_server.get("/v1/models/classify").json()["lifecycle"]

    press("Unload")
    page.until(lambda: "not loaded" in model.text, "the model's unload")
    assert lifecycle()["state"] == "absent"
    press("Load")
    page.until(lambda: "ready" in model.text, "the model's load")
    assert lifecycle()["state"] == "ready"
    press("Pin")
    page.until(lambda: "pinned" in model.text, "the pin")
    assert lifecycle()["pinned"]
    press("Unpin")
    page.until(lambda: not lifecycle()["pinned"], "the end of the pin")
    assert not page.errors()


def test_embed_rerank_and_classify_in_the_playground(page, ui_server):
    pick(page, "Embed")
    Select(page.one("#playground-model")).select_by_value("embed")
    lines = page.one("#embed-lines")
    lines.clear()
    lines.send_keys("a dog", Keys.ENTER, "a cat", Keys.ENTER, "a dog")
    run(page)
    page.until(lambda: len(page.all(".heat tbody td")) == 9, "the heat map")
    cells = [float(cell.text.replace("−", "-")) for cell in page.all(".heat tbody td")]
    vectors = [one["embedding"] for one in ui_server.post(
        "/v1/embeddings", {"model": "embed", "input": ["a dog", "a cat", "a dog"]}).json()["data"]]
    dot = sum(a * b for a, b in zip(vectors[0], vectors[1]))
    assert cells[1] == pytest.approx(dot, abs=0.006)
    assert cells[0] == cells[2] == 1
    assert '"input":["a dog","a cat","a dog"]' in page.one(".snippets code").text
    page.button("Python", ".snippets").click()
    assert "client.embeddings.create(" in page.one(".snippets code").text

    pick(page, "Rerank")
    run(page)
    page.until(lambda: len(page.all(".bars li")) == 6, "the ranking")
    scores = [float(one.text.replace("−", "-")) for one in page.all(".bars b")]
    assert scores == sorted(scores, reverse=True)

    pick(page, "Classify")
    Select(page.one("#playground-model")).select_by_value("classify")
    run(page)
    page.until(lambda: len(page.all(".bars")) == 2, "the labels")
    assert not page.errors()


def test_lines_that_are_not_compared_are_said(page):
    pick(page, "Embed")
    Select(page.one("#playground-model")).select_by_value("embed")
    fill = "document.getElementById('embed-lines').value = arguments[0]"
    for count, said in ((42, True), (40, False)):
        page.driver.execute_script(fill, "\n".join(f"line {i}" for i in range(count)))
        page.driver.execute_script("document.querySelector('#playground .result').replaceChildren()")
        run(page)
        page.until(lambda: len(page.all(".heat tbody tr")) == 40, "the heat map")
        assert ("The first 40 of 42 lines" in page.one("#playground .result").text) == said


def test_a_better_score_reaches_further_to_the_right(page):
    """Also where some raw scores of an answer lie between 0 and 1; those below zero lie left of the middle."""
    answers = """
        const real = window.fetch;
        const [scores] = arguments;
        const told = {
          'v1/rerank': {results: scores.map((score, index) => ({index, relevance_score: score}))},
          'v1/classify': {data: scores.map((score) => ({predictions: [{label: 'a', score}]}))},
        };
        window.fetch = (path, ...more) => (told[path] ? Promise.resolve(Response.json(told[path])) : real(path, ...more));"""
    bars = """return [...document.querySelectorAll('#playground .bar > div')].map((bar) => {
        const begin = parseFloat(bar.style.marginLeft), width = parseFloat(bar.style.width);
        return [begin, begin + width]; })"""

    def drawn():
        return page.driver.execute_script(bars)

    def shown():
        return [one.text for one in page.all("#playground .bars b")]

    page.driver.execute_script(answers, [1.2, 0.9, -3])
    for part in ("Rerank", "Classify"):
        pick(page, part)
        if part == "Classify":
            page.one("#classify-lines").send_keys(Keys.ENTER, "A third one.")
        run(page)
        page.until(lambda: len(page.all("#playground .bar")) == 3, "the bars")
        assert drawn() == [[50, 70], [50, 65], [0, 50]], part
        assert shown() == ["1.20", "0.900", "−3.00"]
    for scores, bars_of in (([1, 0.9, 0.25], [[0, 100], [0, 90], [0, 25]]),  # probabilities as they are
                            ([8, 2, 0.5], [[0, 100], [0, 25], [0, 6.3]]),
                            ([-0.02, -0.04, -0.04], [[25, 50], [0, 50], [0, 50]])):
        page.driver.execute_script(answers, scores)
        run(page)
        page.until(lambda: drawn() == bars_of, f"the bars of {scores}")


def add_rows(server, rows=2, model="add"):
    """Numbers of `rows` rows, as the request and its sums."""
    row = {"datatype": "INT32", "shape": [rows, 4], "data": list(range(4 * rows))}
    answer = server.post(f"/v2/models/{model}/infer", {"inputs": [{"name": "INPUT0", **row}, {"name": "INPUT1", **row}]})
    assert answer.status_code == 200, answer.text


def test_tensors_in_the_live_tab_and_the_models_tab_are_those_of_stats(page, ui_server):
    page.live()
    page.one("#reset").click()
    page.until(lambda: ui_server.get("/v1/stats").json()["requests"]["count"] == 0, "the reset")
    for _ in range(5):
        add_rows(ui_server, 4)

    def told():
        return next(one for one in ui_server.get("/v1/stats").json()["models"] if one["model"] == "add")

    page.until(lambda: told()["rows"] == 20, "the last rows")  # a run is counted after its answers
    assert (told()["tensors"]["requests"], told()["tensors"]["max_batch_size"]) == (5, 8)
    history = "return import('./ui/live.js').then(({feed}) => feed.stats.models.find((one) => one.model === 'add'))"
    page.until(lambda: page.driver.execute_script(history)["rows"] == 20, "the event with them")
    shown = page.driver.execute_script(history)
    assert shown["tensors"]["requests"] == 5 and shown["batches"] == told()["batches"]

    def tile(label):
        return next(one for one in page.all(".tile") if one.text.startswith(label)).find_element(By.CSS_SELECTOR, ".big").text

    page.until(lambda: add_rows(ui_server, 8) or float(tile("Tensor rows").replace(",", "").replace("k", "e3")) >= 8, "rows in the tile")
    assert tile("Tensor queue") == "0"
    fill = next(one for one in page.all(".chart") if one.text.startswith("Batch fill"))
    # 4 or 8 rows of 8, in a second in which there were some
    page.until(lambda: add_rows(ui_server, 8) or re.search(r"tensors ([5-9]\d(\.\d)?|100) %", fill.text), "the fill of batches")

    page.tab("models")
    page.until(lambda: page.all("article.model"), "the models")
    card = page.model("add")
    for text in ("tensors · builtin", "rows/s", "0 rows, 0 B", "8 rows a batch", "ready"):
        assert text in card.text, (text, card.text)

    def press(text):
        next(one for one in card.find_elements(By.TAG_NAME, "button") if one.text == text and one.is_displayed()).click()

    press("Unload")
    page.until(lambda: "not loaded" in card.text, "the unload")
    press("Load")
    page.until(lambda: "ready" in card.text, "the load")
    assert not page.errors()


def test_tensors_in_the_playground(page, ui_server):
    pick(page, "Tensors")
    page.until(lambda: page.all("fieldset.tensor"), "the inputs")
    rows = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in page.all(".tables tbody tr")]
    assert rows == [[f"{kind}PUT{i}", "INT32", "[any, 4]"] for kind in ("IN", "OUT") for i in range(2)]
    page.one("#tensor-0-values").clear()
    page.one("#tensor-0-values").send_keys("[[1, 2, 3, 40]]")
    run(page)
    page.until(lambda: page.all(".output"), "the outputs")
    assert [one.text.split() for one in page.all(".output pre")] == [["1", "3", "5", "43"], ["1", "1", "1", "37"]]
    done = subprocess.run(["bash", "-c", page.one(".snippets code").text], capture_output=True, timeout=30, check=True)
    assert [one["data"] for one in json.loads(done.stdout)["outputs"]] == [[1, 3, 5, 43], [1, 1, 1, 37]]
    page.button("Python", ".snippets").click()
    code = page.one(".snippets code").text
    compile(code, "snippet", "exec")
    assert "/v2/models/add/infer" in code
    page.button("curl", ".snippets").click()

    shape = page.one("#tensor-0-shape")
    shape.clear()
    shape.send_keys("2")
    assert "2 dimensions" in page.one("fieldset.tensor").text
    assert not page.button("Run", "#playground").is_enabled()
    shape.clear()
    shape.send_keys("2, 4")
    assert page.one("#tensor-0-values").get_attribute("value") == "[0, 1, 2, 3, 4, 5, 6, 7]"
    run(page)  # the other input still has one row
    page.until(lambda: page.all(".result .error"), "the server's refusal")
    assert "INPUT" in page.one(".result .error").text
    page.driver.get_log("browser")  # of the 400


def test_tensors_of_all_kinds(driver, start):
    server = start("--model", "image=builtin:identity?shape=3x-1x-1", "--model", "half=builtin:identity?type=FP16&shape=2",
                   "--model", "whole=builtin:identity?type=INT64&shape=2", "--model", "text=builtin:identity?type=BYTES&shape=2",
                   "--model", "one/b=builtin:identity?shape=1&batch=0", "--model", "third=builtin:identity?type=FP64&shape=1",
                   model=False, preload=False)
    page = Page(driver, server)
    page.live()
    assert not [one.text for one in page.all(".tile, .chart") if one.is_displayed() and one.text.startswith("Token")]
    pick(page, "Tensors")
    model = Select(page.one("#playground-model"))

    def choose(name):
        # Those of the model before stay until they are replaced.
        driver.execute_script("document.querySelectorAll('fieldset.tensor').forEach((one) => one.dataset.old = '1')")
        model.select_by_value(name)
        page.until(lambda: page.button("Load and show", "#playground"), "the button").click()
        page.until(lambda: page.all("fieldset.tensor:not([data-old])"), "the inputs")

    choose("image")
    assert page.one("#tensor-0-shape").get_attribute("value") == "1, 3, 2, 2"
    shape = page.one("#tensor-0-shape")
    shape.clear()
    shape.send_keys("1, 3, 64, 64")
    assert "12.3k elements" in page.one("fieldset.tensor").text
    page.one("#tensor-0-values").clear()
    page.one("#tensor-0-values").send_keys("0.5")
    run(page)
    page.until(lambda: "and 12.2k more" in page.one(".output").text, "the output")
    code = page.one(".snippets code").text
    assert len(code) < 400
    done = subprocess.run(["bash", "-c", code], capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["outputs"][0]["data"] == [0.5] * 12288
    shape.clear()
    shape.send_keys("1, 3, 640, 640")
    assert "too many for this page" in page.one("fieldset.tensor").text

    choose("half")
    assert "binary data alone" in page.one("fieldset.tensor").text
    assert not page.button("Run", "#playground").is_enabled()
    choose("whole")
    values = page.one("#tensor-0-values")
    values.clear()
    values.send_keys("[9007199254740993, 1]")
    assert "9,007,199,254,740,991" in page.one("fieldset.tensor").text
    shape = page.one("#tensor-0-shape")  # the page offers one value for all elements of such a shape
    shape.clear()
    shape.send_keys("200, 2")
    assert "Value of all 400 elements" in page.one("fieldset.tensor").text
    for value, exact in (("9007199254740993", False), ("9007199254740991", True)):
        values.clear()
        values.send_keys(value)
        assert ("9,007,199,254,740,991" in page.one("fieldset.tensor").text) != exact
        assert page.button("Run", "#playground").is_enabled() == exact
    choose("third")
    page.one("#tensor-0-values").clear()
    page.one("#tensor-0-values").send_keys("[0.3333333333333333]")
    run(page)
    page.until(lambda: page.all(".output"), "the output")
    assert page.one(".output pre").text == "0.333333"
    choose("text")
    page.one("#tensor-0-values").clear()
    page.one("#tensor-0-values").send_keys('["<img src=x onerror=alert(1)>", "NaN"]')
    run(page)
    page.until(lambda: page.all(".output"), "the output")
    assert "<img src=x onerror=alert(1)>" in page.one(".output pre").text
    assert not page.all("main img")
    choose("one/b")
    run(page)
    page.until(lambda: page.all(".output"), "the output")
    assert not page.errors()


def test_what_json_has_no_numbers_for_is_shown(page):
    parse = "return import('./ui/tensors.js').then(({parseTensors}) => JSON.stringify(parseTensors(arguments[0])))"
    text = '{"a": [NaN, -Infinity, Infinity, 12345678901234567890, -9223372036854775808, 1.5, 1e3], "NaN": "x NaN \\" 12345678901234567890"}'
    assert json.loads(page.driver.execute_script(parse, text)) == {
        "a": ["NaN", "-Infinity", "Infinity", "12345678901234567890", "-9223372036854775808", 1.5, 1000],
        "NaN": 'x NaN " 12345678901234567890'}


def test_the_digits_of_a_fraction_are_no_number_of_their_own(page):
    parse = "return import('./ui/tensors.js').then(({parseTensors}) => parseTensors(arguments[0]))"
    numbers = ["0.3333333333333333", "-0.12345678901234567890", "1.2345678901234567e+20", "1234567890123456789e5",
               "12345678901234567.5", "2.2250738585072014E-308", "123456789012345"]
    assert page.driver.execute_script(parse, f"[{', '.join(numbers)}]") == [float(one) for one in numbers]
    assert page.driver.execute_script(parse, "[1234567890123456,-1234567890123456]") == ["1234567890123456", "-1234567890123456"]
    assert page.driver.execute_script(parse, '["0.5", "a\\\\", 1234567890123456]') == ["0.5", "a\\", "1234567890123456"]


def test_a_server_that_is_gone_is_said(driver, start):
    server = start()
    page = Page(driver, server)
    page.live()
    assert not page.one("#lost").is_displayed()
    server.process.kill()
    page.until(lambda: page.one("#lost").is_displayed(), "the word of it")
    assert "does not answer" in page.one("#lost").text
    assert page.one("#link").text == "no connection"
    page.tab("models")
    page.until(lambda: "does not answer" in page.one("#models").text, "the same on another tab")
    page.tab("playground")
    page.until(lambda: "does not answer" in page.one("#notice").text, "the same on another tab")


def test_a_server_that_stands_still_is_said_and_pause_stays(driver, start):
    server = start()
    page = Page(driver, server)
    page.live()
    page.one("#pause").click()
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.until(lambda: page.one("#link").text == "no connection", "the word of it")
        assert page.one("#lost").is_displayed()
    finally:
        server.process.send_signal(signal.SIGCONT)
    page.until(lambda: page.one("#link").text == "paused", "the server")
    assert not page.one("#lost").is_displayed()
    before = page.one("#live").get_attribute("innerHTML")
    page.tab("models")
    time.sleep(2.2)  # two events
    page.tab("live")
    assert page.one("#live").get_attribute("innerHTML") == before


def test_a_hidden_page_holds_no_connection(driver, start):
    server = start()
    page = Page(driver, server)
    page.live()

    def streams():
        return server.metrics()["penstock_http_streams"]

    page.until(lambda: streams() == 1, "its stream")
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    try:
        page.until(lambda: streams() == 0, "the end of the stream")
        time.sleep(1.5)  # longer than the wait before it would connect again
        assert streams() == 0
    finally:
        driver.close()
        driver.switch_to.window(first)
    page.until(lambda: streams() == 1, "the stream of the page that is seen again")
    page.live()


def test_a_refused_watcher_is_told_why(driver, start):
    server = start()
    watchers = [requests.get(server.url + "/v1/live", stream=True, timeout=30) for _ in range(100)]
    page = Page(driver, server)
    page.until(lambda: page.one("#lost").is_displayed(), "the refusal")
    assert "100 clients watch already" in page.one("#lost").text
    for one in watchers:
        one.close()
    page.live()
    assert not page.one("#lost").is_displayed()


def test_a_clock_that_is_set_back_begins_anew(driver, start):
    page = Page(driver, start())
    page.live()
    count = "return import('./ui/live.js').then(({feed}) => feed.points.length)"
    future = "return import('./ui/live.js').then(({feed}) => { feed.points[feed.points.length - 1].time += 3600e3; })"
    page.until(lambda: page.driver.execute_script(count) >= 3, "some points")
    page.driver.execute_script(future)
    page.until(lambda: page.driver.execute_script(count) == 1, "the first of the new time")
    page.until(lambda: page.driver.execute_script(count) == 2, "the next one")


def test_the_snippets_run(page, ui_server, tmp_path):
    pick(page, "Rerank")
    curl = page.one(".snippets code").text
    done = subprocess.run(["bash", "-c", curl], capture_output=True, timeout=30, check=True)
    assert len(json.loads(done.stdout)["results"]) == 6
    page.button("Python", ".snippets").click()
    compile(page.one(".snippets code").text, "snippet", "exec")
    pick(page, "Chat")
    compile(page.one(".snippets code").text, "snippet", "exec")


def test_a_chat_streams_and_stops(page):
    pick(page, "Chat")
    page.one("#chat-input").send_keys("Tell me a story")
    page.one(".chat summary").click()
    limit = page.one("input[name=max_completion_tokens]")
    limit.clear()
    limit.send_keys("24")
    page.one("input[name=seed]").send_keys("7")
    page.one("#chat-input").send_keys(Keys.ENTER)
    page.until(lambda: re.search(r"^\d+ tokens, first after .* tokens/s", page.one(".pace").text), "the pace")
    page.until(lambda: page.button("Send", ".chat").is_enabled(), "the end")
    assert page.one(".bubble.assistant .md").text
    page.button("New chat", ".chat").click()
    assert not page.all(".bubble")
    # On a slow line, so that there is something to stop.
    page.driver.execute_cdp_cmd("Network.enable", {})
    line = {"offline": False, "latency": 0, "downloadThroughput": 4000, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", line)
    page.one("#chat-input").send_keys("And now a long one")
    limit.clear()
    limit.send_keys("100")
    page.button("Send", ".chat").click()
    page.until(lambda: page.all(".bubble.assistant") and page.one(".bubble.assistant .md").text, "its text")
    page.button("Stop", ".chat").click()
    page.until(lambda: "stopped" in page.one(".pace").text, "the stop")
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**line, "downloadThroughput": -1})
    assert page.button("Send", ".chat").is_enabled()
    assert not page.errors()


def begin_chat(page, text):
    pick(page, "Chat")
    page.one(".chat summary").click()
    page.one("#chat-input").send_keys(text)


def network(page, **more):
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
        "offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1, **more})


# An answer of one token that does not end before it is stopped.
ENDLESS = """
    const real = window.fetch;
    const chunk = 'data: {"choices": [{"delta": {"content": "Once"}}]}\\n\\n';
    window.fetch = (path, options) => (path !== 'v1/chat/completions' ? real(path, options)
      : Promise.resolve(new Response(new ReadableStream({start(stream) {
        stream.enqueue(new TextEncoder().encode(chunk));
        options.signal.addEventListener('abort', () => stream.error(options.signal.reason));
      }}))));"""


def test_a_new_chat_forgets_the_answer_that_streams(page):
    begin_chat(page, "The old question")
    page.driver.execute_script(ENDLESS)
    page.button("Send", ".chat").click()
    page.until(lambda: page.all(".bubble.assistant") and page.one(".bubble.assistant .md").text, "its text")
    assert "first after" in page.one(".pace").text
    page.button("New chat", ".chat").click()
    page.until(lambda: page.button("Send", ".chat").is_enabled(), "the end")
    assert not page.all(".bubble")
    assert page.one(".pace").text == ""
    assert page.one("#chat-input").get_attribute("value") == ""
    page.one("#chat-input").send_keys("The new question")
    code = page.one(".snippets code").text
    assert "The new question" in code and "The old question" not in code
    assert not page.errors()


def test_a_chat_that_failed_can_be_sent_again(page):
    begin_chat(page, "A question")
    temperature = page.one("input[name=temperature]")
    temperature.send_keys("5")
    page.button("Send", ".chat").click()
    page.until(lambda: "temperature" in page.one("#notice").text, "the refusal")
    page.until(lambda: page.button("Send", ".chat").is_enabled(), "the end")
    assert not page.all(".bubble")
    assert page.one("#chat-input").get_attribute("value") == "A question"
    temperature.clear()
    limit = page.one("input[name=max_completion_tokens]")
    limit.clear()
    limit.send_keys("4")
    assert page.one(".snippets code").text.count("A question") == 1
    page.button("Send", ".chat").click()
    page.until(lambda: "tokens/s" in page.one(".pace").text, "the answer")
    page.until(lambda: page.button("Send", ".chat").is_enabled(), "the end")
    assert len(page.all(".bubble")) == 2
    page.one("#chat-input").send_keys("And then")
    code = page.one(".snippets code").text
    assert code.count('"role":"user"') == 2 and code.count("A question") == 1
    page.driver.get_log("browser")  # of the 400


def test_a_chat_that_is_stopped_before_its_first_token(page):
    begin_chat(page, "A question")
    network(page, latency=3000)
    page.button("Send", ".chat").click()
    page.button("Stop", ".chat").click()
    page.until(lambda: page.one(".pace").text, "the word of it")
    network(page)
    assert page.one(".pace").text == "0 tokens; stopped"
    assert not page.all(".bubble")
    assert page.one("#chat-input").get_attribute("value") == "A question"


def test_slow_and_failed_requests(page, ui_server):
    embed(ui_server, ["a long text " * 200] * 40)
    ui_server.post("/v1/embeddings", {"model": "<img src=x onerror=alert(1)>", "input": "a"})
    page.tab("requests")
    page.until(lambda: page.all("#slow details"), "a slow request")
    page.one("#slow summary").click()
    assert page.one("#slow details .stack").is_displayed()
    assert "POST /v1/embeddings" in page.one("#slow").text
    assert "no such model or route" in page.one("#requests").text
    answer = ui_server.get("/v1/requests").json()
    slow = answer["slow"][0]
    assert sum(slow["stages"].values()) == pytest.approx(slow["ms"], rel=0.05)
    assert not page.errors()


def test_names_and_errors_do_not_become_markup(driver, start, tmp_path):
    evil = "<img src=x onerror=document.title='owned'>"
    name = "<b>bold</b><script>x</script>"  # without "=", which ends a name
    folder = tmp_path / evil  # which the error names
    shutil.copytree(GOLDEN / EMBED, folder)
    (folder / "model.safetensors").write_bytes(b"none")
    server = start("--model", f"{name}={GOLDEN / EMBED}", "--model", f"broken={folder}", model=False, preload=False)
    page = Page(driver, server)
    page.tab("models")
    page.until(lambda: len(page.all("article.model")) == 2, "the models")
    for article in page.all("article.model"):
        next(one for one in article.find_elements(By.TAG_NAME, "button") if one.text == "Load").click()
    page.until(lambda: "failed" in page.one("#models").text, "the failure")
    assert evil in page.model("broken").text
    page.tab("playground")
    page.until(lambda: page.all("#playground-model option"), "the models")
    assert name in page.one("#playground-model").text
    assert not page.all("main img, main b:not(.num):not(.legend b), main script")
    assert "owned" not in driver.title


def test_keys(driver, start):
    server = start("--api-key", "user-key", "--admin-api-key", "admin-key")
    page = Page(driver, server)
    driver.execute_script("sessionStorage.clear()")
    driver.get(server.url + "/ui")
    page.until(lambda: page.one("#key-dialog").is_displayed(), "the question for the key")
    page.one("#key-input").send_keys("wrong", Keys.ENTER)
    page.until(lambda: "not valid" in page.one("#key-why").text, "the refusal")
    page.one("#key-input").send_keys("user-key", Keys.ENTER)
    page.live()
    assert driver.execute_script("return document.cookie") == ""
    assert driver.execute_script("return Object.keys(localStorage).length") == 0
    page.one("#reset").click()
    page.until(lambda: "administrator" in page.one("#notice").text, "the refusal of the reset")
    page.tab("playground")
    page.until(lambda: "$PENSTOCK_API_KEY" in page.one(".snippets code").text, "the snippet")
    assert "user-key" not in page.one("body").text
    page.one("#key").click()
    page.one("#key-input").send_keys("admin-key", Keys.ENTER)
    page.tab("models")
    page.until(lambda: page.all("article.model"), "the models")
    page.button("Unload", "#models").click()
    page.until(lambda: "not loaded" in page.model("embed").text, "the unload")


def test_who_gives_no_key_is_not_asked_again_and_again(driver, start):
    server = start("--api-key", "user-key", "--admin-api-key", "admin-key", "--admin-metrics")
    page = Page(driver, server)
    driver.execute_script("sessionStorage.clear()")
    driver.get(server.url + "/ui")
    dialog = page.one("#key-dialog")
    notice = page.one("#notice")

    def cancel():
        page.until(dialog.is_displayed, "the question for the key")
        page.one("#key-cancel").click()

    cancel()
    page.tab("models")
    cancel()
    time.sleep(2.5)  # the models are read every 2 s
    assert not dialog.is_displayed()
    page.tab("requests")
    cancel()
    time.sleep(3.5)  # the requests every 3 s
    assert not dialog.is_displayed()

    page.one("#key").click()
    page.one("#key-input").send_keys("user-key", Keys.ENTER)
    page.until(lambda: "administrator" in notice.text, "the refusal")
    time.sleep(0.5)  # of both that are refused
    notice.find_element(By.TAG_NAME, "button").click()
    time.sleep(3.5)  # the requests are read every 3 s
    assert not notice.is_displayed()
    page.tab("models")
    page.tab("requests")
    page.until(lambda: "administrator" in notice.text, "the refusal, once it is shown anew")

    page.one("#key").click()
    page.one("#key-input").send_keys("admin-key", Keys.ENTER)
    page.until(lambda: "are shown" in page.one("#requests").text, "the requests")
    reads = "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/v1/requests')).length"
    before = driver.execute_script(reads)
    page.until(lambda: driver.execute_script(reads) >= before + 2, "the next ones")
    assert page.one("#link").text == "live"


def test_first_paint(page):
    page.live()
    page.driver.refresh()
    page.live()
    paint = page.until(lambda: page.driver.execute_script(
        "const paint = performance.getEntriesByName('first-contentful-paint')[0]; return paint && paint.startTime"), "a paint")
    assert paint < 2000  # the target of 200 ms is for a machine that does nothing else: penstock-lab ui
    print(f"first contentful paint {paint:.0f} ms")
