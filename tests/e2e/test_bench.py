"""penstock bench: that it measures and reports; how fast anything is, is not asked here."""
import json
import subprocess
import xml.etree.ElementTree

from conftest import EMBED, GOLDEN, RERANK, clean_environment, run


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_kernels(tmp_path):
    done = run("lab", "kernels", "--shape", "MiniLM-L6", "--tokens", 16, "--rounds", 1,
               "--threads", 1, "--dtype", "f32", "--dtype", "int8", "--json", tmp_path / "r.json")
    table = done.stdout.decode()
    assert "feed-forward out" in table and "peak: f32" in table
    found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
    assert set(found) == {f"gemm.{t}.minilm_l6_16.percent_of_peak" for t in ("f32", "int8")}
    assert all(value > 0 for value in found.values())


def test_whole_model(tmp_path):
    done = run("lab", "kernels", "--model", GOLDEN / EMBED, "--name", "small", "--sequences", 3,
               "--length", 8, "--rounds", 1, "--dtype", "f32", "--dtype", "bf16", "--dtype", "int8",
               "--json", tmp_path / "r.json")
    assert "% of limit" in done.stdout.decode()
    found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
    assert set(found) == {f"model.{t}.small_3x8.percent_of_limit" for t in ("f32", "bf16", "int8")}
    assert all(value > 0 for value in found.values())


def test_http_sweep(tmp_path):
    done = run("bench", "http", "--model", GOLDEN / EMBED, "--server-flag=--threads=1",
               "--duration", 0.3, "--warmup", 0.1, "--batch", "1,3", "--concurrency", "1,2",
               "--lengths", "fixed:5", "--json", tmp_path / "r.json", "--plot", tmp_path / "p.svg")
    table = done.stdout.decode().splitlines()
    assert len(table) == 6 and "batch=3 concurrency=2" in table[-1]
    found = {(r["name"], r["row"]): r["value"] for r in records(tmp_path / "r.json")}
    row = "batch=3 concurrency=2"
    assert found["http.requests_per_s", row] > 0 and found["http.errors", row] == 0
    assert abs(found["http.texts_per_s", row] / found["http.requests_per_s", row] - 3) < 1e-6
    assert 0 < found["http.p50_ms", row] <= found["http.p99_ms", row] <= found["http.max_ms", row]
    assert found["http.server_processors", row] >= 0
    root = xml.etree.ElementTree.parse(tmp_path / "p.svg").getroot()
    assert sum(e.tag.endswith("circle") for e in root.iter()) == 8


def test_http_open_loop_with_bulk_beside_it(start, tmp_path):
    server = start()
    texts = tmp_path / "texts.txt"
    texts.write_text("one line\nanother line\n")
    done = run("bench", "http", "--url", server.url, "--server-pid", server.process.pid,
               "--texts", texts, "--rate", 40, "--duration", 1, "--warmup", 0, "--route", "/embed",
               "--background-concurrency", 1, "--background-batch", 2, "--json", tmp_path / "r.json")
    found = {(r["name"], r["row"]): r["value"] for r in records(tmp_path / "r.json")}
    assert 10 < found["http.requests_per_s", "batch=1 rate=40"] < 100
    assert found["http.texts_per_s", "batch=1 rate=40 background"] > 0
    assert "background" in done.stdout.decode()


def test_http_exit_code_tells_of_errors(start):
    server = start("--max-concurrent-requests", 1)
    address = server.url.removeprefix("http://") + "/v1"
    load = ("bench", "http", "--url", address, "--concurrency", 16, "--batch", 8, "--duration", 0.5, "--warmup", 0)
    done = run(*load, check=False)
    assert done.returncode == 1 and "429: " in done.stderr.decode(), done.stderr
    assert "429: " in done.stdout.decode() and "server cpu" not in done.stdout.decode()
    assert run(*load, "--allow-errors", check=False).returncode == 0


