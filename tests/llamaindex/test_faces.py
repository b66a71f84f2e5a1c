"""All faces are made alike: of a conductor, or of a planner and workers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llamaindex.library import AGENTS, Shelf
from llamaindex.speaking import Blocking, Native

from llama_index_podium import (
    ConductorLLM,
    ConductorQueryEngine,
    ConductorRetriever,
    ConductorToolSpec,
    ConductorWorkflow,
    as_planner,
    as_worker,
)
from podium import Conductor, Limits, Plan, Retry, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio
FACES = [ConductorQueryEngine, ConductorRetriever, ConductorLLM, ConductorToolSpec, ConductorWorkflow]
PLAN = Plan((Step(0, "Say it."),))


def _conductor(**options: Any) -> Conductor:
    return Conductor(FixedPlanner(PLAN), [ScriptedWorker("one", "said")], **options)


@pytest.fixture(autouse=True)
def no_llm() -> Iterator[None]:
    before = Settings._llm
    Settings._llm = None
    yield
    Settings._llm = before


LLMS, MADE = [Blocking("x")], _conductor()
MISTAKES: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (ConfigError, r"no planner: give planner=... \(a model.*\), or a podium.Conductor", {"workers": LLMS}),
    (TypeError, r"does not accept partal \(did you mean partial\?\)", {"conductor": MADE, "partal": "raise"}),
    (ConfigError, "give a podium.Conductor, or planner=", {"conductor": ScriptedWorker("w", "x")}),
    (ConfigError, "neither an LLM nor a planner", {"planner": object(), "workers": LLMS}),
    (ConfigError, "a planner, workers or options: it has its own", {"conductor": MADE, "limits": Limits()}),
    (TypeError, "colour: its options are planner, .*limits", {"planner": as_planner(LLMS[0]), "colour": 1}),
    (ConfigError, "or raise", {"conductor": MADE, "partial": "drop"}),
    (ConfigError, "run_id='monday' names runs in a journal", {"conductor": MADE, "run_id": "monday"}),
]
"""How a face cannot be made, and what the error says."""


@pytest.mark.parametrize("face", FACES)
def test_a_mistake_is_said_at_once(face: Any) -> None:
    for kind, told, options in MISTAKES:
        given = {**options}
        with pytest.raises(kind, match=told):
            face(*([given.pop("conductor")] if "conductor" in given else []), **given)


@pytest.mark.parametrize("face", FACES)
def test_its_parts_are_those_of_a_conductor(face: Any) -> None:
    """The planner may be an LLM, also the one of the settings; as a worker it is its conductor."""
    workers, chief = [Blocking("x", name="a")], Blocking("x", name="chief")
    made = face(planner=as_planner(chief), workers=workers, limits=Limits(calls=3), labels=["private"])
    assert (made.conductor.planner.name, made.conductor.limits.calls) == ("chief", 3)
    assert (made.conductor.pool.names[0], made.conductor.card.labels) == ("a", {"private"})
    assert as_worker(made) is made.conductor
    Settings.llm = Blocking("x", name="settled")
    assert face(workers=workers).conductor.planner.name == "settled"
    assert face(planner=chief, workers=workers).conductor.planner.name == "chief"


async def _stream(made: Conductor) -> str:
    response: Any = await ConductorQueryEngine(made, run_id="monday", streaming=True).aquery("?")
    return "".join([piece async for piece in response.async_response_gen()])


async def _retriever(made: Conductor) -> str:
    return (await ConductorRetriever(made, run_id="monday", answer=True).aretrieve("?"))[0].text


async def _call(made: Conductor) -> str:
    return str((await ConductorLLM(made).achat([ChatMessage("?")], run_id="monday")).message.content)


@pytest.mark.parametrize("ask", [_stream, _retriever, _call])
async def test_a_named_run_is_one_run(ask: Any) -> None:
    """Asked again, also by another object, it is not paid for again."""
    async with MemoryJournal() as journal:
        made = _conductor(journal=journal)
        assert ([await ask(made), await ask(made)], len(made.pool[0].requests)) == (["said"] * 2, 1)
        (row,) = await journal.runs()
        assert row.run_id.startswith("monday")


STEPS = Plan((Step(0, "a"), Step(0, "b"), Step(0, "c"), Step(0, "d", (0, 1, 2))))
"""Four calls of one worker."""
ONE = Plan((Step(0, "Acme"),))
MANY = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}


def _wrapped(kind: str, conductor: Conductor) -> Any:
    """Return an object of LlamaIndex's around a conductor, as a worker."""
    llm = ConductorLLM(conductor)
    things: dict[str, Callable[[], Any]] = {
        "tool": lambda: ConductorToolSpec(conductor).to_tool_list()[0],
        "agent": lambda: ReActAgent(name="w", llm=llm),
        "query engine": lambda: RetrieverQueryEngine(Shelf("contracts"), get_response_synthesizer(llm=llm)),
    }
    return as_worker(things[kind]())


def conductor(worker: Any, steps: Plan, **options: Any) -> Conductor:
    return Conductor(FixedPlanner(steps), [as_worker(worker)], retry=Retry(attempts=1), **options)


@AGENTS
@pytest.mark.parametrize("kind", ["tool", "agent", "query engine"])
async def test_limits_and_bills_are_those_of_the_run_around_it(kind: str) -> None:
    """No more calls are made than that run may make; and each is on its bill once."""
    called: list[str] = []

    async def speak(prompt: str) -> str:
        called.append(prompt)
        return "Thought: I can answer.\nAnswer: done"

    inner = conductor(Native(speak, name="busy", tokens=MANY), STEPS)
    limited = conductor(_wrapped(kind, inner), ONE, limits=Limits(calls=3))
    result = await limited.run("?")
    assert result.status != "ok"
    assert len(called) <= 3
    called.clear()
    result = await conductor(_wrapped(kind, inner), ONE).run("?")
    assert (result.status, len(called)) == ("ok", 4), result.explain()
    assert result.usage.total_tokens == 4 * MANY["total_tokens"]
