"""Requests over HTTP with API keys, which an admin manages: every route but health needs one."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import openai
import pytest
from server.scene import ASKED, COST, Serve, both, called, keys_in, team, until
from servers.chat_server import Call, ChatServer, Reply
from servers.podium_server import Served, serving

from podium.aio import run_sync


def create(served: Served, key: str, **options: Any) -> Any:
    with served.client(key) as client:
        return client.chat.completions.with_raw_response.create(model="podium", messages=ASKED, **options)


def budget(served: Served, key: str, name: str = "spent") -> float:
    (day, *_) = served.http(key).get("/keys/self").json()["budgets"]
    return float(day[name])


def test_every_route_but_health_needs_a_key(keyed: Served) -> None:
    for path in ("/v1/models", "/v1/models/podium", "/v1/keys/self"):
        for headers in ({}, {"authorization": "Bearer sk-wrong"}, {"x-api-key": "podium_sk_" + "0" * 49}):
            answer = httpx2.get(keyed.root + path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert answer.headers["www-authenticate"] == "Bearer"
    assert httpx2.post(keyed.url + "/chat/completions", json={}).status_code == 401
    for open_path in ("/healthz", "/readyz"):
        assert httpx2.get(keyed.root + open_path).status_code == 200


@both
def test_a_key_shows_its_budgets(url: str, serve: Serve, upstream: ChatServer) -> None:
    served, may_end = serve(keys=True, url=url), threading.Event()
    limits = {"requests_per_minute": 10, "tokens_per_minute": 100_000}
    key = served.key(day_cost=1.0, month_cost=20.0, run_cost=0.25, **limits)

    async def reply(call: Call) -> Reply:
        await anyio.to_thread.run_sync(may_end.wait)
        return team(call)

    upstream.reply = reply
    client = served.http(key)

    def budgets() -> list[tuple[str, float, float, float]]:
        shown = client.get("/keys/self").json()["budgets"]
        return [(each["period"], each["most"], each["spent"], each["reserved"]) for each in shown]

    assert budgets() == [("day", 1.0, 0.0, 0.0), ("month", 20.0, 0.0, 0.0)]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(create, served, key)
        assert until(lambda: budgets()[0][3] > 0)
        held = pytest.approx(0.0022, rel=0.1)  # the first call
        assert budgets() == [("day", 1.0, 0.0, held), ("month", 20.0, 0.0, held)]
        may_end.set()
        raw = running.result()
    assert until(lambda: budgets()[0][2] > 0)
    cost = pytest.approx(COST)
    assert budgets() == [("day", 1.0, cost, 0.0), ("month", 20.0, cost, 0.0)]
    assert "podium_sk" not in client.get("/keys/self").text
    assert raw.parse().choices[0].message.content == "the answer"
    assert [raw.headers[f"x-ratelimit-{name}-requests"] for name in ("limit", "remaining")] == ["10", "9"]
    assert int(raw.headers["x-ratelimit-remaining-tokens"]) < 100_000


def test_two_keys_are_refused(keyed: Served) -> None:
    """A proxy may have checked the other one; equal keys in two headers are one key."""
    first, second = keyed.key(), keyed.key()
    bearer = ("authorization", f"Bearer {first}")
    for headers, status in (
        ([("x-api-key", first)], 200),
        ([bearer, ("x-api-key", first)], 200),
        ([bearer, ("x-api-key", second)], 400),
        ([bearer, ("authorization", f"Bearer {second}")], 400),
        ([("x-api-key", first), ("x-api-key", second)], 400),
    ):
        answer = httpx2.get(f"{keyed.url}/models", headers=headers)
        assert answer.status_code == status, headers
        assert status == 200 or answer.json()["error"]["code"] == "invalid_request"


def test_a_key_sees_its_models_only(keyed: Served) -> None:
    key = keyed.key(models=("mini",))
    with keyed.client(key) as client:
        assert [model.id for model in client.models.list()] == ["mini"]
    with pytest.raises(openai.NotFoundError) as refused:
        create(keyed, key)
    with pytest.raises(openai.NotFoundError) as unknown, keyed.client(key) as client:
        client.chat.completions.create(model="podium-9", messages=ASKED)
    told = [str(each.value).replace("podium-9", "podium") for each in (refused, unknown)]
    assert told[0] == told[1]


def test_a_limit_is_a_429_with_a_time(keyed: Served) -> None:
    """OpenAI's client raises its own error, and finds `retry-after`."""
    key = keyed.key(requests_per_minute=1)
    create(keyed, key)
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as caught:
            create(keyed, key, stream=stream)
        assert caught.value.code == "rate_limit_exceeded"
        assert 50 <= int(caught.value.response.headers["retry-after"]) <= 60


