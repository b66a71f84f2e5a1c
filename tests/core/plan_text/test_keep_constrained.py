"""A further round under constrained decoding: the model can say that the answer is to be kept."""

from typing import Any

import pytest
from core.actors import plan_of
from servers.chat_server import Call, ChatServer, Reply, says

from podium.budget import Limits
from podium.conductor import Conductor
from podium.plan_text import Spelling, write_plan
from podium.planners import ChatPlanner
from podium.planners.chat import round_feedback
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


async def test_lists_may_be_empty_in_a_further_round_only() -> None:
    """The grammar lets three empty lists through once there is an answer to keep."""
    result, (first, second) = await two_rounds("lists", "vllm")
    assert _root(first) == "root ::= plan"
    assert _root(second) == 'root ::= plan | "model_id = []\\nsubtasks = []\\naccess_list = []"'
    assert (result.answer, result.status, len(result.rounds)) == ("done", "ok", 2)


async def test_lists_planners_are_told_to_keep_by_lists() -> None:
    """What is asked for is what the grammar lets through."""
    _, (first, second) = await two_rounds("lists", "vllm")
    assert THREE_EMPTY_LISTS in second["messages"][-1]["content"]
    assert '{"steps": []}' not in second["messages"][-1]["content"]
    assert THREE_EMPTY_LISTS not in str(first["messages"])


@pytest.mark.parametrize("spelling", ["rows", "json"])
async def test_objects_may_have_no_steps_in_a_further_round_only(spelling: Spelling) -> None:
    """The other spellings keep by an object of no steps."""
    result, (first, second) = await two_rounds(spelling, "vllm")
    assert _root(first) == "root ::= plan"
    end = "\\n" if spelling == "rows" else ""
    assert _root(second) == 'root ::= plan | "{\\"steps\\": []}' + end + '"'
    assert (result.answer, len(result.rounds)) == ("done", 2)


async def test_a_schema_allows_no_steps_in_a_further_round_only() -> None:
    """Where the server takes a schema and no grammar, the schema says it."""
    _, bodies = await two_rounds("json", "openai")
    schemas = [body["response_format"]["json_schema"]["schema"] for body in bodies]
    assert [schema["properties"]["steps"]["minItems"] for schema in schemas] == [1, 0]


@pytest.mark.parametrize(
    ("spelling", "keep"),
    [("lists", THREE_EMPTY_LISTS), ("json", '{"steps": []}'), ("rows", '{"steps": []}')],
)
def test_feedback_says_how_to_keep(spelling: Spelling, keep: str) -> None:
    """Each spelling is told its own plan of no steps."""
    others = {THREE_EMPTY_LISTS, '{"steps": []}'} - {keep}
    told = round_feedback("done", spelling=spelling)
    assert keep in told
    assert not any(other in told for other in others)
