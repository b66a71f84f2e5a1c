"""`/v1/keys`: an admin manages keys over HTTP."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.chat.conftest import CONFIG, upstream
from server.chat.test_bounds import until
from server.keys.test_http import NewKey, create, new_key, served, url
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyRules, KeyStore

__all__ = ["new_key", "served", "upstream", "url"]


def client_of(served: Served, key: str) -> httpx2.Client:
    """Return a client with a key."""
    return httpx2.Client(base_url=served.url, headers={"authorization": f"Bearer {key}"}, timeout=20)


def test_a_key_from_its_creation_to_its_end(served: Served, new_key: NewKey) -> None:
    """It is created, used, changed, rotated and revoked, and the log has each change with its admin."""
    with client_of(served, new_key(role="admin")) as admin:
        own = admin.get("/keys/self").json()["id"]
        answer = admin.post("/keys", json={"name": "bob", "rules": {"models": ["podium"], "day_cost": 1.0}})
        made = answer.json()
        assert (answer.status_code, made["rules"]["day_cost"], made["days"]) == (201, 1.0, None)
        assert create(served, made["key"]).status_code == 200
        path = f"/keys/{made['id']}"
        assert until(lambda: bool(admin.get(path).json()["days"]))
        shown = admin.get(path).json()
        assert (shown["key"], shown["days"][0]["requests"]) == (None, 1)
        assert shown["days"][0]["cost"] == pytest.approx(0.0027)
        changed = admin.post(path, json={"rules": {"requests_per_minute": 5}}).json()
        assert (changed["rules"]["requests_per_minute"], changed["rules"]["day_cost"]) == (5, None)
        text = admin.post(f"{path}/rotate", json={"grace_seconds": 60}).json()["key"]
        for valid in (made["key"], text):
            with client_of(served, valid) as client:
                assert client.get("/models").status_code == 200
        assert admin.request("DELETE", path).json()["revoked"] is not None
        listed = admin.get("/keys").json()["data"]
        assert {each["name"]: each["revoked"] is None for each in listed} == {"bob": False, "key 0": True}
        log = [(each["what"], each["who"]) for each in admin.get("/keys/changes").json()["data"]]
        assert log[1:] == [(what, own) for what in ("create", "update", "rotate", "revoke")]
        assert "podium_sk_" not in admin.get("/keys/changes").text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"name": "bob", "rules": {"models": ["podiun"]}}, "there is no model 'podiun'"),
        ({"name": "bob", "rules": {"allowed": ["three"]}}, "'three'"),
        ({"name": "bob", "rules": {"day": 1}}, "day"),
        ({"name": "bob", "rules": {"day_cost": -1.0}}, "day_cost of a key is -1.0"),
        ({"name": "key 0"}, "a key named 'key 0' exists"),
        ({}, "name"),
    ],
)
def test_wrong_bodies(served: Served, new_key: NewKey, body: dict[str, Any], told: str) -> None:
    """The error names what is wrong, and no key is made."""
    with client_of(served, new_key(role="admin")) as admin:
        answer = admin.post("/keys", json=body)
        assert (answer.status_code, told in answer.json()["error"]["message"]) == (400, True), answer.text
        assert len(admin.get("/keys").json()["data"]) == 1


def test_only_an_admin_manages_keys(served: Served, new_key: NewKey) -> None:
    """Each route refuses another role, and names what it needs."""
    with client_of(served, new_key(role="approve")) as client:
        one = client.get("/keys/self").json()["id"]
        paths = [("GET", ""), ("POST", ""), ("GET", "/changes"), ("POST", f"/{one}/rotate")]
        paths += [(method, f"/{one}") for method in ("GET", "POST", "DELETE")]
        for method, path in paths:
            answer = client.request(method, f"/keys{path}", json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "role_missing")
    with client_of(served, new_key(role="admin")) as admin:
        assert admin.get("/keys/nobody").json()["error"]["code"] == "key_not_found"


def test_the_first_key_closes_a_server(upstream: ChatServer, tmp_path: Path) -> None:
    """A server that was started without keys answers nobody after the first key was made."""
    text = CONFIG.format(url=upstream.url, models="", server="")
    with serving(text, tmp_path) as running:
        assert httpx2.get(f"{running.url}/models").status_code == 200
        assert httpx2.get(f"{running.url}/keys").json()["error"]["code"] == "no_keys"
        store = KeyStore(SqlJournal(tmp_path / "runs.db"))
        _, token = run_sync(lambda: store.create("alice", KeyRules()))
        headers = {"x-api-key": token}
        assert until(lambda: httpx2.get(f"{running.url}/models", headers=headers).status_code == 401)
        answer = httpx2.get(f"{running.url}/models", headers=headers)
        assert "this server began without keys: restart it" in answer.json()["error"]["message"]