def test_a_rest_that_is_less_than_a_run_may_cost(keyed: Served, upstream: ChatServer) -> None:
    """It is a 429 without a repetition, which says what is left and when the budget is renewed."""
    key = keyed.key(day_cost=0.004)
    with pytest.raises(openai.RateLimitError) as caught:
        create(keyed, key)
    error: Any = caught.value
    assert error.code == "insufficient_quota"
    assert "$0.004 is left of the budget of this day, $0.004, and the run may need more" in str(error)
    assert "the next day begins at" in str(error)
    assert called(upstream) == ["planner"]
    assert error.response.headers["x-should-retry"] == "false"
    assert error.response.headers["x-podium-run-id"] == error.body["run_id"]


def test_a_rest_that_is_less_than_the_first_call_may_cost(keyed: Served, upstream: ChatServer) -> None:
    """Each API refuses the request with what is left and what a call may need; there is no failed run."""
    client = keyed.http(keyed.key(day_cost=0.0001, run_cost=0.5))
    plan = {"steps": [{"worker": "one", "subtask": "Do."}]}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("chat/completions", {"messages": ASKED}),
        ("chat/completions", {"messages": ASKED, "stream": True}),
        ("responses", {"input": ASKED}),
        ("responses", {"input": ASKED, "background": True}),
        ("runs", {"query": "Why?", "plan": plan}),
    ]
    for number, (path, body) in enumerate(bodies):
        named = {} if body.get("stream") else {"idempotency-key": f"{number}"}
        for headers in ({}, named):
            answer = client.post(f"/{path}", json={"model": "podium", **body}, headers=headers)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (429, "insufficient_quota")
            left = r"\$0\.0001 is left of the budget of this day, \$0\.0001, and the first call of the run"
            assert re.match(rf"{left} needs \$0\.\d+: the next day begins at ", error["message"])
            assert answer.headers["x-should-retry"] == "false"
    assert (client.get("/runs").json()["data"], upstream.calls) == ([], [])


def test_a_retention_of_0_leaves_no_run(serve: Serve) -> None:
    """Neither the question nor the answer is in the database."""
    served = serve(keys=True)
    raw = create(served, served.key(retention_days=0))
    assert raw.parse().choices[0].message.content == "the answer"
    assert served.app.journal is not None
    assert run_sync(served.app.journal.runs) == ()
    with pytest.raises(openai.BadRequestError, match="not recorded"):
        create(served, served.key(retention_days=0), extra_headers={"idempotency-key": "a"})


def test_keys_have_their_own_idempotency_keys(keyed: Served, upstream: ChatServer) -> None:
    first, second = keyed.key(), keyed.key()
    header = {"idempotency-key": "order 1"}
    made = [create(keyed, key, extra_headers=header) for key in (first, first, second)]
    ids = [each.headers["x-podium-run-id"] for each in made]
    assert ids[0] == ids[1] != ids[2]
    assert len(upstream.calls) == 6


