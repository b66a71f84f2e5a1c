"""What CrewAI has, as workers in any pool of Podium's."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from contracts.known_prices import MODEL, check_prices
from contracts.odd_answers import CALLS, FILTERED, LATIN, WRONG_URL, Case, check_case
from contracts.worker_contract import WorkerContract, question
from crewai import LLM, Agent, Crew, Task
from crewai.lite_agent_output import LiteAgentOutput
from crewai.tools import tool
from servers.capable import is_planning
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, as_worker
from podium import Card, ChatPlanner, Conductor, Message, Plan, Price, Retry, Sampling, ScriptedWorker, Step
from podium.errors import ConfigError, WorkerBroken, WorkerFailed
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.workers import Request, StepInput, Worker, complete

pytestmark = pytest.mark.anyio

ONCE = Retry(attempts=1)


def echo(shown: str, tools: Any) -> str:
    task = shown.partition("Current Task: ")[2].partition("\n")[0]
    return f"you asked: {task or shown}"


def agent_of(say: Callable[[str, Any], Any], **facts: Any) -> Agent:
    llm = SpeakingLLM(model="speaking", say=say)
    return Agent(role="Clerk", goal="Answer.", backstory="Old hand.", llm=llm, **facts)


@contextmanager
def provider_llm(url: str, **options: Any) -> Iterator[Any]:
    """Yield a real provider of CrewAI's; close its connections, which CrewAI leaves open."""
    llm = LLM(model="openai/gpt-4o-mini", base_url=url, api_key="k", **options)
    try:
        yield llm
    finally:
        llm._client.close()


def crew_of(agent: Agent, description: str = "{asked}") -> Crew:
    task = Task(description=description, expected_output="an answer", agent=agent)
    return Crew(name="bureau", agents=[agent], tasks=[task])


def made_of(kind: str, llm: Any) -> Any:
    if kind == "llm":
        return llm
    agent = Agent(role="Clerk", goal="Answer.", backstory="Old hand.", llm=llm)
    return agent if kind == "agent" else crew_of(agent)


class TestWorkers(WorkerContract):
    @pytest.fixture(params=["llm", "agent", pytest.param("crew", marks=pytest.mark.long)])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def worker(self, kind: str) -> Worker:
        return as_worker(made_of(kind, SpeakingLLM(model="speaking", say=echo)))

    @pytest.fixture
    async def slow_worker(self, kind: str) -> AsyncIterator[Worker]:
        leave = threading.Event()

        def wait(shown: str, tools: Any) -> str:
            leave.wait(30)
            return "late"

        yield as_worker(made_of(kind, SpeakingLLM(model="speaking", say=wait)))
        leave.set()


@pytest.mark.parametrize(("stalls", "streams"), [("planner", False), ("worker", True)])
async def test_a_cancel_closes_the_connections_of_llms(stalls: str, *, streams: bool) -> None:
    """Of each call that is under way, whether it has begun to answer or not."""
    stalled, all_stalled = list[Call](), asyncio.Event()

    def reply(call: Call) -> Reply:
        if is_planning(call) != (stalls == "planner"):
            return says(call, rows)
        stalled.append(call)
        if len(stalled) == {"planner": 1, "worker": 3}[stalls]:
            all_stalled.set()
        return events(chunk({"content": "{"}), STALL) if call.body.get("stream") else Reply([STALL])

    plan = Plan((*(Step(0, f"part {part}") for part in range(3)), Step(0, "join", (0, 1, 2))))
    rows = write_plan(plan, "rows")
    async with ChatServer(reply) as server:
        llm = LLM(model="openai/gpt-4o-mini", base_url=server.url, api_key="k")
        conductor = Conductor(ChatPlanner(as_worker(llm)), [as_worker(llm)], retry=ONCE)

        async def ask() -> None:
            if streams:
                [event async for event in conductor.stream("Why?")]
            else:
                await conductor.run("Why?")

        asking = asyncio.create_task(ask())
        async with asyncio.timeout(20):
            await all_stalled.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            for call in stalled:
                await call.hung_up.wait()


async def test_an_llm_that_reports_nothing_is_estimated() -> None:
    llm = SpeakingLLM(model="silent", say=lambda shown, tools: "x" * 40, counts=False)
    for thing in (llm, Agent(role="Clerk", goal="a", backstory="b", llm=llm)):
        usage = (await complete(as_worker(thing), question("y" * 40))).usage
        assert (usage.estimated, usage.output_tokens) == (True, 10)


