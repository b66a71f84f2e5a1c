"""Requests over HTTP with API keys: every route but health needs one, and its limits apply."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import openai
import pytest
from server.chat.conftest import CONFIG, upstream
from server.chat.test_bounds import in_parallel, slowly
from server.chat.test_completions import ASKED, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served, serving

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyRules, KeyStore
from podium_server.keys.account import day_of

__all__ = ["upstream"]

NewKey = Callable[..., str]
ALL = "0.0.0.0"  # noqa: S104 - of a server that needs keys
DEMO = '[journal]\npath = "runs.db"\n[workers.c]\ntype = "calculator"\n[planner]\ntype = "rule"\n'


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of the database; PostgreSQL if a test asks for it."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def new_key(url: str) -> NewKey:
    """Return a function that creates a key."""
    names = iter(range(100))
    return lambda **rules: run_sync(lambda: KeyStore(url).create(f"key {next(names)}", KeyRules(**rules)))[1]


@pytest.fixture
def served(upstream: ChatServer, url: str, tmp_path: Path) -> Iterator[Served]:
    """Serve a team to callers with keys."""
    upstream.reply = team
    text = CONFIG.format(url=upstream.url, models="", server="").replace('path = "runs.db"', f'url = "{url}"')
    journal = SqlJournal(url)
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as running:
        yield running


def create(served: Served, key: str, **options: Any) -> Any:
    """Make a request, and return the raw response."""
    with served.client(key) as client:
        return client.chat.completions.with_raw_response.create(model="podium", messages=ASKED, **options)


def spent(url: str, cost: float) -> float:
    """Return what all keys have spent, in USD, when it has reached `cost`, or else after some seconds."""
    store, total = KeyStore(url), 0.0

    async def read() -> float:
        days = [day for key in await store.keys() for day in await store.days(key.key_id, "2000")]
        return sum(day.cost for day in days) / 1e9

    for _ in range(100):
        if (total := run_sync(read)) >= cost:
            break
        time.sleep(0.05)
    return total


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/podium", "/v1/keys/self"])
def test_every_route_but_health_needs_a_key(served: Served, path: str) -> None:
    """Without a key and with a wrong key, the status is 401 with OpenAI's form of an error."""
    for headers in ({}, {"authorization": "Bearer sk-wrong"}, {"x-api-key": "podium_sk_" + "0" * 49}):
        answer = httpx2.get(served.root + path, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert httpx2.post(served.url + "/chat/completions", json={}).status_code == 401
    for open_path in ("/healthz", "/readyz"):
        assert httpx2.get(served.root + open_path).status_code == 200


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_a_key_calls_models_and_is_charged(served: Served, new_key: NewKey, url: str) -> None:
    """Both headers work; the response has the rate limits."""
    key = new_key(requests_per_minute=10, tokens_per_minute=100_000, day_cost=1.0, run_cost=0.5)
    raw = create(served, key)
    assert raw.parse().choices[0].message.content == "the answer"
    assert raw.headers["x-ratelimit-limit-requests"] == "10"
    assert raw.headers["x-ratelimit-remaining-requests"] == "9"
    assert int(raw.headers["x-ratelimit-remaining-tokens"]) < 100_000
    answer = httpx2.get(served.url + "/models", headers={"x-api-key": key})
    assert answer.status_code == 200
    cost = (2 * (211 * 1.0 + 7 * 2.0) + 211 * 10.0 + 7 * 20.0) / 1e6
    assert spent(url, cost) == pytest.approx(cost)


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
def test_two_keys_are_refused(served: Served, new_key: NewKey, name: str) -> None:
    """A proxy may have checked the other one."""
    scheme = "Bearer " if name == "authorization" else ""
    headers = [(name, scheme + new_key()), (name, scheme + new_key())]
    once = httpx2.get(f"{served.url}/models", headers=headers[:1])
    twice = httpx2.get(f"{served.url}/models", headers=headers)
    assert (once.status_code, twice.status_code) == (200, 400)
    assert twice.json()["error"]["code"] == "invalid_request"


def test_two_keys_in_two_headers(served: Served, new_key: NewKey) -> None:
    """They are refused unless they are equal."""
    first, second = new_key(), new_key()
    for key, status in ((first, 200), (second, 400)):
        headers = {"authorization": f"Bearer {first}", "x-api-key": key}
        assert httpx2.get(f"{served.url}/models", headers=headers).status_code == status


def test_a_key_sees_its_models_only(served: Served, new_key: NewKey) -> None:
    """Another model is answered like one that does not exist."""
    key = new_key(models=("mini",))
    with served.client(key) as client:
        assert [model.id for model in client.models.list()] == ["mini"]
    with pytest.raises(openai.NotFoundError) as refused:
        create(served, key)
    with pytest.raises(openai.NotFoundError) as unknown, served.client(key) as client:
        client.chat.completions.create(model="podium-9", messages=ASKED)
    told = [str(each.value).replace("podium-9", "podium") for each in (refused, unknown)]
    assert told[0] == told[1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_limit_is_a_429_with_a_time(served: Served, new_key: NewKey, *, stream: bool) -> None:
    """OpenAI's client raises its own error, and finds `retry-after`."""
    key = new_key(requests_per_minute=1)
    create(served, key)
    with pytest.raises(openai.RateLimitError) as caught:
        create(served, key, stream=stream)
    assert caught.value.code == "rate_limit_exceeded"
    assert 50 <= int(caught.value.response.headers["retry-after"]) <= 60


def test_a_spent_budget_is_not_repeated(served: Served, new_key: NewKey, upstream: ChatServer) -> None:
    """OpenAI's client with its own repetitions makes one request."""
    cost = 0.0001
    key = new_key(day_cost=cost, run_cost=cost)
    rows = run_sync(served.app.journal.runs)
    store = KeyStore(served.app.journal.url)
    (found,) = run_sync(store.keys)

    async def spend(transaction: Any) -> None:
        day = "INSERT INTO podium_key_days VALUES (?, ?, ?, 1, 0, 0, 0)"
        await transaction.execute(day, found.key_id, day_of(time.time()), 100_000)

    run_sync(lambda: store.transaction(spend))
    began = time.monotonic()
    client = openai.OpenAI(base_url=served.url, api_key=key, max_retries=5, timeout=10)
    with pytest.raises(openai.RateLimitError) as caught, client:
        client.chat.completions.create(model="podium", messages=ASKED)
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - began < 5
    assert (upstream.calls, run_sync(served.app.journal.runs)) == ([], rows)


def test_a_run_that_needs_more_than_its_limit_names_the_key(served: Served, new_key: NewKey) -> None:
    """The message has the amount, and the option of `podium keys`."""
    with pytest.raises(openai.APIStatusError, match=r"the API key allows \$0.0001 for this run: see --run"):
        create(served, new_key(day_cost=1.0, run_cost=0.0001))


@pytest.mark.parametrize("stream", [False, True])
def test_a_rest_that_is_less_than_a_run_may_cost(
    *, stream: bool, served: Served, new_key: NewKey, upstream: ChatServer
) -> None:
    """It is a 429 without a repetition, which says what is left and when the budget is renewed."""
    client = served.client(new_key(day_cost=0.004))
    with pytest.raises(openai.APIError) as caught:
        list(client.chat.completions.create(model="podium", messages=ASKED, stream=stream))
    error: Any = caught.value
    assert error.code == "insufficient_quota"
    assert "$0.004 is left of the budget of this day, $0.004, and the run may need more" in str(error)
    assert "the next day begins at" in str(error)
    assert "Limits." not in str(error)
    assert [call.body["model"] for call in upstream.calls] == ["planner"]
    if isinstance(error, openai.APIStatusError):
        assert error.status_code == 429
        assert error.response.headers["x-should-retry"] == "false"
        assert error.response.headers["x-podium-run-id"] == error.body["run_id"]  # type: ignore[index]


STEPS = [{"worker": "one", "subtask": "Do."}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": ASKED}),
        ("chat/completions", {"messages": ASKED, "stream": True}),
        ("responses", {"input": ASKED}),
        ("responses", {"input": ASKED, "background": True}),
        ("runs", {"query": "Why?"}),
        ("runs", {"query": "Why?", "plan": {"steps": STEPS}}),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_rest_that_is_less_than_the_first_call_may_cost(
    *,
    path: str,
    body: dict[str, Any],
    named: bool,
    served: Served,
    new_key: NewKey,
    upstream: ChatServer,
) -> None:
    """Each API refuses the request with what is left and what a call may need; there is no failed run."""
    headers = {"authorization": f"Bearer {new_key(day_cost=0.0001, run_cost=0.5)}"}
    if named and not body.get("stream"):
        headers["idempotency-key"] = "a"
    with httpx2.Client(base_url=served.url, headers=headers, timeout=20) as client:
        answer = client.post(f"/{path}", json={"model": "podium", **body})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (429, "insufficient_quota")
        left = r"\$0\.0001 is left of the budget of this day, \$0\.0001, and the first call of the run needs"
        assert re.match(rf"{left} \$0\.\d+: the next day begins at ", error["message"])
        assert answer.headers["x-should-retry"] == "false"
        assert client.get("/runs").json()["data"] == []
    assert upstream.calls == []


def test_a_small_budget_allows_runs(served: Served, new_key: NewKey) -> None:
    """Without a limit of a run, a run may cost what such runs usually cost at most."""
    for cost in (0.15, 0.5, 5.0):
        assert create(served, new_key(day_cost=cost)).parse().choices[0].message.content == "the answer"


def test_a_budget_allows_requests_at_the_same_time(
    served: Served, new_key: NewKey, upstream: ChatServer
) -> None:
    """A run without a limit of its own leaves the rest of the budget to other requests."""
    upstream.reply = slowly
    key = new_key(day_cost=1.0)
    with ThreadPoolExecutor() as threads:
        raws = list(threads.map(lambda _: create(served, key), range(2)))
    assert [raw.status_code for raw in raws] == [200] * 2


def test_a_client_that_disconnects_is_charged_what_was_started(
    served: Served, new_key: NewKey, upstream: ChatServer, url: str
) -> None:
    """The run is cancelled; the calls that were made count."""

    def slow(call: Call) -> Reply:
        if call.body["model"] == "two":
            return says(call, "the answer", delay=20)
        return team(call)

    upstream.reply = slow
    key = new_key(day_cost=1.0, run_cost=0.5)
    client = openai.OpenAI(base_url=served.url, api_key=key, max_retries=0, timeout=1.5)
    with pytest.raises(openai.APITimeoutError), client:
        client.chat.completions.create(model="podium", messages=ASKED)
    least = 2 * (211 * 1.0 + 7 * 2.0) / 1e6
    assert least < spent(url, least + 1e-9) < 0.2


def test_a_retention_of_0_leaves_no_run(served: Served, new_key: NewKey, tmp_path: Path) -> None:
    """Neither the question nor the answer is in the database."""
    raw = create(served, new_key(retention_days=0))
    assert raw.parse().choices[0].message.content == "the answer"
    journal = SqlJournal(tmp_path / "runs.db")
    assert run_sync(journal.runs) == ()
    with pytest.raises(openai.BadRequestError, match="not recorded"):
        create(served, new_key(retention_days=0), extra_headers={"idempotency-key": "a"})


def test_keys_have_their_own_idempotency_keys(served: Served, new_key: NewKey, upstream: ChatServer) -> None:
    """The same key of another caller is another run."""
    first, second = new_key(), new_key()
    header = {"idempotency-key": "order 1"}
    ids = [
        create(served, key, extra_headers=header).headers["x-podium-run-id"] for key in (first, first, second)
    ]
    assert ids[0] == ids[1] != ids[2]
    assert len(upstream.calls) == 6


def test_repetitions_in_parallel_need_one_reservation(
    served: Served, new_key: NewKey, upstream: ChatServer, url: str
) -> None:
    """The budget allows one run at a time; the repetitions wait for it, and pay nothing."""
    upstream.reply = slowly
    key = new_key(day_cost=0.5, run_cost=0.5)
    answers = in_parallel(served, "/chat/completions", {"model": "podium", "messages": ASKED}, key)
    assert [answer.status_code for answer in answers] == [200] * 3
    cost = (2 * (211 * 1.0 + 7 * 2.0) + 211 * 10.0 + 7 * 20.0) / 1e6
    assert spent(url, cost) == pytest.approx(cost)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_a_key_shows_its_budgets(served: Served, upstream: ChatServer, new_key: NewKey) -> None:
    """They have what is reserved while a request runs, and what it has cost after its end."""
    may_end, key = threading.Event(), new_key(day_cost=1.0, month_cost=20.0, run_cost=0.25)

    async def reply(call: Call) -> Reply:
        await anyio.to_thread.run_sync(may_end.wait)
        return team(call)

    upstream.reply = reply
    with httpx2.Client(base_url=served.url, headers={"authorization": f"Bearer {key}"}) as client:

        def budgets() -> list[tuple[str, float, float, float]]:
            shown = client.get("/keys/self").json()["budgets"]
            return [(each["period"], each["most"], each["spent"], each["reserved"]) for each in shown]

        assert budgets() == [("day", 1.0, 0.0, 0.0), ("month", 20.0, 0.0, 0.0)]
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(create, served, key)
            while budgets()[0][3] == 0:
                time.sleep(0.02)
            held = pytest.approx(0.0022, rel=0.1)  # the first call
            assert budgets() == [("day", 1.0, 0.0, held), ("month", 20.0, 0.0, held)]
            may_end.set()
            running.result()
        while budgets()[0][2] == 0:
            time.sleep(0.02)
        cost = pytest.approx((2 * (211 * 1.0 + 7 * 2.0) + 211 * 10.0 + 7 * 20.0) / 1e6)
        assert budgets() == [("day", 1.0, cost, 0.0), ("month", 20.0, cost, 0.0)]
        assert "podium_sk" not in client.get("/keys/self").text


def test_metrics_are_for_the_role_see(served: Served, new_key: NewKey) -> None:
    """Requests that a key does not allow are counted with the code of their error."""
    with pytest.raises(openai.AuthenticationError):
        create(served, "sk-wrong")
    refused = httpx2.get(served.root + "/metrics", headers={"x-api-key": new_key()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "role_missing")
    shown = httpx2.get(served.root + "/metrics", headers={"x-api-key": new_key(role="see")})
    assert shown.headers["content-type"].startswith("text/plain")
    facts = 'gen_ai_request_model="",route="/v1/chat/completions",status="401"'
    assert f'podium_requests_total{{error_type="invalid_api_key",{facts}}} 1.0' in shown.text
    assert 'error_type="role_missing",gen_ai_request_model="",route="/metrics",status="403"' in shown.text
    assert "podium_requests_in_flight 1.0" in shown.text


def test_a_browser_logs_in(served: Served, new_key: NewKey) -> None:
    """The cookie is enough to read; changes need the CSRF token; other sites are refused."""
    with httpx2.Client(base_url=served.root) as browser:
        assert browser.post("/session", json={"key": "podium_sk_wrong"}).status_code == 401
        begun = browser.post("/session", json={"key": new_key(role="approve")})
        assert begun.status_code == 200
        cookie = begun.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/", "Expires="))
        csrf = begun.json()["csrf"]
        assert browser.get("/session").json() == begun.json()
        assert begun.json()["role"] == "approve"
        assert browser.get("/v1/models").status_code == 200
        body = {"model": "podium", "messages": ASKED}
        for headers in (
            {},
            {"x-podium-csrf": "wrong"},
            {"x-podium-csrf": csrf, "origin": "https://evil.example"},
        ):
            refused = browser.post("/v1/chat/completions", json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf_missing")
        allowed = {"x-podium-csrf": csrf, "origin": served.root}
        assert browser.post("/v1/chat/completions", json=body, headers=allowed).status_code == 200
        assert browser.delete("/session").status_code == 403
        assert browser.delete("/session", headers={"x-podium-csrf": csrf}).status_code == 200
        shown = browser.get("/session")
        assert (shown.status_code, shown.json()["state"], shown.json()["csrf"]) == (200, "login", None)


def test_a_server_without_keys_refuses_other_sites(upstream: ChatServer, tmp_path: Path) -> None:
    """A web page cannot spend money through a server of this machine."""
    upstream.reply = team
    with serving(CONFIG.format(url=upstream.url, models="", server=""), tmp_path) as served:
        body = {"model": "podium", "messages": ASKED}
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
            answer = httpx2.post(served.url + "/chat/completions", json=body, headers=headers)
            assert answer.status_code == 403
        assert httpx2.post(served.root + "/session", json={"key": "k"}).json()["error"]["code"] == "no_keys"
        assert httpx2.get(served.root + "/session").json()["state"] == "open"
        assert httpx2.post(served.url + "/chat/completions", json=body).status_code == 200


def serve_command(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start `podium serve`."""
    command = [sys.executable, "-m", "podium", "serve", "--port", "0", *arguments]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
def test_a_public_address_needs_a_key(tmp_path: Path) -> None:
    """`podium serve` refuses to start, and says how to create a key."""
    (tmp_path / "podium.toml").write_text(DEMO)
    refused = serve_command(tmp_path, "--host", ALL)
    assert "create one with `podium keys create NAME`" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    _, token = run_sync(lambda: KeyStore(tmp_path / "runs.db").create("alice", KeyRules()))
    started = serve_command(tmp_path, "--host", ALL)
    assert started.stderr is not None
    try:
        line = started.stderr.readline()
        root = line.split(" at ")[1].strip().replace(ALL, "127.0.0.1")
        assert httpx2.get(f"{root}/models").status_code == 401
        assert httpx2.get(f"{root}/models", headers={"x-api-key": token}).status_code == 200
        run_sync(lambda: KeyStore(tmp_path / "runs.db").revoke("alice"))
        body = {"model": "podium", "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
        answer = httpx2.post(f"{root}/chat/completions", json=body, headers={"x-api-key": token})
        assert json.loads(answer.text)["error"]["code"] == "invalid_api_key"
    finally:
        started.terminate()
        started.communicate(timeout=30)


def test_a_key_may_name_a_worker_that_one_model_lacks(url: str, new_key: NewKey, tmp_path: Path) -> None:
    """It is refused where nobody is left, and where its labels are undeclared."""
    text = f'[journal]\nurl = "{url}"\n[workers.calc]\ntype = "calculator"\n[workers.copy]\ntype = "gather"\n'
    text += '[planner]\ntype = "rule"\n[models.small]\nworkers = ["calc"]\n[models.large]\n'
    text += '[policy]\nrules = [{label = "copy", never = ["calc"]}]\n'
    journal = SqlJournal(url)
    keys = {name: new_key(**rules) for name, rules in RULES.items()}
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as running:
        for name, told in TOLD.items():
            for model, refusal in zip(("small", "large"), told, strict=True):
                answer = httpx2.post(
                    f"{running.url}/chat/completions",
                    headers={"authorization": f"Bearer {keys[name]}"},
                    json={"model": model, "messages": [{"role": "user", "content": "2 + 2"}]},
                )
                assert (answer.status_code == 403) == bool(refusal), (name, model, answer.text)
                assert refusal in answer.text


RULES: dict[str, dict[str, tuple[str, ...]]] = {
    "deny": {"denied": ("copy",)},
    "allow": {"allowed": ("copy", "calc")},
    "other": {"allowed": ("copy",)},
    "gone": {"denied": ("cpoy",)},
    "labels": {"labels": ("secret",)},
}
TOLD = {
    "deny": ("", ""),
    "allow": ("", ""),
    "other": ("allows no worker", ""),
    "gone": ("did you mean 'copy'", "did you mean 'copy'"),
    "labels": ("does not declare", "does not declare"),
}
