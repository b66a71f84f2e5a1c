"""What a key is charged for runs whose costs differ, or whose ends are unknown."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import openai
import pytest
from server.keys.test_http import create
from server.keys.test_sums import expire, open_turns
from server.scene import ASKED, CONFIG, COST, process, stalled, team, until
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

from podium.aio import run_sync
from podium_server.keys import KeyRules, KeyStore

KILLED = 16


def ask(root: str, key: str) -> httpx2.Response:
    """Make a request."""
    body = {"model": "podium", "messages": ASKED}
    return httpx2.post(f"{root}/chat/completions", json=body, headers={"x-api-key": key}, timeout=60)


def test_a_run_that_costs_more_than_others_raises_its_reservation(
    keyed: Served, upstream: ChatServer
) -> None:
    """It is stopped where the budget ends, and not at what such runs usually cost."""
    assert create(keyed, keyed.key()).status_code == 200
    upstream.reply = lambda call: dear(call, 10)
    assert create(keyed, keyed.key(day_cost=100 * COST)).status_code == 200
    upstream.reply = lambda call: dear(call, 2_000)
    with pytest.raises(openai.RateLimitError, match=r"the budget of this day, \$0.27, ") as caught:
        create(keyed, keyed.key(day_cost=0.27))
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-podium-run-id"]


def dear(call: Call, times: int) -> Reply:
    """Reply as the team, where the first worker costs more."""
    if call.body["model"] != "one":
        return team(call)
    usage = {"prompt_tokens": 211 * times, "completion_tokens": 7, "total_tokens": 211 * times + 7}
    return says(call, "facts", usage=usage)


@pytest.mark.long
def test_killed_runs_cost_what_such_runs_cost(tmp_path: Path, upstream: ChatServer) -> None:
    """A call whose end is unknown costs what the recorded answers of its worker cost, not its reservation."""
    text = CONFIG.format(url=upstream.url, models="", server="drain_seconds = 1.0")
    (tmp_path / "podium.toml").write_text(text)
    store = KeyStore(tmp_path / "runs.db")
    key, token = run_sync(lambda: store.create("alice", KeyRules(day_cost=100.0)))
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
    days = run_sync(lambda: store.days(key.key_id, "2000"))
    assert sum(day.cost for day in days) / 1e9 == pytest.approx((1 + KILLED) * COST)