async def test_an_llm_plans_and_streams_its_plan() -> None:
    """Its chunks are the pieces, so that a step starts before the plan is whole."""
    plan = '{"worker": 0, "subtask": "a", "access": []}\n{"worker": 0, "subtask": "b", "access": [0]}\n'
    llm = SpeakingLLM(model="planning", say=lambda shown, tools: plan)
    conductor = Conductor(ChatPlanner(as_worker(llm)), [ScriptedWorker("w", "done")])
    kinds = [event.type async for event in conductor.stream("?")]
    assert kinds.count("plan_delta") > 2
    assert kinds.index("step_started") < kinds.index("planner_ended")
    assert llm.stream is None


async def test_an_llm_is_offered_the_callers_tools() -> None:
    def say(shown: str, tools: Any) -> Any:
        if "noon" in shown:
            return "It is noon."
        return [tool_call("1", tools[0]["function"]["name"], "{}")]

    clock = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
    worker = as_worker(SpeakingLLM(model="m", say=say))
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Tell."),))), [worker])
    asked = {"role": "user", "content": "What time is it?"}
    result = await conductor.run([asked], tools=[clock])
    assert result.tool_calls[0]["function"] == {"name": "clock", "arguments": "{}"}
    calls = {"role": "assistant", "content": "", "tool_calls": list(result.tool_calls)}
    told = {"role": "tool", "content": "noon", "tool_call_id": "1"}
    assert (await conductor.run([asked, calls, told], tools=[clock])).answer == "It is noon."


async def test_sampling_reaches_the_provider() -> None:
    async with ChatServer(lambda call: says(call, "fine")) as server:
        with provider_llm(server.url) as llm:
            sampling = Sampling(temperature=0.5, max_tokens=77)
            request = Request(messages=(Message("user", "?"),), sampling=sampling, stream=True)
            done = await complete(as_worker(llm), request)
            assert (done.text, done.usage.total_tokens) == ("fine", 218)
            body = server.calls[0].body
            assert (body["temperature"], body.get("max_tokens") or body["max_completion_tokens"]) == (0.5, 77)
            assert (llm.temperature, llm.stream) == (None, False)


async def test_what_fails_is_told_of_the_worker_and_billed() -> None:
    @tool("Ruler")
    def ruler(what: str) -> str:
        """Measures what it is told."""
        return what

    def say(shown: str, tools: Any) -> Any:
        if shown.count("tower") > 1:
            raise ValueError("out of order")
        return [tool_call("1", tools[0]["function"]["name"], '{"what": "tower"}')]

    with pytest.raises(WorkerFailed, match="'Clerk' raised ValueError: out of order") as caught:
        await complete(as_worker(agent_of(say, tools=[ruler])), question("tower"))
    assert caught.value.usage.total_tokens == 242
    with pytest.raises((WorkerBroken, WorkerFailed)):
        await complete(as_worker(agent_of(lambda shown, tools: "")), question("?"))


async def test_a_crews_inputs_are_made_of_the_step() -> None:
    crew = crew_of(agent_of(echo), "{what} in {lang}")
    with pytest.raises(ConfigError, match="has the inputs lang, what"):
        as_worker(crew)
    with pytest.raises(ConfigError, match="has no input"):
        as_worker(crew_of(agent_of(echo), "Do it."))

    def inputs(step_input: StepInput) -> dict[str, str]:
        return {"what": step_input.subtask, "lang": "Danish"}

    done = await complete(as_worker(crew, inputs=inputs), question("Tower"))
    assert done.text == "you asked: Tower in Danish"


def test_a_card_says_what_its_owner_says() -> None:
    agent = agent_of(echo)
    assert as_worker(agent).card == Card(name="Clerk", description="Answer. Old hand.")
    told = as_worker(agent, name="c", description="d", price=Price(input=1, output=2), labels={"eu"}).card
    assert told == Card(name="c", description="d", price=Price(input=1, output=2), labels=frozenset({"eu"}))
    assert as_worker(agent, card=told).card is told
    assert as_worker(crew_of(agent)).card.description == "A crew of Clerk. Its tasks: {asked}"
    for wrong in (lambda: as_worker(agent, card=told, name="x"), lambda: as_worker(print)):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ConfigError, match="only a crew has inputs"):
        as_worker(agent, inputs=lambda step_input: {})