def test_metrics_are_for_the_role_see(serve: Serve) -> None:
    served = serve(keys=True)
    with pytest.raises(openai.AuthenticationError):
        create(served, "sk-wrong")
    refused = httpx2.get(served.root + "/metrics", headers={"x-api-key": served.key()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "role_missing")
    shown = httpx2.get(served.root + "/metrics", headers={"x-api-key": served.key(role="see")})
    assert shown.headers["content-type"].startswith("text/plain")
    facts = 'gen_ai_request_model="",route="/v1/chat/completions",status="401"'
    assert f'podium_requests_total{{error_type="invalid_api_key",{facts}}} 1.0' in shown.text
    assert 'error_type="role_missing",gen_ai_request_model="",route="/metrics",status="403"' in shown.text
    assert "podium_requests_in_flight 1.0" in shown.text


def test_a_browser_logs_in(keyed: Served) -> None:
    with httpx2.Client(base_url=keyed.root) as browser:
        assert browser.post("/session", json={"key": "podium_sk_wrong"}).status_code == 401
        begun = browser.post("/session", json={"key": keyed.key(role="approve")})
        assert begun.status_code == 200
        cookie = begun.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/", "Expires="))
        csrf = begun.json()["csrf"]
        assert (browser.get("/session").json(), begun.json()["role"]) == (begun.json(), "approve")
        assert browser.get("/v1/models").status_code == 200
        body = {"model": "podium", "messages": ASKED}
        evil = {"x-podium-csrf": csrf, "origin": "https://evil.example"}
        for headers in ({}, {"x-podium-csrf": "wrong"}, {"x-podium-csrf": ""}, evil):
            refused = browser.post("/v1/chat/completions", json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf_missing")
        allowed = {"x-podium-csrf": csrf, "origin": keyed.root}
        assert browser.post("/v1/chat/completions", json=body, headers=allowed).status_code == 200
        assert browser.delete("/session").status_code == 403
        assert browser.delete("/session", headers={"x-podium-csrf": csrf}).status_code == 200
        shown = browser.get("/session")
        assert (shown.status_code, shown.json()["state"], shown.json()["csrf"]) == (200, "login", None)


def test_a_server_without_keys(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A web page cannot spend money through it, and it answers nobody after the first key was made."""
    monkeypatch.setattr("podium_server.keys.access.KNOWN_SECONDS", 0.1)
    served = serve()
    body = {"model": "podium", "messages": ASKED}
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
        answer = httpx2.post(served.url + "/chat/completions", json=body, headers=headers)
        assert answer.status_code == 403
    assert httpx2.post(served.root + "/session", json={"key": "k"}).json()["error"]["code"] == "no_keys"
    assert httpx2.get(f"{served.url}/keys").json()["error"]["code"] == "no_keys"
    assert httpx2.get(served.root + "/session").json()["state"] == "open"
    assert httpx2.post(served.url + "/chat/completions", json=body).status_code == 200
    named = {"x-api-key": served.key()}
    assert until(lambda: httpx2.get(f"{served.url}/models", headers=named).status_code == 401)
    answer = httpx2.get(f"{served.url}/models", headers=named)
    assert "this server began without keys: restart it" in answer.json()["error"]["message"]


def test_a_key_may_name_a_worker_that_one_model_lacks(tmp_path: Path) -> None:
    """It is refused where nobody is left, and where its labels are undeclared."""
    text = '[journal]\npath = "runs.db"\n[workers]\ncalc.type = "calculator"\ncopy.type = "gather"\n'
    text += '[planner]\ntype = "rule"\n[models.small]\nworkers = ["calc"]\n[models.large]\n'
    text += '[policy]\nrules = [{label = "copy", never = ["calc"]}]\n'
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"denied": ("copy",)}, "", ""),
        ({"allowed": ("copy",)}, "allows no worker", ""),
        ({"denied": ("cpoy",)}, "did you mean 'copy'", "did you mean 'copy'"),
        ({"labels": ("secret",)}, "does not declare", "does not declare"),
    ]
    with serving(text, tmp_path, keys_in(tmp_path / "runs.db")) as running:
        for rules, *told in cases:
            client = running.http(running.key(**rules))
            for model, refusal in zip(("small", "large"), told, strict=True):
                asked = {"model": model, "messages": [{"role": "user", "content": "2 + 2"}]}
                answer = client.post("/chat/completions", json=asked)
                assert (answer.status_code == 403) == bool(refusal), (rules, model, answer.text)
                assert refusal in answer.text


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


def test_wrong_bodies(serve: Serve) -> None:
    keyed = serve(keys=True)
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
