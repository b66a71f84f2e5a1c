"""All faces are made alike: of a conductor, or of a planner and workers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llamaindex.library import Shelf
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
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.execution import Retry
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


TWO_WAYS = r"no planner: give planner=... \(a model.*\), or a podium.Conductor"
MISTAKES: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    TWO_WAYS: (lambda face: face(workers=[Blocking("x")]), ConfigError),
    r"does not accept partal \(did you mean partial\?\)": (
        lambda face: face(_conductor(), partal="raise"),
        TypeError,
    ),
    "give a podium.Conductor, or planner=": (lambda face: face(ScriptedWorker("w", "x")), ConfigError),
    "neither an LLM nor a planner": (
        lambda face: face(planner=object(), workers=[Blocking("x")]),
        ConfigError,
    ),
    "got a conductor with a planner, workers or options: it has its own": (
        lambda face: face(_conductor(), planner=FixedPlanner(PLAN), limits=Limits()),
        ConfigError,
    ),
    "does not accept colour: its options are planner, workers, .*limits": (
        lambda face: face(planner=FixedPlanner(PLAN), workers=[Blocking("x")], colour="red"),
        TypeError,
    ),
    "or raise": (lambda face: face(_conductor(), partial="drop"), ConfigError),
    "run_id='monday' names runs in a journal": (
        lambda face: face(_conductor(), run_id="monday"),
        ConfigError,
    ),
}
"""How a face cannot be made, by what the error says."""


@pytest.mark.parametrize("face", FACES)
def test_a_mistake_is_said_at_once(face: Any) -> None:
    for told, (make, kind) in MISTAKES.items():
        with pytest.raises(kind, match=told):
            make(face)


@pytest.mark.parametrize("face", FACES)
def test_its_parts_are_those_of_a_conductor(face: Any) -> None:
    """The planner may be an LLM, also the one of the settings; as a worker it is its conductor."""
    workers, chief = [Blocking("x", name="a")], Blocking("x", name="chief")
    made = face(planner=as_planner(chief), workers=workers, limits=Limits(calls=3), labels=["private"])
    assert (made.conductor.planner.name, made.conductor.limits.calls) == ("chief", 3)
    assert made.conductor.pool.names[0] == "a"
    assert made.conductor.card.labels == {"private"}
    assert as_worker(made) is made.conductor
    Settings.llm = Blocking("x", name="settled")
    assert face(workers=workers).conductor.planner.name == "settled"
    assert face(planner=chief, workers=workers).conductor.planner.name == "chief"


async def _stream(made: Conductor) -> str:
    response: Any = await ConductorQueryEngine(made, run_id="monday", streaming=True).aquery("?")
    return "".join([piece async for piece in response.async_response_gen()])


async def _retriever(made: Conductor) -> str:
    return (await ConductorRetriever(made, run_id="monday", answer=True).aretrieve("?"))[0].text


async def _llm(made: Conductor) -> str:
    return str((await ConductorLLM(made, run_id="monday").achat([ChatMessage("?")])).message.content)


async def _call(made: Conductor) -> str:
    return str((await ConductorLLM(made).achat([ChatMessage("?")], run_id="monday")).message.content)


@pytest.mark.parametrize("ask", [_stream, _retriever, _call])
async def test_a_named_run_is_one_run(ask: Any) -> None:
    """Asked again, also by another object, it is not paid for again."""
    async with MemoryJournal() as journal:
        made = _conductor(journal=journal)
        assert [await ask(made), await ask(made)] == ["said"] * 2
        assert len(made.pool[0].requests) == 1
        (row,) = await journal.runs()
        assert row.run_id.startswith("monday")


STEPS = Plan((Step(0, "a"), Step(0, "b"), Step(0, "c"), Step(0, "d", (0, 1, 2))))
"""Four calls of one worker."""
ONE = Plan((Step(0, "Acme"),))
MANY = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
KINDS = ("tool", "agent", "query engine")


def _wrapped(kind: str, conductor: Conductor) -> Any:
    """Return an object of LlamaIndex's around a conductor, as a worker."""
    llm = ConductorLLM(conductor)
    match kind:
        case "tool":
            thing: Any = ConductorToolSpec(conductor).to_tool_list()[0]
        case "agent":
            thing = ReActAgent(name="w", llm=llm)
        case _:
            thing = RetrieverQueryEngine(Shelf("contracts"), get_response_synthesizer(llm=llm))
    return as_worker(thing)


def conductor(worker: Any, steps: Plan, **options: Any) -> Conductor:
    return Conductor(FixedPlanner(steps), [as_worker(worker)], retry=Retry(attempts=1), **options)


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")  # of agents themselves
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
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
