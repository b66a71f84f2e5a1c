"""A further round under constrained decoding: the model can say that the answer is to be kept."""

from typing import Any

import pytest
from core.actors import plan_of
from servers.chat_server import Call, ChatServer, Reply, says

from podium.budget import Limits
from podium.conductor import Conductor
from podium.plan_text import Spelling, write_plan
from podium.planners import ChatPlanner
from podium.types import Plan, Result
from podium.workers import ChatWorker, Endpoint

pytestmark = pytest.mark.anyio

THREE_EMPTY_LISTS = "model_id = []\nsubtasks = []\naccess_list = []"


async def two_rounds(spelling: Spelling, provider: str) -> tuple[Result, list[dict[str, Any]]]:
    """Plan, keep the answer, and return what was asked of the planner."""
    plans = [write_plan(plan_of((0, "go", ())), spelling), write_plan(Plan(()), spelling)]

    def reply(call: Call) -> Reply:
        return says(call, "done" if call.body["model"] == "worker" else plans.pop(0))

    async with ChatServer(reply) as server:
        endpoint = Endpoint(server.url, provider=provider)
        planner = ChatPlanner(ChatWorker("boss", endpoint=endpoint), spelling=spelling)
        pool = [ChatWorker("worker", endpoint=endpoint)]
        async with Conductor(planner, pool, limits=Limits(rounds=2)) as conductor:
            result = await conductor.run("Why?")
    return result, [call.body for call in server.calls if call.body["model"] == "boss"]


def _root(body: dict[str, Any]) -> str:
    rules = body["structured_outputs"]["grammar"].splitlines()
    (root,) = [rule for rule in rules if rule.startswith("root ::= ")]
    return str(root)


@pytest.mark.parametrize(
    ("spelling", "kept"),
    [
        ("lists", "model_id = []\\nsubtasks = []\\naccess_list = []"),
        ("json", '{\\"steps\\": []}'),
        ("rows", '{\\"steps\\": []}\\n'),
    ],
)
async def test_no_steps_are_allowed_in_a_further_round_only(spelling: Spelling, kept: str) -> None:
    """The grammar and the prompt name the plan without steps once there is an answer to keep."""
    result, (first, second) = await two_rounds(spelling, "vllm")
    assert _root(first) == "root ::= plan"
    assert _root(second) == f'root ::= plan | "{kept}"'
    text = THREE_EMPTY_LISTS if spelling == "lists" else '{"steps": []}'
    assert text in second["messages"][-1]["content"]
    assert THREE_EMPTY_LISTS not in str(first["messages"])
    assert (result.answer, result.status, len(result.rounds)) == ("done", "ok", 2)


async def test_a_schema_allows_no_steps_in_a_further_round_only() -> None:
    """Where the server takes a schema and no grammar, the schema says it."""
    _, bodies = await two_rounds("json", "openai")
    schemas = [body["response_format"]["json_schema"]["schema"] for body in bodies]
    assert [schema["properties"]["steps"]["minItems"] for schema in schemas] == [1, 0]
