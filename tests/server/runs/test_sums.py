"""Sums by day and worker are those of the runs, whatever happened in them."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from server.scene import Serve, ended, post, start, team
from servers.chat_server import Call, ChatServer, Reply, whole

RETRY = "\n[retry]\nfirst_wait = 0.01\nattempts = 2\n"


def by_worker(runs: list[Any]) -> dict[str, float]:
    costs = Counter[str]()
    for run in runs:
        costs.update(run["cost_by_worker"])
        costs.update({bill["planner"]: bill["cost"] for each in run["rounds"] for bill in each["proposals"]})
    return {name: round(cost, 9) for name, cost in costs.items() if cost}


def summed(client: httpx2.Client, **query: Any) -> Any:
    answer = client.get("/sums", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_sums_are_those_of_the_runs(url: str, serve: Serve, upstream: ChatServer) -> None:
    keyed, failing = serve(keys=True, models=RETRY, url=url), ["two"]

    def reply(call: Call) -> Reply:
        name = call.body["model"]
        if name in failing:
            failing.remove(name)
            return whole({}, status=503)
        return team(call)

    upstream.reply = reply
    client, other = keyed.http(keyed.key(role="see")), keyed.http(keyed.key())
    ids = [start(client)["id"]]
    assert ended(client, ids[0])["status"] == "ok"
    failing += ["two", "two"]
    ids.append(start(client)["id"])
    failed = ended(client, ids[1])
    assert failed["status"] == "failed"
    plan = failed["rounds"][0]["plan"]
    plan["steps"][1]["subtask"] = "Write something else."
    post(client, ids[1], "resume", plan=plan)
    assert ended(client, ids[1])["status"] == "ok"
    ids.append(post(client, ids[1], "replay", step=1)["id"])
    assert ended(client, ids[2])["status"] == "ok"
    theirs = start(other)["id"]
    ended(other, theirs)
    everything = summed(client)
    runs = [client.get(f"/runs/{each}").json() for each in (*ids, theirs)]
    made = {row["worker"]: round(row["cost"], 9) for row in everything["workers"]}
    assert made == by_worker(runs)
    today = datetime.fromtimestamp(runs[0]["created"], UTC).date().isoformat()
    (day,) = everything["days"]
    assert (day["day"], day["runs"], day["unknown"]) == (today, 4, 0)
    assert day["cost"] == pytest.approx(sum(run["cost"] for run in runs))
    calls = {row["worker"]: row["calls"] for row in everything["workers"]}
    assert calls == {"one": 3, "two": 7, "planner": 3}
    assert [row["role"] for row in everything["workers"]] == ["planner", "worker", "worker"]
    tokens = sum(run["usage"]["input_tokens"] + run["usage"]["orchestration_input_tokens"] for run in runs)
    assert sum(row["input_tokens"] for row in everything["workers"]) == tokens
    assert all(0 < row["timed"] <= row["calls"] and row["seconds"] > 0 for row in everything["workers"])
    own = {row["worker"]: round(row["cost"], 9) for row in summed(other)["workers"]}
    assert own == by_worker(runs[3:])
    assert summed(client, model="podium")["days"] == everything["days"]
    for nothing in ({"model": "mini"}, {"since": day_after(runs), "until": day_after(runs) + 1}):
        assert summed(client, **nothing)["workers"] == []
    for query in ({"key": runs[0]["key_id"]}, {"since": 0, "until": 1e9}):
        assert other.get("/sums", params=query).status_code == 400


def day_after(runs: list[Any]) -> float:
    """Return a time after all runs."""
    return max(run["created"] for run in runs) + 86400.0
