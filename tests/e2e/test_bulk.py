"""Bulk work: who is bulk."""
from conftest import EMBED, GOLDEN, run


def test_bulk_requests_are_answered_like_others(server):
    alone = server.post("/embed", {"inputs": ["a dog", "a cat"]}).json()
    for priority in ("bulk", "interactive"):
        answer = server.post("/embed", {"inputs": ["a dog", "a cat"]},
                             headers={"X-Penstock-Priority": priority})
        assert answer.status_code == 200 and answer.json() == alone


def test_a_bulk_key_is_a_key(start):
    server = start("--bulk-api-key", "b", "--bulk-route", "/v1/embeddings")
    assert server.post("/embed", {"inputs": "a"}).status_code == 401
    for key, status in (("b", 200), ("c", 401)):
        headers = {"Authorization": f"Bearer {key}"}
        assert server.post("/embed", {"inputs": "a"}, headers=headers).status_code == status


def test_a_bulk_route_must_exist():
    done = run("serve", "--port", 0, "--model", GOLDEN / EMBED, "--bulk-route", "/v2/embeddings",
               check=False)
    assert done.returncode != 0
    assert "'/v2/embeddings' is none" in done.stderr.decode()


def test_a_bulk_run(start):
    server = start()
    begun = server.post("/v1/bulk", {"action": "begin"}).json()
    assert begun["object"] == "bulk_run" and begun["state"] == "open" and begun["idle_s_max"] == 600
    headers = {"X-Penstock-Bulk-Id": begun["id"]}
    for _ in range(3):
        assert server.post("/embed", {"inputs": "a dog"}, headers=headers).status_code == 200
    ended = server.post("/v1/bulk", {"action": "end", "id": begun["id"]}).json()
    assert ended["id"] == begun["id"] and ended["state"] == "ended" and ended["requests"] == 3
    # A model of a few kilobytes holds too little.
    assert ended["released"] is False and "too little" in ended["reason"]
    assert ended["released_bytes"] == 0


def test_a_bulk_run_that_is_not_open(server):
    late = server.post("/v1/bulk", {"action": "end", "id": "bulk-0"})
    assert late.status_code == 404 and late.json()["error"]["param"] == "id"
    for path, body in (("/embed", {"inputs": "a"}), ("/v1/embeddings", {"input": "a"})):
        answer = server.post(path, body, headers={"X-Penstock-Bulk-Id": "bulk-0"})
        assert answer.status_code == 404 and "no bulk run 'bulk-0' is open" in answer.text
        assert "X-Penstock-Bulk-Id" in answer.text
    strange = server.post("/embed", {"inputs": "a"}, headers={"X-Penstock-Bulk-Id": "a b"})
    assert strange.status_code == 400 and "X-Penstock-Bulk-Id" in strange.json()["error"]
    for body in ({}, {"action": "pause"}, {"action": "end"}, {"action": "end", "id": 3}):
        assert server.post("/v1/bulk", body).status_code == 400, body


def test_bulk_runs_are_bounded(start):
    server = start()
    ids = [server.post("/v1/bulk", {"action": "begin"}).json()["id"] for _ in range(16)]
    assert len(set(ids)) == 16
    full = server.post("/v1/bulk", {"action": "begin"})
    assert full.status_code == 429 and "16 bulk runs are open" in full.text
    one = server.post("/v1/bulk", {"action": "end", "id": ids[0]}).json()
    assert one["released"] is False and one["reason"] == "nothing ran since the run began"
    assert server.post("/v1/bulk", {"action": "begin"}).status_code == 200
