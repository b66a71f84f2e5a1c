"""Steps with `returns`, done by agents."""

import json
from typing import Any

import pytest
from crewai import LLM, Agent
from servers.chat_server import USAGE, ChatServer, says

from crewai_podium import as_worker
from podium.conductor import Conductor
from podium.plan_text.parser import parse_plan
from podium.planners import FixedPlanner

GREEN = {"type": "object", "properties": {"green": {"type": "boolean"}}, "required": ["green"]}
CASES = {
    "words around": (GREEN, ['Yes: {"green": true}'], '{"green":true}'),
    "never": (GREEN, ["green indeed", "green again"], None),
    "a list": ({"type": "array", "items": {"type": "string"}}, ['{"value": ["a"]}'], '["a"]'),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("returns", "answers", "output"), CASES.values(), ids=CASES)
async def test_an_agents_output_fits_or_the_agent_is_told_once(
    returns: Any, answers: list[str], output: str | None
) -> None:
    """As of every worker, also in a crew that streams; each answer is on the bill."""
    told, left = list[str](), list(answers)
    step = {"worker": "Judge", "subtask": "judge", "access": [], "returns": returns}
    plan = parse_plan(json.dumps({"steps": [step]}), workers=["Judge"])

    def reply(call: Any) -> Any:
        told.append(str(call.body["messages"]))
        return says(call, left.pop(0))

    async with ChatServer(reply) as server:
        llm = LLM(model="openai/m", base_url=server.url, api_key="none", max_retries=0, stream=output is None)
        judge = Agent(role="Judge", goal="Judge.", backstory="Old hand.", llm=llm)
        result = await Conductor(FixedPlanner(plan), [as_worker(judge)]).run("Is it green?")
    (outcome,) = result.outcomes
    problem = None if outcome.problem is None else outcome.problem.code
    assert (outcome.text if outcome.status == "ok" else None, problem) == (
        output,
        "bad_output" if output is None else None,
    )
    assert not left
    assert result.usage.total_tokens == USAGE["total_tokens"] * len(answers)
    if len(answers) > 1:
        assert "does not fit its JSON schema" in told[1]
