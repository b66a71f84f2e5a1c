"""All faces are made alike: of a conductor, or of a planner and workers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.llms import ChatMessage
from llamaindex.speaking import Blocking

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
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio
FACES = [ConductorQueryEngine, ConductorRetriever, ConductorLLM, ConductorToolSpec, ConductorWorkflow]
PLAN = Plan((Step(0, "Say it."),))


def conductor(**options: Any) -> Conductor:
    """Return a conductor over one worker."""
    return Conductor(FixedPlanner(PLAN), [ScriptedWorker("one", "said")], **options)


@pytest.fixture(autouse=True)
def no_llm() -> Iterator[None]:
    """Let the settings have no LLM."""
    before = Settings._llm
    Settings._llm = None
    yield
    Settings._llm = before


def mistakes() -> dict[str, tuple[Callable[[Any], Any], type[Exception], str]]:
    """Return how a face is made, and the error that says how else."""
    two_ways = r"no planner: give planner=... \(a model.*\), or a podium.Conductor"
    return {
        "no planner": (lambda face: face(workers=[Blocking("x")]), ConfigError, two_ways),
        "nothing": (lambda face: face(), ConfigError, two_ways),
        "near beside a conductor": (
            lambda face: face(conductor(), partal="raise"),
            *((TypeError, r"does not accept partal \(did you mean partial\?\)")),
        ),
        "no conductor": (
            lambda face: face(ScriptedWorker("w", "x")),
            ConfigError,
            "give a podium.Conductor, or planner=",
        ),
        "no model": (
            lambda face: face(planner=object(), workers=[Blocking("x")]),
            *((ConfigError, "neither an LLM nor a planner")),
        ),
        "both": (
            lambda face: face(conductor(), planner=FixedPlanner(PLAN), limits=Limits()),
            ConfigError,
            "got a conductor with a planner, workers or options: it has its own",
        ),
        "unknown": (
            lambda face: face(planner=FixedPlanner(PLAN), workers=[Blocking("x")], colour="red"),
            TypeError,
            "does not accept colour: its options are planner, workers, .*limits",
        ),
        "unknown beside a conductor": (lambda face: face(conductor(), colour="red"), TypeError, "colour:"),
        "an incomplete answer": (lambda face: face(conductor(), partial="drop"), ConfigError, "or raise"),
        "a run of no journal": (
            lambda face: face(conductor(), run_id="monday"),
            *((ConfigError, "run_id='monday' names runs in a journal")),
        ),
    }


@pytest.mark.parametrize("name", mistakes())
@pytest.mark.parametrize("face", FACES)
def test_a_mistake_is_said_at_once(face: Any, name: str) -> None:
    """With the name of the face, and the ways to make it."""
    make, kind, told = mistakes()[name]
    with pytest.raises(kind, match=told) as raised:
        make(face)
    assert face.__name__ in str(raised.value) or name in {"no model", "an incomplete answer"} | {
        "a run of no journal"
    }


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


async def _engine(made: Conductor) -> str:
    return str(await ConductorQueryEngine(made, run_id="monday").aquery("?"))


async def _stream(made: Conductor) -> str:
    response: Any = await ConductorQueryEngine(made, run_id="monday", streaming=True).aquery("?")
    return "".join([piece async for piece in response.async_response_gen()])


async def _retriever(made: Conductor) -> str:
    return (await ConductorRetriever(made, run_id="monday", answer=True).aretrieve("?"))[0].text


async def _llm(made: Conductor) -> str:
    return str((await ConductorLLM(made, run_id="monday").achat([ChatMessage("?")])).message.content)


async def _call(made: Conductor) -> str:
    return str((await ConductorLLM(made).achat([ChatMessage("?")], run_id="monday")).message.content)


async def _named_workflow(made: Conductor) -> str:
    return str(await ConductorWorkflow(made, run_id="monday").run("?"))


async def _workflow(made: Conductor) -> str:
    return str(await ConductorWorkflow(made).run(user_msg="?", run_id="monday"))


@pytest.mark.parametrize("ask", [_engine, _stream, _retriever, _llm, _call, _workflow, _named_workflow])
async def test_a_named_run_is_one_run(ask: Any) -> None:
    """Asked again, also by another object, it is not paid for again."""
    async with MemoryJournal() as journal:
        made = conductor(journal=journal)
        assert [await ask(made), await ask(made)] == ["said"] * 2
        assert len(made.pool[0].requests) == 1  # type: ignore[attr-defined]
        (row,) = await journal.runs()
        assert row.run_id.startswith("monday")


async def test_an_answer_that_the_journal_has_uses_no_tokens() -> None:
    """A counter of LlamaIndex's adds up what calls report."""
    async with MemoryJournal() as journal:
        llm = ConductorLLM(conductor(journal=journal), run_id="monday")
        first, again = await llm.achat([ChatMessage("?")]), await llm.achat([ChatMessage("?")])
        assert first.additional_kwargs["total_tokens"] > 0
        assert again.additional_kwargs["total_tokens"] == again.raw["usage"]["total_tokens"] == 0  # type: ignore[index]
