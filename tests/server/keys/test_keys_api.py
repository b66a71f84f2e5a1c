"""`/v1/keys`: an admin manages keys over HTTP."""

from typing import Any

import pytest
from server.keys.test_http import create
from server.scene import Serve, until
from servers.podium_server import Served


def test_a_key_from_its_creation_to_its_end(serve: Serve) -> None:
    served = serve(keys=True)
    admin = served.http(served.key(role="admin"))
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
        assert served.http(valid).get("/models").status_code == 200
    assert admin.request("DELETE", path).json()["revoked"] is not None
    listed = admin.get("/keys").json()["data"]
    assert {each["name"]: each["revoked"] is None for each in listed} == {"bob": False, "key 0": True}
    log = [(each["what"], each["who"]) for each in admin.get("/keys/changes").json()["data"]]
    assert log[1:] == [(what, own) for what in ("create", "update", "rotate", "revoke")]
    assert "podium_sk_" not in admin.get("/keys/changes").text


def test_wrong_bodies(keyed: Served) -> None:
    admin = keyed.http(keyed.key(role="admin"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "bob", "rules": {"models": ["podiun"]}}, "there is no model 'podiun'"),
        ({"name": "bob", "rules": {"allowed": ["three"]}}, "'three'"),
        ({"name": "bob", "rules": {"day": 1}}, "day"),
        ({"name": "bob", "rules": {"day_cost": -1.0}}, "day_cost of a key is -1.0"),
        ({"name": "key 0"}, "a key named 'key 0' exists"),
        ({}, "name"),
    ]
    for body, told in cases:
        answer = admin.post("/keys", json=body)
        assert (answer.status_code, told in answer.json()["error"]["message"]) == (400, True), answer.text
    assert len(admin.get("/keys").json()["data"]) == 1
    assert admin.get("/keys/nobody").json()["error"]["code"] == "key_not_found"


def test_only_an_admin_manages_keys(keyed: Served) -> None:
    client = keyed.http(keyed.key(role="approve"))
    one = client.get("/keys/self").json()["id"]
    paths = [("GET", ""), ("POST", ""), ("GET", "/changes"), ("POST", f"/{one}/rotate")]
    paths += [(method, f"/{one}") for method in ("GET", "POST", "DELETE")]
    for method, path in paths:
        answer = client.request(method, f"/keys{path}", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "role_missing")
