"""The budget of a key admits requests by what runs really cost."""

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx2
import openai
import pytest
from server.chat.conftest import CONFIG, upstream
from server.chat.test_bounds import until
from server.chat.test_completions import ASKED, team
from server.keys.test_http import NewKey, create, new_key, served, spent, url
from server.keys.test_sums import expire, open_turns
from server.runs.test_background import stalled
from server.test_serve import process
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

from podium.aio import run_sync
from podium_server.keys import KeyRules, KeyStore

__all__ = ["new_key", "served", "upstream", "url"]

COST = (2 * (211 * 1.0 + 7 * 2.0) + 211 * 10.0 + 7 * 20.0) / 1e6
"""What a run costs."""
MANY, KILLED = 64, 16


def ask(root: str, key: str) -> httpx2.Response:
    """Make a request."""
    body = {"model": "podium", "messages": ASKED}
    return httpx2.post(f"{root}/chat/completions", json=body, headers={"x-api-key": key}, timeout=60)


def test_many_runs_at_once(served: Served, new_key: NewKey, upstream: ChatServer) -> None:
    """A budget of 100 runs admits 64 at once, also as the first requests of a new key."""

    async def reply(call: Call) -> Reply:
        await anyio.sleep(0.2)
        return team(call)

    upstream.reply = reply
    key = new_key(day_cost=100 * COST)
    with ThreadPoolExecutor(MANY) as threads:
        answers = list(threads.map(lambda _: ask(served.url, key), range(MANY)))
    assert [answer.status_code for answer in answers] == [200] * MANY


def test_a_burst_ends_at_the_budget(served: Served, new_key: NewKey, upstream: ChatServer, url: str) -> None:
    """Of many runs at once, only the calls in flight may exceed the budget; the others say why they end."""
    assert create(served, new_key()).status_code == 200  # what a run costs is known now
    key = new_key(day_cost=10 * COST)
    with ThreadPoolExecutor(MANY) as threads:
        answers = list(threads.map(lambda _: ask(served.url, key), range(MANY)))
    codes = Counter(each.json()["error"]["code"] for each in answers if each.status_code != 200)
    assert {each.status_code for each in answers} == {200, 429}
    assert set(codes) <= {"budget_reserved", "insufficient_quota"}
    assert spent(url, 11 * COST) == pytest.approx(11 * COST, rel=0.3)


def test_a_run_that_costs_more_than_others_raises_its_reservation(
    served: Served, new_key: NewKey, upstream: ChatServer
) -> None:
    """It is stopped where the budget ends, and not at what such runs usually cost."""
    assert create(served, new_key()).status_code == 200
    upstream.reply = lambda call: dear(call, 10)
    assert create(served, new_key(day_cost=100 * COST)).status_code == 200
    upstream.reply = lambda call: dear(call, 2_000)
    with pytest.raises(openai.RateLimitError, match=r"the budget of this day, \$0.27, ") as caught:
        create(served, new_key(day_cost=0.27))
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-podium-run-id"]


def dear(call: Call, times: int) -> Reply:
    """Reply as the team, where the first worker costs more."""
    if call.body["model"] != "one":
        return team(call)
    usage = {"prompt_tokens": 211 * times, "completion_tokens": 7, "total_tokens": 211 * times + 7}
    return says(call, "facts", usage=usage)


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_killed_runs_cost_what_such_runs_cost(url: str, tmp_path: Path, upstream: ChatServer) -> None:
    """A call whose end is unknown costs what the recorded answers of its worker cost, not its reservation."""
    text = CONFIG.format(url=upstream.url, models="", server="drain_seconds = 1.0")
    (tmp_path / "podium.toml").write_text(text.replace('path = "runs.db"', f'url = "{url}"'))
    upstream.reply = team
    store = KeyStore(url)
    _, token = run_sync(lambda: store.create("alice", KeyRules(day_cost=100.0)))
    with process(tmp_path) as running, ThreadPoolExecutor(KILLED) as threads:
        assert ask(running.url, token).status_code == 200
        before = len(upstream.calls)
        upstream.reply = stalled
        for _ in range(KILLED):
            threads.submit(ask, running.url, token)
        assert until(
            lambda: sum(each.body["model"] == "two" for each in upstream.calls[before:]) == KILLED, 30
        )
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
    expire(store)
    with process(tmp_path):
        assert until(lambda: open_turns(store) == 0, 30)
    assert spent(url, (1 + KILLED) * COST) == pytest.approx((1 + KILLED) * COST)
