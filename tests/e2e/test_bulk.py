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
