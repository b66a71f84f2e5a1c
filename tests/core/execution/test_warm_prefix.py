"""`warm_prefix`: the items of a map wait for the first answer to the prefix that they share."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import Card, ChatWorker, Conductor, Endpoint, Plan, Price, Retry, parse_plan
from podium.config import load_config
from podium.planners import FixedPlanner
from podium.workers import Worker

pytestmark = pytest.mark.anyio

QUESTION = "What do our rules say? " + "A rule of the house. " * 380
"""About 2,000 tokens."""
PRICE = Price(input=1.0, output=0.0, cached_input=0.1)
REFUSED = whole({"error": {"message": "no"}}, status=400)


class Provider:
    """Answers calls in groups, and has their prompts in its cache then, by 128 tokens from 1,024.

    Args:
        groups: how many calls have arrived before the calls of each group are answered.
        refuses: the first calls that are refused.
    """

    def __init__(self, *groups: int, refuses: int = 0) -> None:
        self.at_once: list[int] = []
        """For each call: the calls that were running when it arrived, with this one."""
        self.cached: list[int] = []
        self._groups = {group: anyio.Event() for group in groups}
        self._refuses = refuses
        self._read = set[str]()
        self._running = 0

    async def __call__(self, call: Call) -> Reply:
        self._running += 1
        self.at_once.append(self._running)
        number = len(self.at_once)
        prompt = "".join(message["content"] for message in call.body["messages"])
        beginnings = [prompt[:length] for length in range(512, len(prompt) + 1, 512)]
        shared = sum(each in self._read for each in beginnings) * 128
        if number in self._groups:
            self._groups[number].set()
        await next(event for group, event in self._groups.items() if group >= number).wait()
        self._running -= 1
        if number <= self._refuses:
            return REFUSED
        self._read.update(beginnings)
        self.cached.append(shared if shared >= 1024 else 0)
        details = {"prompt_tokens_details": {"cached_tokens": self.cached[-1]}}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 5, **details}
        return says(call, "done", usage=usage)


def map_of(count: int, **keys: Any) -> dict[str, Any]:
    item = {"worker": "reader", "subtask": "Apply rule {{item}}.", "access": []}
    return item | {"each": [*range(count)]} | keys


def plan_of(*steps: dict[str, Any]) -> Plan:
    return parse_plan(json.dumps({"steps": steps}), workers=["reader", "function"])


def conductor(server: ChatServer, plan: Plan, *others: Worker, **options: Any) -> Conductor:
    """Return a conductor with `warm_prefix`, without retries."""
    worker = ChatWorker("reader", endpoint=Endpoint(server.url), card=Card(name="reader", price=PRICE))
    retry = Retry(attempts=1)
    return Conductor(FixedPlanner(plan), [worker, *others], retry=retry, warm_prefix=True, **options)


@pytest.mark.parametrize(
    ("line", "groups", "uncached"), [("", [8, 16], 8), ("warm_prefix = true", [1, 9, 16], 1)]
)
async def test_only_the_first_call_pays_the_prefix(
    tmp_path: Path, line: str, groups: Any, uncached: int
) -> None:
    provider, path = Provider(*groups), tmp_path / "podium.toml"
    (tmp_path / "plan.json").write_text(json.dumps({"steps": [map_of(16)]}))
    async with ChatServer(provider) as server:
        path.write_text(
            f'[endpoints.local]\nbase_url = "{server.url}"\n[planner]\ntype = "fixed"\nplan = "plan.json"\n'
            '[workers.reader]\nendpoint = "local"\nmodel = "m"\n'
            "price = {input = 1.0, output = 0.0, cached_input = 0.1}\n"
            f"[limits]\nconcurrency = 8\n[conductor]\n{line}\n"
        )
        result = await load_config(path).conductor().run(QUESTION)
    assert (result.status, len(provider.cached)) == ("ok", 16)
    assert provider.at_once[: groups[0] + 1] == [*range(1, groups[0] + 1), 1]
    assert (provider.cached.count(0), result.usage.cached_tokens) == (uncached, sum(provider.cached))
    paid = result.usage.input_tokens - 0.9 * result.usage.cached_tokens
    assert result.cost == pytest.approx(paid / 1e6)


async def test_after_a_failure_the_next_call_goes_alone() -> None:
    provider, plan = Provider(1, 2, 3, 6, refuses=2), plan_of(map_of(6))
    async with ChatServer(provider) as server:
        result = await conductor(server, plan).run(QUESTION)
    assert provider.at_once == [1, 1, 1, 1, 2, 3]
    assert [each.status for each in result.outcomes[1:]] == ["failed"] * 2 + ["ok"] * 4
