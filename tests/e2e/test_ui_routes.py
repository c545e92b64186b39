"""What the web page is served with, without a browser: headers, keys, origins, watchers."""
import time

import requests

from conftest import ROOT, wait_for


def test_the_pages_headers(server):
    for path in ("/ui", "/ui/app.js", "/ui/style.css"):
        answer = server.get(path)
        assert answer.status_code == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "Set-Cookie" not in answer.headers
        again = server.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert "Content-Length" not in again.headers
        plain = server.get(path, headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content and "Content-Encoding" not in plain.headers
    assert server.get("/ui/nothing.js").status_code == 404
    assert server.get("/ui/", allow_redirects=False).headers["Location"] == "../ui"
    assert server.get("/ui/").status_code == 200
    assert requests.head(server.url + "/ui").status_code == 200


def test_the_root_is_the_page_for_browsers_only(server):
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    page = server.get("/", headers=browser)
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Accept" in page.headers["Vary"]
    assert server.get("/").json()["name"] == "penstock"
    assert server.post("/", {"inputs": "a"}, headers=browser).headers["Content-Type"] == "application/json"


def test_the_page_needs_no_key_and_its_data_does(start):
    server = start("--api-key", "k", "--admin-api-key", "a", "--admin-metrics")
    html = {"Accept": "text/html"}
    assert server.get("/ui").status_code == 200
    assert server.get("/", headers=html).status_code == 200
    assert server.get("/").status_code == 401
    for path in ("/v1/live", "/v1/requests"):
        assert server.get(path).status_code == 401
        assert server.get(path, headers={"X-API-Key": "k"}).status_code == 403
    assert server.get("/v1/requests", headers={"X-API-Key": "a"}).status_code == 200


def test_other_origins_and_hosts_are_kept_out(server):
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert server.post("/admin/models/unload", None, headers=foreign).status_code == 403
    answer = requests.post(server.url + "/admin/models/unload", data='{"model": "embed"}', timeout=10,
                           headers={**foreign, "Content-Type": "text/plain"})
    assert answer.status_code == 403
    preflight = requests.options(server.url + "/admin/models/unload", timeout=10,
                                 headers={**foreign, "Access-Control-Request-Method": "POST"})
    assert "Access-Control-Allow-Origin" not in preflight.headers
    for path in ("/ui", "/v1/live", "/"):
        assert server.get(path, headers={"Host": "evil.example", "Accept": "text/html"}).status_code == 403
    assert server.get("/v1/models/embed").json()["ready"]


def test_watchers_do_not_hold_up_the_end(start):
    server = start()
    watcher = requests.get(server.url + "/v1/live", stream=True, timeout=30)
    assert next(watcher.iter_lines()) == b"event: history"
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 5
    list(watcher.iter_lines())  # the stream ends in order
    log = "".join(server.log)
    assert "slow request" not in log


def test_watchers_are_limited_and_not_failures(start):
    server = start()
    watchers = [requests.get(server.url + "/v1/live", stream=True, timeout=30) for _ in range(101)]
    assert [one.status_code for one in watchers] == [200] * 100 + [429]
    for one in watchers:
        one.close()
    wait_for(lambda: server.metrics()["penstock_http_streams"] == 0, 20)
    metrics = server.metrics()
    assert metrics["penstock_http_streams"] == 0
    assert metrics['penstock_http_requests_total{route="/v1/live",method="GET",code="200"}'] == 100
    assert 'penstock_http_requests_total{route="/v1/live",method="GET",code="499"}' not in metrics


def test_the_scripts_use_no_sink_for_markup():
    for path in (ROOT / "src" / "ui" / "page").iterdir():
        text = path.read_text()
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "cookie",
                       "https://", "localhost"):
            assert banned not in text.replace("http://www.w3.org/2000/svg", ""), (path.name, banned)
