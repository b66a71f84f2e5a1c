"""A conductor is a model of Inspect: in evaluations, from its cache, with its errors and actions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from contracts.waiting_contract import QUESTION as WAITING, check_waiting
from inspect_ai import Task, eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentImage, ContentText, Model, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import Tool, tool
from servers.chat_server import USAGE, Call, ChatServer, Reply, says

from inspect_podium import conductor_model
from podium import Card, ChatWorker, Conductor, Endpoint, Plan, Price, Retry, ScriptedWorker, Step
from podium.hosts import ToolWorker, tool_call
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, Worker

QUESTION = "What is 2 + 2?"
PRICE = Price(input=1.0, output=2.0)


def asked(
    model: str | Model, question: Any = QUESTION, *, arguments: dict[str, Any] | None = None, **options: Any
) -> EvalLog:
    task = Task(dataset=[Sample(input=question, target="4")], scorer=includes())
    if isinstance(model, str):  # Inspect keeps the models of a process
        model = get_model(model, memoize=False, **arguments or {})
    (log,) = evaluate(task, model=model, **options)
    return log


def test_a_conductor_answers(config: Path, server: ChatServer) -> None:
    """The log can be read by anyone: it has the answer, the usage, the cost and the plan."""
    log = asked("podium/mine")
    assert (log.status, log.eval.model) == ("success", "podium/mine"), log.error
    read = read_eval_log(log.location)
    (sample,) = read.samples
    assert (sample.output.completion, sample.scores["includes"].value) == ("So \\boxed{4}.", "C")
    facts = sample.output.metadata["podium"]
    assert (facts["status"], facts["steps"][0]["output"]) == ("ok", "So \\boxed{4}.")
    usage = read.stats.model_usage["podium/mine"]
    assert usage.total_tokens == facts["usage"]["input_tokens"] + facts["usage"]["output_tokens"] > 0
    assert usage.total_cost == facts["cost"] > 0
    assert len(server.calls) == 1
    assert [event.source for event in sample.events if event.event == "info"] == ["podium"]


@pytest.mark.anyio
async def test_a_plan_may_wait_and_go_on_later() -> None:
    """The error has the run, which the conductor decides and continues."""

    async def ask(conductor: Conductor) -> object:
        return (await conductor_model(conductor).generate(WAITING)).completion

    await check_waiting(ask)


def test_a_rerun_is_answered_from_the_cache(config: Path, server: ChatServer) -> None:
    for _ in range(2):
        assert asked("podium/mine", cache=True).status == "success"
    assert len(server.calls) == 1
    config.write_text(config.read_text().replace('model = "small"', 'model = "large"'))
    assert asked("podium/mine", cache=True).status == "success"
    assert [call.body["model"] for call in server.calls] == ["small", "large"]


def test_wrong_arguments_are_told(config: Path) -> None:
    for arguments, told in (
        ({"path": "missing.toml"}, "missing.toml"),
        ({"speed": "fast"}, "does not accept speed: it accepts path, partial, journal"),
    ):
        with pytest.raises(Exception, match=told):
            get_model("podium/mine", memoize=False, **arguments)


def lacking(server: ChatServer) -> Conductor:
    steps = (Step(0, "Fail."), Step(1, "Find."), Step(2, "Answer.", (0, 1)))
    workers = [
        ScriptedWorker("broken", ValueError("down")),
        ScriptedWorker("seeker", "It is even."),
        ChatWorker("small", card=Card(name="small", price=PRICE), endpoint=Endpoint(server.url)),
    ]
    return Conductor(FixedPlanner(Plan(steps)), workers, retry=Retry(attempts=1))


def test_the_log_has_the_usage_of_a_run_without_an_answer(server: ChatServer) -> None:
    log = asked(conductor_model(lacking(server), "mine", partial="raise"))
    assert (log.status, len(server.calls)) == ("error", 1)
    usage = read_eval_log(log.location).stats.model_usage["podium/mine"]
    assert (usage.total_tokens >= USAGE["total_tokens"], usage.total_cost is None) == (True, False)


def test_a_sample_that_is_repeated_finds_its_run_that_waits() -> None:
    """Inspect repeats a sample after each error; another sample is another run."""
    journal, plan = SqlJournal(Path("runs.db")), Plan((Step(0, "Say it."),))
    options: Any = {"policy": Policy(approve="later"), "journal": journal}
    made = Conductor(FixedPlanner(plan), [ScriptedWorker("one", "4")], **options)
    task = Task(dataset=[Sample(input=QUESTION, target="4", id=name) for name in "ab"], scorer=includes())
    (log,) = evaluate(task, model=conductor_model(made), retry_on_error=2, fail_on_error=False)
    assert [len(sample.error_retries) for sample in log.samples] == [2, 2]
    assert [row.state for row in asyncio.run(journal.runs())] == ["waiting", "waiting"]


@pytest.mark.parametrize("partial", ["return", "raise"])
def test_an_agent_ends_at_an_incomplete_answer(server: ChatServer, partial: Any) -> None:
    """A model that sees a gap is not offered the tools, so the agent would ask without end."""
    server.reply = lambda call: says(call, "It is 4.")
    task = Task(dataset=[Sample(input=QUESTION, target="4")], solver=react(), scorer=includes())
    (log,) = evaluate(task, model=conductor_model(lacking(server), partial=partial), message_limit=20)
    assert (len(server.calls), log.status == "error") == (1, partial == "raise")
    (sample,) = log.samples
    if partial == "return":
        assert (sample.output.completion, sample.output.stop_reason) == ("It is 4.", "model_length")
        assert "(Not complete: " in (sample.output.error or "")
    else:
        assert "is partial" in str(sample.error)


@tool
def adder() -> Tool:
    """Return a tool of Inspect."""

    async def execute(x: int, y: int) -> int:
        """Add numbers.

        Args:
            x: the first.
            y: the second.
        """
        return x + y

    return execute


def uses_tools(call: Call) -> Reply:
    told = [message["content"] for message in call.body["messages"] if message["role"] == "tool"]
    name, arguments = ("submit", {"answer": told[0]}) if told else ("adder", {"x": 2, "y": 2})
    asked = [tool_call(f"call_{len(told)}", name, arguments)]
    return says(call, "", tool_calls=asked, finish_reason="tool_calls")


def test_an_agent_of_inspect_uses_its_tools(config: Path, server: ChatServer) -> None:
    """The worker of the last step calls them; the plan and the other steps are not paid for again."""
    server.reply = uses_tools
    seeker = ScriptedWorker("seeker", "Adding is allowed.")
    plan = FixedPlanner(Plan((Step(0, "Look it up."), Step(1, "Answer.", (0,)))))
    made = Conductor(plan, [seeker, ChatWorker("small", endpoint=Endpoint(server.url))])
    data, solver = [Sample(input=QUESTION, target="4")], react(tools=[adder()])
    task = Task(dataset=data, solver=solver, scorer=includes())
    for model, calls in ((get_model("podium/mine", memoize=False), 2), (conductor_model(made), 4)):
        (log,) = evaluate(task, model=model)
        assert log.status == "success", log.error
        (sample,) = log.samples
        assert (sample.output.completion, sample.scores["includes"].value) == ("4", "C")
        assert len(server.calls) == calls
    assert len(seeker.requests) == 1


def test_settings_reach_the_worker(config: Path, server: ChatServer) -> None:
    assert asked("podium/mine", temperature=0.5, max_tokens=77, seed=3, stop_seqs=["END"]).status == "success"
    body = server.calls[0].body
    assert (body["temperature"], body["seed"], body["stop"]) == (0.5, 3, ["END"])
    assert 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    log = asked("podium/mine", top_k=5, logprobs=True)
    assert "does not accept logprobs, top_k" in log.error.message or "top_k" in log.error.message


def test_a_conversation_is_read(config: Path, server: ChatServer) -> None:
    parts = [ContentText(text="Please."), ContentText(text=QUESTION)]
    conversation = [ChatMessageSystem(content="Be brief."), ChatMessageUser(content=list(parts))]
    assert asked("podium/mine", conversation).status == "success"
    assert "Be brief." in str(server.calls[0].body["messages"])
    image = ContentImage(image="data:image/png;base64,iVBORw0KGgo=")
    log = asked("podium/mine", [ChatMessageUser(content=[ContentText(text=QUESTION), image])])
    assert "'image_url', and no worker can be shown it" in log.error.message
    assert image.image not in str([call.body for call in server.calls])


ORDER = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}


class Asked(ActionHost):
    """A model; its pool has workers of Podium only."""

    def tool(self, refund: Refund) -> Worker:
        async def call(arguments: dict[str, int]) -> str:
            return refund(arguments["order"])

        return ToolWorker(ORDER, call, card=Card(name="refund", price=FREE))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        output = await conductor_model(conductor).generate("Refund it.")
        return (output.metadata or {})["podium"]["status"], output.completion


class TestActions(ActionsContract):
    @pytest.fixture
    def host(self) -> ActionHost:
        return Asked()
