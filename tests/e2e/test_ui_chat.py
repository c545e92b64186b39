"""The page's chat, in headless Chromium: replies as Markdown, also hostile ones; copy and retry; conversations
that the browser keeps; what is said while a model is loaded."""
import json
import random

import pytest

import scripted_model

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ui_page import CHROMIUM, DRIVER, Page, chat_folder, driver, page, ui_server  # noqa: F401

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="CHROMIUM IS NOT HERE: tools/install_deps.sh ui")

# Shows a text as Markdown in an element of the page; returns its markup without the buttons.
RENDER = """
    const [text] = arguments;
    return import('./ui/markdown.js').then(({showMarkdown}) => {
      const node = document.createElement('div');
      document.querySelector('main').append(node);
      showMarkdown(node, text);
      for (const one of node.querySelectorAll('button, .head')) one.remove();
      const markup = node.innerHTML;
      node.remove();
      return markup;
    });"""


def render(page, text):
    return page.driver.execute_script(RENDER, text)


def link(address, text):
    return f'<a href="{address}" title="{address}" target="_blank" rel="noopener noreferrer nofollow">{text}</a>'


@pytest.mark.parametrize("text, markup", [
    ("One\ntwo\n\nthree", "<p>One\ntwo</p><p>three</p>"),
    ("# A *b* #\n\n###### c", '<div role="heading" aria-level="4" class="h1">A <em>b</em></div>'
                              '<div role="heading" aria-level="6" class="h4">c</div>'),
    ("#no heading", "<p>#no heading</p>"),
    ("**a** __b__ *c* _d_ ***e*** ~~f~~ `g*h*`",
     "<p><strong>a</strong> <strong>b</strong> <em>c</em> <em>d</em> <strong><em>e</em></strong> <del>f</del> <code>g*h*</code></p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("2 * 3 * 4, snake_case_name, **open, `open, 5 \\* 6", "<p>2 * 3 * 4, snake_case_name, **open, `open, 5 * 6</p>"),
    ("``a ` b`` and ` c `", "<p><code>a ` b</code> and <code>c</code></p>"),
    ("- a\n- b\n  - c\n\n  d\n\nend", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li></ul><p>end</p>"),
    ("3. a\n4. b\n   ```\n     x\n   ```\n5. c",
     '<ol start="3"><li><p>a</p></li><li><p>b</p><div class="code"><pre tabindex="0" role="region" aria-label="Code"><code>  x</code>'
     "</pre></div></li><li><p>c</p></li></ol>"),
    ("In\n1990. it was", "<p>In\n1990. it was</p>"),
    ("```py\nif a < b:\n    # no heading\n```\nend",
     '<div class="code"><pre tabindex="0" role="region" aria-label="Code in py"><code>if a &lt; b:\n    # no heading</code></pre></div><p>end</p>'),
    ("~~~\n```\n~~~", '<div class="code"><pre tabindex="0" role="region" aria-label="Code"><code>```</code></pre></div>'),
    ("> a\n> - b\n\n---", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote><hr>"),
    ("t\n| a | b |\n|---|--:|\n| `x` | 1\\|2 |\n| y |\nend",
     '<p>t</p><div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th scope="col">a</th>'
     '<th class="num" scope="col">b</th></tr></thead><tbody><tr><td><code>x</code></td><td class="num">1|2</td></tr>'
     '<tr><td>y</td><td class="num"></td></tr></tbody></table></div><p>end</p>'),
    ("a | b\nno table", "<p>a | b\nno table</p>"),
    ("[a *b*](https://e.com/x_(y)) and https://e.com/z_1. Or <http://e.com/>!",
     f"<p>{link('https://e.com/x_(y)', 'a <em>b</em>')} and {link('https://e.com/z_1', 'https://e.com/z_1')}. "
     f"Or {link('http://e.com/', 'http://e.com/')}!</p>"),
    ("![a picture](https://e.com/p.png)", f"<p>{link('https://e.com/p.png', 'a picture')}</p>"),
    ("[1] and [b](c.html) a<br>b", "<p>[1] and [b](c.html) a<br>b</p>"),
])
def test_markdown(page, text, markup):
    assert render(page, text) == markup
    assert render(page, text.replace("\n", "\r\n")) == markup


HOSTILE = ["<script>owned = 1</script>", "<img src=x onerror='owned = 1'>", "<svg/onload=owned=1>", "[a](javascript:owned=1)",
           "[a](JaVaScRiPt:owned=1)", "[a]( javascript:owned=1)", "[a](data:text/html,<script>owned=1</script>)", "<javascript:owned=1>",
           "[a](https:javascript:owned=1)", '[a](http://e.com/" onclick="owned=1)', "[a](https://e.com/' onmouseover='owned=1)",
           "![a](javascript:owned=1)", "[a](//e.com)", "[a](file:///etc/passwd)", "[a](vbscript:owned=1)", "[a][b]\n\n[b]: javascript:owned=1",
           "```\"><script>owned = 1</script>\nx\n```", "<iframe srcdoc='<script>owned=1</script>'>", "<a href=javascript:owned=1>x</a>",
           "[<img src=x onerror=owned=1>](https://e.com)", "`<script>`", "&#60;script&#62;owned=1&#60;/script&#62;", "<style>*{display:none}</style>",
           "|<script>|a|\n|---|---|\n|<b onclick=owned=1>|[x](javascript:owned=1)|", "https://e.com/<script>owned=1</script>", "\u202ehttps://e.com\u202d",
           "__proto__", "constructor", "[__proto__](https://e.com)", "```__proto__\n```", "\0", "\ufffe\uffff", "\ud83d"]
# What the markup may consist of; a finding is whatever else stands there.
AUDIT = """
    const tags = 'A BLOCKQUOTE BR BUTTON CODE DEL DIV EM HR LI OL P PRE SPAN STRONG TABLE TBODY TD TH THEAD TR UL'.split(' ');
    const names = 'aria-label aria-level class href rel role scope start tabindex target title type'.split(' ');
    const audit = (node) => [...node.querySelectorAll('*')].flatMap((one) => [
      ...(tags.includes(one.tagName) ? [] : [one.outerHTML]),
      ...[...one.attributes].filter(({name, value}) => !names.includes(name) ||
        (name === 'href' && !/^https?:[/][/]/.test(value))).map(({name, value}) => `${name}=${value}`)]);"""


def test_hostile_replies_stay_text(page):
    driver = page.driver
    found = driver.execute_script(AUDIT + """
        return import('./ui/markdown.js').then(({showMarkdown}) => JSON.parse(arguments[0]).map((text) => {
          const node = document.createElement('div');
          document.querySelector('main').append(node);
          showMarkdown(node, text);
          return {wrong: audit(node).map((one) => one.toWellFormed()), text: node.textContent.toWellFormed()};
        }));""", json.dumps(HOSTILE))  # a half of a character does not travel otherwise
    assert [one["wrong"] for one in found] == [[]] * len(HOSTILE)
    for text, shown in zip(HOSTILE, found):
        if text.startswith("<"):
            assert shown["text"] == text, text
    assert driver.execute_script("return window.owned === undefined && !document.querySelector('main img, main script, main iframe')")
    assert not page.errors()


def test_any_text_in_any_pieces_gives_safe_markup_and_the_same(page):
    """Texts of random parts, of a fixed seed, shown at once and as they come."""
    draw = random.Random(20261123)
    parts = [*HOSTILE, "\n", "\n\n", "\n", "- ", "  - ", "1. ", "> ", ">> ", "# ", "```\n", "```", "~~~", "`", "``", "*", "**", "***", "_", "__", "~~",
             "[", "](", ")", "](https://e.com)", "![", "<", ">", "|", "|---|---|\n", "a | b\n", "---\n", "\\", "https://e.com/a_b", "word", " ", "   ",
             "\t", "    ", "<br>", "é𝓗日", "\r\n", "1", ".", "\u00a0"]
    texts = ["".join(draw.choice(parts) for _ in range(draw.randrange(1, 60))) for _ in range(400)]
    wrong = page.driver.execute_script(AUDIT + """
        const texts = JSON.parse(arguments[0]);
        return import('./ui/markdown.js').then(({Markdown, showMarkdown}) => texts.flatMap((text, t) => {
          const whole = document.createElement('div'), pieces = document.createElement('div');
          showMarkdown(whole, text);
          const markdown = new Markdown(pieces);
          for (let at = 0, size = 1 + t % 7; at < text.length; at += size) {
            markdown.text += text.slice(at, at + size);
            markdown.render();
          }
          markdown.end();
          const bad = audit(whole);
          return bad.length || whole.innerHTML !== pieces.innerHTML ? [[text, bad.join(), whole.innerHTML, pieces.innerHTML].map((one) => one.toWellFormed())] : [];
        }));""", json.dumps(texts))
    assert wrong == []
    assert not page.errors()


@pytest.mark.parametrize("part", [
    "*", "**a ", "*a_b ", "[", "![a](", "](http://a", '](http://a "', "`", "`a``b```c", "> ", "- ", "- a\n", "#", "~~~\n", "|", "a|b\n-|-\n", "\n", " ",
    "http://a ", "<http://", "\\", "_a_ ", "[*a](http://b)*", "(", "](http://a(", "- - - x\n", "a"])
def test_a_megabyte_of_anything_takes_seconds_and_nests_little(page, part):
    """A renderer that tried characters again and again would take hours, or overflow the stack."""
    page.driver.set_script_timeout(120)
    took, depth = page.driver.execute_script("""
        const [part, count] = arguments;
        return import('./ui/markdown.js').then(({showMarkdown}) => {
          const node = document.createElement('div'), begin = performance.now();
          showMarkdown(node, part.repeat(count));
          const took = performance.now() - begin;
          let depth = 0;
          for (let at = node; at; at = at.lastElementChild) ++depth;
          return [took, depth];
        });""", part, 1_000_000 // len(part))
    assert took < 90_000 and depth < 40, (part, took, depth)


# Answers v1/chat/completions with the pieces of arguments[0], and keeps what was asked in window.asked.
ANSWER = """
    const [pieces] = arguments;
    const real = window.realFetch = window.realFetch || window.fetch;
    window.asked = [];
    window.fetch = (path, options) => {
      if (path !== 'v1/chat/completions') return real(path, options);
      window.asked.push(JSON.parse(options.body));
      const events = pieces.map((content) => `data: ${JSON.stringify({choices: [{delta: {content}}]})}\\n\\n`);
      return Promise.resolve(new Response(events.join('')));
    };"""


def answer_with(page, *pieces):
    page.driver.execute_script(ANSWER, list(pieces))


def open_chat(page):
    page.tab("playground")
    page.until(lambda: page.all("#playground [data-name=chat]"), "the parts")
    page.one("#playground [data-name=chat]").click()
    page.until(lambda: page.all("#chat-input") and page.one("#chat-input").is_displayed(), "the chat")


def say(page, text):
    page.one("#chat-input").send_keys(text, Keys.ENTER)
    page.until(lambda: page.button("Send", ".chat").is_enabled() and page.all(".chat .retry"), "the reply")


def bubbles(page):
    return [one.text for one in page.all(".bubble :is(.said, .md)")]


def test_a_reply_of_a_server_is_shown_as_markdown(driver, start, tmp_path):
    template = "{% for message in messages %}{{ message.content }}{% endfor %}{% if add_generation_prompt %}<|go|>{% endif %}"
    pieces = ["## The ", "pipe\n\n", "- **bo", "ld** ", "`code", "`\n", "- <b>", "no</b>\n\n", "```", "py\nx = 1\n", "``` \n"]
    folder = scripted_model.write(tmp_path / "marked", {"<|go|>": pieces}, template)
    page = Page(driver, start("--model", f"marked={folder}", preload=False))
    open_chat(page)
    page.one("input[name=temperature]").send_keys("0")
    say(page, "Hello")
    reply = page.one(".bubble.assistant .md")
    assert reply.find_element("css selector", "[role=heading]").text == "The pipe"
    assert reply.find_element("css selector", "li strong").text == "bold"
    assert [one.text for one in reply.find_elements("css selector", "code")] == ["code", "x = 1"]
    assert reply.find_elements("css selector", "li")[1].text == "<b>no</b>"
    assert not page.errors()


def test_a_reply_is_copied_and_asked_for_again(page):
    open_chat(page)
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    answer_with(page, "**On", "e**\n\n```\ncode();\n```")
    say(page, "A question")
    said = "A question"
    page.button("Copy", ".actions").click()
    page.until(lambda: page.all(".actions button")[0].text == "Copied", "the word of it")
    copied = "return navigator.clipboard.readText()"
    assert page.driver.execute_script(copied) == "**One**\n\n```\ncode();\n```"
    page.one(".code button").click()
    page.until(lambda: page.driver.execute_script(copied) == "code();", "the code")

    answer_with(page, "Two")
    page.one(".retry").click()
    page.until(lambda: bubbles(page) == [said, "Two"], "the other reply")
    assert [one["content"] for one in page.driver.execute_script("return window.asked")[0]["messages"]] == [said]
    say(page, "More")
    asked = page.driver.execute_script("return window.asked")[-1]["messages"]
    assert [(one["role"], one["content"]) for one in asked] == [("user", said), ("assistant", "Two"), ("user", "More")]
    assert all(set(one) == {"role", "content"} for one in asked)
    assert len(page.all(".retry")) == 1  # of the last one
    assert not page.errors()


def test_a_retry_that_fails_keeps_the_reply(page):
    open_chat(page)
    answer_with(page, "One")
    say(page, "A question")
    page.driver.execute_script("""
        window.fetch = (path, options) => (path !== 'v1/chat/completions' ? window.realFetch(path, options)
          : Promise.resolve(new Response('{"error": {"message": "no room"}}', {status: 503})));""")
    page.one(".retry").click()
    page.until(lambda: "no room" in page.one("#notice").text, "the refusal")
    page.until(lambda: [one.text for one in page.all(".bubble :is(.said, .md)") if one.is_displayed()] == ["A question", "One"], "the old reply")
    answer_with(page, "Three")
    page.one(".retry").click()
    page.until(lambda: bubbles(page) == ["A question", "Three"], "the new one")


def test_conversations_are_kept_chosen_and_deleted(page):
    open_chat(page)
    answer_with(page, "First *reply*")
    say(page, "First question")
    page.button("New chat", ".chat").click()
    assert not page.all(".bubble")
    answer_with(page, "Second reply")
    say(page, "Second question")
    page.driver.refresh()
    page.until(lambda: page.one("#chat-input").is_displayed(), "the chat after a reload")

    def kept():
        return [one.text.split(" · ")[0] for one in page.all(".kept option")]

    assert sorted(kept()) == ["First question", "New chat", "Second question"]
    choice = Select(page.one(".kept select"))
    choice.select_by_index(kept().index("First question"))
    page.until(lambda: bubbles(page) == ["First question", "First reply"], "the first one")
    assert page.one(".md em").text == "reply"
    answer_with(page, "Third reply")
    say(page, "And then")
    asked = page.driver.execute_script("return window.asked")[0]["messages"]
    assert [one["content"] for one in asked] == ["First question", "First *reply*", "And then"]
    assert sorted(kept()) == ["First question", "Second question"]

    page.button("Delete", ".chat").click()
    assert len(kept()) == 2  # the second press does it
    page.button("Really delete?", ".chat").click()
    page.until(lambda: kept() == ["New chat", "Second question"], "the deletion")
    assert not page.all(".bubble")
    assert len(page.driver.execute_script("return Object.keys(localStorage).filter((one) => one.startsWith('penstock-chat-'))")) == 1
    assert not page.errors()


def test_what_is_kept_is_bounded_and_the_oldest_go(page):
    kept = page.driver.execute_script("""
        return import('./ui/chats.js').then(({keepChat, listChats, readChat, dropChat}) => {
          const chat = (i, length) => ({id: `c${i}`, messages: [{role: 'user', content: 'x'.repeat(length)}]});
          let now = 1e12;
          Date.now = () => ++now;
          for (let i = 0; i < 40; ++i) if (!keepChat(chat(i, 100_000))) return i;
          const all = listChats();
          const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
          const long = keepChat(chat('long', 1_100_000));
          localStorage.setItem('penstock-chat-bad', '{"messages": [{"role": "system", "content": 1}]}');
          localStorage.setItem('penstock-chat-worse', '<b>');
          const bad = [readChat('bad'), readChat('worse'), readChat('none')];
          dropChat('c39');
          return {names: all.map((one) => one.id), bytes, long, bad, after: listChats().map((one) => one.id)};
        });""")
    assert kept["names"] == [f"c{i}" for i in range(39, 29, -1)]
    assert kept["bytes"] <= 2 << 20
    assert kept["long"] is False
    assert kept["bad"] == [None, None, None]
    assert kept["after"][:9] == [f"c{i}" for i in range(38, 29, -1)]


def test_titles_and_replies_of_kept_conversations_are_no_markup(page):
    evil = "<img src=x onerror='owned = 1'>"
    page.driver.execute_script("localStorage.setItem('penstock-chat-a', arguments[0])",
                               json.dumps({"time": 1, "messages": [{"role": "user", "content": evil}, {"role": "assistant", "content": evil, "model": evil}]}))
    page.driver.refresh()
    open_chat(page)
    Select(page.one(".kept select")).select_by_index(1)
    page.until(lambda: bubbles(page) == [evil, evil], "the conversation")
    assert page.driver.execute_script("return window.owned === undefined && !document.querySelector('main img')")


def test_a_model_that_is_being_loaded_is_said(page):
    open_chat(page)
    page.driver.execute_script("""
        const real = window.fetch;
        window.life = {state: 'waiting'};
        const released = new Promise((go) => (window.release = go));
        window.fetch = (path, options) => {
          if (path === 'v1/models') return Promise.resolve(Response.json({data: [{id: 'chat', lifecycle: window.life}]}));
          if (path !== 'v1/chat/completions') return real(path, options);
          return released.then(() => new Response('data: {"choices": [{"delta": {"content": "Here"}}]}\\n\\n'));
        };""")
    page.one("#chat-input").send_keys("Hello", Keys.ENTER)
    wait = page.until(lambda: page.all(".bubble.assistant .wait"), "the bubble")[0]
    page.until(lambda: wait.text == "The model waits to be loaded", "the wait")
    page.driver.execute_script("window.life = {state: 'loading', load_percent: 43}")
    page.until(lambda: wait.text == "The model is being loaded: 43 %", "the load")
    page.driver.execute_script("window.life = {state: 'ready'}")
    page.until(lambda: wait.text == "The model reads the message", "the prompt")
    page.driver.execute_script("window.release()")
    page.until(lambda: bubbles(page) == ["Hello", "Here"], "the reply")
    assert not wait.is_displayed()
    assert not page.errors()


def test_temperature_and_length_stand_beside_send(page):
    open_chat(page)
    send = page.button("Send", ".chat").rect
    for name in ("temperature", "max_completion_tokens"):
        one = page.one(f"input[name={name}]")
        assert one.is_displayed() and abs(one.rect["y"] - send["y"]) < 20
    page.one("input[name=temperature]").send_keys("0.3")
    assert '"temperature":0.3' in page.one(".snippets code").text and '"max_completion_tokens":256' in page.one(".snippets code").text
