"""Parts of a graph's state that a plan gives to the steps that need them."""

from typing import Any, TypedDict

import pytest
from graphs.conducted import LATER, Calls, Plans, around, decided
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver

from langchain_podium.graph.conducted import Executor
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlannerError
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
CONFIG: Any = {"configurable": {"thread_id": "1"}}


class Desk(TypedDict, total=False):
    """A question about documents."""

    question: str
    documents: list[Any]
    rules: str
    answer: str


def _texts(worker: ScriptedWorker) -> list[str]:
    return ["\n".join(message.text for message in request.messages) for request in worker.requests]


@EXECUTORS
@pytest.mark.parametrize("kept", [False, True], ids=["unkept", "kept"])
async def test_each_step_of_a_map_is_shown_its_own_document(*, executor: Executor, kept: bool) -> None:
    """Twelve documents cost the tokens of twelve documents, and not of a hundred and forty-four."""
    documents = [Document(f"page {number}: " + f"word{number} " * 200) for number in range(1, 13)]
    steps = [Step(0, f"Sum up {{{{document_{number}}}}}.") for number in range(1, 13)]
    plan = Plan((*steps, Step(0, "Join them by {{rules}}.", access=tuple(range(12)))))
    clerk = ScriptedWorker("clerk", "summed up")
    graph = around(
        Conductor(FixedPlanner(plan), [clerk]),
        executor=executor,
        state=Desk,
        input="question",
        context={"document": "documents", "rules": "rules"},
        checkpointer=InMemorySaver() if kept else None,
    )
    asked = {"question": "What is in them?", "documents": documents, "rules": "Be short."}
    await graph.ainvoke(asked, CONFIG)
    shown = _texts(clerk)
    for number, text in enumerate(shown[:12], 1):
        assert sum(f"page {other}: " in text for other in range(1, 13)) == 1, number
        assert "Be short." not in text
    assert "Be short." in shown[12]
    assert sum(map(len, shown)) < 2 * sum(len(document.page_content) for document in documents)


@EXECUTORS
async def test_a_plan_that_waits_for_approval_has_its_texts_when_it_goes_on(executor: Executor) -> None:
    """They are in the record of the run, and not read again."""
    clerk = ScriptedWorker("clerk", "read")
    graph = around(
        Conductor(FixedPlanner(Plan((Step(0, "Read {{rules}}."),))), [clerk]),
        executor=executor,
        state=Desk,
        input="question",
        context={"rules": "rules"},
        policy=LATER,
        checkpointer=InMemorySaver(),
    )
    await graph.ainvoke({"question": "What?", "rules": "Be short."}, CONFIG)
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["answer"] == "read"
    assert "Be short." in _texts(clerk)[0]


@EXECUTORS
@pytest.mark.parametrize(
    ("state", "message"),
    [({}, "no value under 'rules'"), ({"rules": object()}, "holds a object under 'rules'")],
    ids=["missing", "no text"],
)
async def test_a_part_that_is_missing_or_no_text_is_refused_before_anything_is_called(
    executor: Executor, state: dict[str, Any], message: str, calls: Calls
) -> None:
    """The error names the key."""
    conductor = Conductor(Plans(Plan((Step(0, "read"),))), calls.workers("A"))
    graph = around(conductor, executor=executor, state=Desk, input="question", context={"rules": "rules"})
    with pytest.raises(ConfigError, match=message):
        await graph.ainvoke({"question": "What?", **state})
    assert calls.names == []


@EXECUTORS
async def test_data_is_written_as_json(executor: Executor) -> None:
    """And a message as its text."""
    clerk = ScriptedWorker("clerk", "read")
    plan = Plan((Step(0, "Read {{document_1}} and {{document_2}}."),))
    graph = around(
        Conductor(FixedPlanner(plan), [clerk]),
        executor=executor,
        state=Desk,
        input="question",
        context={"document": "documents"},
    )
    await graph.ainvoke({"question": "What?", "documents": [{"rent": 900}, "May"]})
    (text,) = _texts(clerk)
    assert '{"rent": 900}' in text
    assert "The text document_2:" in text


@EXECUTORS
async def test_a_plan_that_refers_to_an_item_of_an_empty_list_is_refused(executor: Executor) -> None:
    """A worker would read the reference as text."""
    clerk = ScriptedWorker("clerk", "read")
    graph = around(
        Conductor(FixedPlanner(Plan((Step(0, "Read {{document_1}}."),))), [clerk]),
        executor=executor,
        state=Desk,
        input="question",
        context={"document": "documents"},
    )
    with pytest.raises(PlannerError, match=r"no text {{document_1}}: the texts are document"):
        await graph.ainvoke({"question": "What?", "documents": []})
    assert clerk.requests == []