def test_http_over_tls(start, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    server = start("--tls-cert", cert, "--tls-key", key)
    url = server.url.replace("http://", "https://")
    load = ("bench", "http", "--url", url, "--requests", 40, "--warmup", 0, "--json", tmp_path / "r.json")
    done = run(*load, check=False)
    assert done.returncode == 1 and "certificate verify failed" in done.stderr.decode(), done.stderr
    for trust in (("--ca-cert", cert), ("--insecure",)):
        run(*load, *trust)
        found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
        assert found["http.requests_per_s"] > 0 and found["http.errors"] == 0
    run(*load, env={**clean_environment(), "SSL_CERT_FILE": str(cert)})
    other = run(*load[:3], url.replace("127.0.0.1", "localhost"), *load[4:], "--ca-cert", cert, check=False)
    assert other.returncode == 1 and "certificate" in other.stderr.decode(), other.stderr


def test_http_rerank(tmp_path):
    run("bench", "http", "--model", GOLDEN / RERANK, "--route", "/v1/rerank", "--batch", 4,
        "--requests", 20, "--warmup", 0, "--lengths", "fixed:5", "--json", tmp_path / "r.json")
    found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
    assert found["http.texts_per_s"] > 0


def test_http_says_what_is_wrong():
    for arguments, said in (((), "--url or --model"),
                            (("--url", "ftp://x"), "http://HOST:PORT"),
                            (("--url", "http://127.0.0.1:1"), "127.0.0.1:1"),
                            (("--url", "http://127.0.0.1:99999"), "--url is"),
                            (("--url", "http://127.0.0.1/other/path"), "--url is"),
                            (("--url", "https://127.0.0.1:1", "--ca-cert", "/nonexistent"), "/nonexistent"),
                            (("--url", "https://127.0.0.1:1", "--ca-cert", __file__), "holds no certificates"),
                            (("--url", "http://x", "--lengths", "long"), "lognormal"),
                            (("--model", "/nonexistent/model"), "ended before")):
        done = run("bench", "http", *arguments, check=False)
        assert done.returncode != 0 and said in done.stderr.decode(), (arguments, done.stderr)


def test_reindex(tmp_path):
    run("bench", "reindex", "--model", GOLDEN / EMBED, "--threads", 1, "--rounds", 1, "--rows", 3000,
        "--json", tmp_path / "r.json")
    found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
    assert found["reindex.kernel_loop_texts_per_s"] > 0
    assert found["reindex.rate_ratio_vs_kernel_loop"] > 0
    assert found["reindex.url_rate_ratio_vs_kernel_loop"] > 0


def test_saturation(tmp_path):
    done = run("lab", "saturation", "--model", GOLDEN / EMBED, "--threads", 1, "--rounds", 1,
               "--round-s", 0.3, "--interactive-s", 0.5, "--interactive-rate", 50,
               "--lengths", "uniform:2,20", "--json", tmp_path / "r.json")
    found = {r["name"]: r["value"] for r in records(tmp_path / "r.json")}
    assert found["http.kernel_loop_texts_per_s"] > 0 and found["http.texts_per_s"] > 0
    raw = found["http.ratio_vs_kernel_loop_raw"]
    assert abs(found["http.texts_per_s"] / found["http.kernel_loop_texts_per_s"] - raw) < 1e-6
    assert found["http.ratio_vs_kernel_loop"] >= raw > 0
    assert found["http.interactive_p99_ratio"] > 0
    assert "kernel loop" in done.stdout.decode()


def test_batcher(tmp_path):
    done = run("lab", "batcher", "--producers", "2,5", "--row-bytes", "4,128", "--rounds", 1,
               "--seconds", 0.02, "--latency-seconds", 0.3, "--idle-seconds", 0.2,
               "--json", tmp_path / "r.json")
    found = {(r["name"], r.get("row", "")): r["value"] for r in records(tmp_path / "r.json")}
    for name in ("ratio_vs_best_mpmc_2p", "reservations_per_s", "rows_per_s_submit_to_result"):
        assert found["batcher." + name, ""] > 0, name
    assert ("batcher.added_p99_us_at_10rps", "") in found
    # An executor that waits sleeps: the rest is the clock of the measuring thread.
    assert found["batcher.idle_processor_percent", ""] < 1
    row = "row_bytes=128 producers=5 burst=16 contender="
    for contender in ("penstock, leaders", "penstock, callbacks", "mutex+condvar", "boost lockfree"):
        assert found["batcher.rows_per_s", row + contender] > 0, contender
    assert "submit->sealed" in done.stdout.decode()
    assert run("lab", "batcher", "--row-bytes", 6, check=False).returncode != 0


def test_a_part_of_the_stages(start):
    text = {"inputs": "a text of some words", "normalize": False}
    all_stages = start().post("/embed", text)
    assert "X-Penstock-Run-Stages" not in all_stages.headers
    tokenize = start("--run-stages", "tokenize")
    answer = tokenize.post("/embed", text)
    assert answer.headers["X-Penstock-Run-Stages"] == "tokenize"
    assert answer.json() == [[0.0] * len(all_stages.json()[0])]
    assert any("worthless" in line for line in tokenize.log)
    infer = start("--run-stages", "infer").post("/embed", text)
    assert infer.headers["X-Penstock-Run-Stages"] == "infer"
    assert len(infer.json()[0]) == len(all_stages.json()[0]) and infer.json() != all_stages.json()
    usage = start("--run-stages", "infer").post("/v1/embeddings", {"input": "x" * 60}).json()["usage"]
    assert usage["prompt_tokens"] == 12