def test_podiums_workers_pass_and_a_conductor_is_unwrapped() -> None:
    """The steps of a `ConductorLLM` share the limits of the run around it."""
    own = ScriptedWorker("own", "x")
    assert as_worker(own) is own
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [own])
    assert as_worker(ConductorLLM(conductor)) is conductor
    with pytest.raises(ConfigError, match="already has a card"):
        as_worker(own, name="other")


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # CrewAI's, of an answer with calls
@pytest.mark.parametrize(
    ("case", "kind", "stream"),
    [
        *((case, "llm", True) for case in (FILTERED, LATIN, "length", None)),
        *((case, "llm", False) for case in (CALLS, WRONG_URL)),
        *((case, "agent", False) for case in (FILTERED, None)),
        *((case, "crew", False) for case in (CALLS, "length")),
    ],
)
async def test_how_an_answer_ends(case: Case, kind: str, *, stream: bool) -> None:
    """CrewAI's LLMs leave refusals out; its agents return what was filtered, and calls of tools as JSON."""
    with ExitStack() as stack:

        def make(url: str) -> Worker:
            return as_worker(made_of(kind, stack.enter_context(provider_llm(url))))

        await check_case(make, case, stream=stream)


GOOD, BAD = '{"city": "Paris"}', '{"city": "Nowhere"}'
TOOL_CASES = [
    pytest.param(crew_of, [GOOD, BAD], 5, "its tool 'weather' failed: no such city", id="raises in a crew"),
    pytest.param(lambda agent: agent, [GOOD], 1, "max_iter=1", id="max_iter"),
    pytest.param(lambda agent: agent, [BAD, GOOD], 5, None, id="succeeds at last"),
]


@pytest.mark.parametrize(("make", "calls", "max_iter", "told"), TOOL_CASES)
async def test_an_answer_without_its_tool_is_partial(make: Any, calls: Any, max_iter: int, told: Any) -> None:
    """CrewAI has the agent answer all the same; the last call of the tool counts."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        if city != "Paris":
            raise ValueError("no such city")
        return "22 degrees"

    def reply(call: Call) -> Reply:
        done = sum(message["role"] == "tool" for message in call.body["messages"])
        if done == len(calls):
            return says(call, "It is warm.")
        asked = [tool_call(str(done), "weather", calls[done])]
        return says(call, "", tool_calls=asked, finish_reason="tool_calls")

    async with ChatServer(reply) as server:
        with provider_llm(server.url) as llm:
            options: Any = {"tools": [weather], "max_iter": max_iter}
            agent = Agent(role="Clerk", goal="Answer.", backstory="b", llm=llm, **options)
            conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(make(agent))])
            result = await conductor.run("?")
    assert (result.answer, result.status) == ("It is warm.", "ok" if told is None else "partial")
    assert told is None or told in result.problem.message


def guarded(say: Callable[[str, Any], Any], guardrail: Any, retries: int = 2) -> Agent:
    return agent_of(say, guardrail=guardrail, guardrail_max_retries=retries)


async def test_an_agents_guardrail_has_the_subtask_done_again() -> None:
    """With the reason and the refused answer; the answer is what the guardrail returns, on one bill."""
    sent: list[str] = []

    def say(shown: str, tools: Any) -> str:
        sent.append(shown)
        return "short" if len(sent) == 1 else "a longer answer"

    def check(output: LiteAgentOutput) -> tuple[bool, Any]:
        assert output.agent_role == "Clerk"
        return (False, "too short") if output.raw == "short" else (True, output.raw.upper())

    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(guarded(say, check))])
    result = await conductor.run("?")
    assert (result.status, result.answer, len(sent)) == ("ok", "A LONGER ANSWER", 2)
    assert "not accepted: too short" in sent[1]
    assert "Your previous answer:\nshort" in sent[1]
    assert result.usage.total_tokens == 2 * 242


@pytest.mark.parametrize("in_words", [False, True])
async def test_an_answer_that_a_guardrail_refuses_to_the_end_is_none(*, in_words: bool) -> None:
    """The step fails with a code of its own and is not tried again; all its calls are on the bill."""
    sent: list[str] = []

    def say(shown: str, tools: Any) -> str:
        sent.append(shown)
        is_guard = "comply with" in shown or "Guardrail:" in shown
        return '{"valid": false, "feedback": "rude"}' if is_guard else "no"

    guardrail: Any = "It is polite." if in_words else (lambda output: (False, "rude"))
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(guarded(say, guardrail, 1))])
    result = await conductor.run("?")
    assert (result.status, result.problem.code) == ("failed", "guardrail_tripped")
    assert "after 1 retries: rude" in result.problem.message
    assert (len(sent), result.usage.total_tokens) == (4 if in_words else 2, len(sent) * 242)


def test_an_llm_has_the_price_of_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "DEEPSEEK_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(LLM(model=f"openai/{MODEL}", base_url=url, api_key="k"), card=card)

    check_prices(make)
    assert as_worker(LLM(model="deepseek/deepseek-chat", api_key="k")).card.price_source
