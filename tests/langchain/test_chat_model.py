"""A conductor as a chat model: what it answers, what it tells of itself, what it refuses."""

import json
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from langchain_podium.chat_models import ChatPodium
from podium import Card, ChatPlanner, Conductor, Limits, RulePlanner, ScriptedWorker
from podium.errors import ConfigError, LimitExceeded, QueryError, RunFailed, WorkerBroken, WorkerRefused
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import Completion, Plan, Step
from podium.usage import Usage
from podium.workers import Request

pytestmark = pytest.mark.anyio

PLAN = (
    '{"worker": 0, "subtask": "Look it up.", "access": []}\n'
    '{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


def planner(plan: str = PLAN) -> ChatPlanner:
    """Return a planner that always plans the same, for 210 tokens."""
    return ChatPlanner(ScriptedWorker("planner", Completion(plan, usage=Usage(208, 2))))


def scripted(**more: Any) -> ChatPodium:
    """Return a chat model over two scripted workers, the second of which answers in pieces."""
    return ChatPodium(conductor=Conductor(planner(), [finder(), writer()], **more))


def finder() -> ScriptedWorker:
    """Return who looks things up."""
    return ScriptedWorker("finder", Completion("It is 42.", usage=Usage(20, 5)))


def writer(reply: Any = None) -> ScriptedWorker:
    """Return who answers."""
    return ScriptedWorker("writer", reply or Completion("Forty-two.", usage=Usage(30, 7)), piece=4)


async def test_the_answer_and_what_is_told_of_the_run() -> None:
    """The plan, its steps, their tokens and the run's id stand in the message, as plain JSON."""
    message = await scripted().ainvoke("What is six times seven?")
    assert isinstance(message, AIMessage)
    assert message.content == "Forty-two."
    told = message.response_metadata
    assert (told["model_name"], told["finish_reason"]) == ("podium", "stop")
    podium = told["podium"]
    assert json.loads(json.dumps(podium)) == podium
    assert [step["subtask"] for step in podium["plan"]["steps"]] == ["Look it up.", "Answer."]
    assert [(s["worker"], s["status"], s["access"]) for s in podium["steps"]] == [
        ("finder", "ok", []),
        ("writer", "ok", [0]),
    ]
    assert podium["steps"][0]["usage"]["total_tokens"] == 25
    assert podium["usage"]["total_tokens"] == 272
    assert (podium["status"], podium["problem"], podium["cost"]) == ("ok", None, 0.0)
    assert "continuation" not in podium


async def test_history_reaches_the_workers() -> None:
    """What was said before is there, in its order; the question is the last."""
    pool = [finder(), writer()]
    model = ChatPodium(conductor=Conductor(planner(), pool))
    await model.ainvoke(
        [SystemMessage("Be short."), HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Why?")]
    )
    (request,) = pool[1].requests
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "user"]
    assert request.step_input is not None
    assert request.step_input.query[-1].text == "Why?"


async def test_the_answer_alone_is_streamed_as_it_comes() -> None:
    """Pieces of the last step's text; what the run came to is in the last chunk, and only there."""
    chunks = [chunk async for chunk in scripted().astream("What?")]
    assert [chunk.content for chunk in chunks] == ["Fort", "y-tw", "o.", ""]
    assert [chunk.chunk_position for chunk in chunks] == [None, None, None, "last"]
    assert all(chunk.usage_metadata is None for chunk in chunks[:-1])
    last = chunks[-1]
    assert last.usage_metadata is not None
    assert last.usage_metadata["total_tokens"] == 272
    assert last.response_metadata["podium"]["status"] == "ok"
    assert len({chunk.id for chunk in chunks}) == 1


async def test_content_in_blocks() -> None:
    """With LangChain's `output_version`, streamed or not."""
    model = ChatPodium(conductor=Conductor(planner(), [finder(), writer()]), output_version="v1")
    chunks = [chunk async for chunk in model.astream("What?")]
    assert [chunk.content for chunk in chunks[:1]] == [[{"type": "text", "text": "Fort", "index": 0}]]
    whole = sum(chunks[1:], chunks[0])
    assert whole.content == [{"type": "text", "text": "Forty-two.", "index": 0}]
    assert (await model.ainvoke("What?")).content == [{"type": "text", "text": "Forty-two."}]


async def test_sync_calls_inside_a_running_loop() -> None:
    """As in a notebook: `invoke`, `stream` and `batch` in code that a loop runs."""
    model = scripted()
    assert model.invoke("What?").content == "Forty-two."
    assert "".join(str(chunk.content) for chunk in model.stream("What?")) == "Forty-two."
    assert [message.content for message in model.batch(["What?", "Why?"])] == ["Forty-two.", "Forty-two."]


def test_it_stands_in_a_chain() -> None:
    """A prompt before, a parser after."""
    chain = ChatPromptTemplate.from_messages([("human", "What is {this}?")]) | scripted() | StrOutputParser()
    assert chain.invoke({"this": "it"}) == "Forty-two."
    assert "".join(chain.stream({"this": "it"})) == "Forty-two."


async def test_a_step_tried_again_goes_on_where_the_stream_broke_off() -> None:
    """What was sent is not sent twice when the next attempt writes the same."""
    attempts = iter(["Forty", "Forty-two."])
    chunks = [c async for c in flaky(attempts).astream("What?")]
    assert "".join(str(chunk.content) for chunk in chunks) == "Forty-two."


async def test_a_stream_that_was_contradicted_raises() -> None:
    """An answer other than what was streamed is no end of that stream; it is in the error."""
    attempts = iter(["Thirty", "Forty-two."])
    with pytest.raises(RunFailed, match="differs from the streamed text") as raised:
        [c async for c in flaky(attempts).astream("What?")]
    assert raised.value.result.answer == "Forty-two."


def flaky(attempts: Any) -> ChatPodium:
    """Return a model whose writer breaks off after the first of the attempts."""

    class Breaking(ScriptedWorker):
        async def call(self, request: Request) -> Any:
            text = next(attempts)
            yield text
            if not text.endswith("."):
                raise WorkerBroken("cut off", maybe_paid=True)
            yield Completion(text)

    pool = [finder(), Breaking("writer", "")]
    return ChatPodium(conductor=Conductor(planner(), pool, retry=Retry(first_wait=0.001)))


async def test_a_run_without_an_answer_raises_so_that_fallbacks_work() -> None:
    """`with_fallbacks` goes on with another model."""
    pool = [ScriptedWorker("finder", WorkerRefused("no")), writer()]
    broken = ChatPodium(conductor=Conductor(planner(), pool))
    with pytest.raises(RunFailed, match="worker_refused") as raised:
        await broken.ainvoke("What?")
    assert raised.value.result.status == "failed"
    assert (await broken.with_fallbacks([scripted()]).ainvoke("What?")).content == "Forty-two."


async def test_a_part_of_an_answer_is_an_answer_that_says_so() -> None:
    """What is missing stands in the message."""
    pool = [finder(), ScriptedWorker("other", WorkerRefused("no")), writer()]
    plan = Plan((Step(0, "Find it."), Step(1, "Find it, too."), Step(2, "Write.", (0, 1))))
    message = await ChatPodium(conductor=Conductor(FixedPlanner(plan), pool)).ainvoke("What?")
    assert message.text.startswith("Forty-two.\n\n(Not complete: ")
    podium = message.response_metadata["podium"]
    assert podium["status"] == "partial"
    assert podium["problem"]["code"] == "worker_refused"


async def test_the_run_is_called_in_the_journal_what_langchain_calls_it() -> None:
    """The same id and question are one run, paid for once."""
    pool, run_id = [finder(), writer()], uuid4()
    model = ChatPodium(conductor=Conductor(planner(), pool, journal=MemoryJournal()))
    for _ in range(2):
        message = await model.ainvoke("What?", config={"run_id": run_id})
        assert message.response_metadata["podium"]["run_id"] == str(run_id)
    assert len(pool[1].requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_of_a_result_that_is_read_back_are_not_reported_again(*, stream: bool) -> None:
    """So `UsageMetadataCallbackHandler` counts each call once; the metadata has the whole run's."""
    pool, run_id, seen = [finder(), writer()], uuid4(), UsageMetadataCallbackHandler()
    model = ChatPodium(conductor=Conductor(planner(), pool, journal=MemoryJournal()))

    async def ask() -> Any:
        config: Any = {"run_id": run_id, "callbacks": [seen]}
        if not stream:
            return await model.ainvoke("What?", config=config)
        chunks = [chunk async for chunk in model.astream("What?", config=config)]
        return sum(chunks[1:], chunks[0])

    assert (await ask()).usage_metadata["total_tokens"] == 272
    again = await ask()
    assert again.usage_metadata["total_tokens"] == 0
    assert again.response_metadata["podium"]["usage"]["total_tokens"] == 272
    assert seen.usage_metadata["podium"]["total_tokens"] == 272


async def test_a_recorded_run_that_failed_goes_on() -> None:
    """The same id again runs the failed step again, and reports what this call spent."""
    replies = iter([WorkerRefused("no"), Completion("Forty-two.", usage=Usage(30, 7))])
    pool, run_id = [finder(), writer(lambda _: next(replies))], uuid4()
    model = ChatPodium(conductor=Conductor(planner(), pool, journal=MemoryJournal()))
    with pytest.raises(RunFailed):
        await model.ainvoke("What?", config={"run_id": run_id})
    message = await model.ainvoke("What?", config={"run_id": run_id})
    assert message.content == "Forty-two."
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] == 37
    assert len(pool[0].requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_partial_answer_can_be_refused(*, stream: bool) -> None:
    """Also where it has a form, and nobody sees the message."""
    plan = '{"worker": 0, "subtask": "x", "access": []}\n{"worker": 1, "subtask": "y", "access": [0]}\n'
    cut = Completion('{"x": 7}', "length", usage=Usage(9, 9))
    pool = [finder(), writer(cut)]
    model = ChatPodium(conductor=Conductor(planner(plan), pool), partial="raise")
    asks = model.with_structured_output({"title": "X", "type": "object"}, method="json_mode")

    async def ask() -> None:
        if stream:
            [chunk async for chunk in model.astream("What?")]
        else:
            await asks.ainvoke("What?")

    with pytest.raises(RunFailed, match="is partial") as raised:
        await ask()
    assert raised.value.result.status == "partial"


async def test_estimates_and_unsure_bills_are_marked() -> None:
    """Of the run and of each step."""
    model = ChatPodium(conductor=Conductor(planner(), [finder(), writer(Completion("Forty-two."))]))
    told = (await model.ainvoke("What?")).response_metadata["podium"]
    assert told["estimated_usage"]["output_tokens"] > 0
    assert [step["estimated"] for step in told["steps"]] == [False, True]
    assert [told["maybe_paid"], *(step["maybe_paid"] for step in told["steps"])] == [False] * 3
    lost = writer(WorkerBroken("cut off", maybe_paid=True))
    pool = [finder(), lost]
    plan = PLAN + '{"worker": 0, "subtask": "Answer again.", "access": [0, 1]}\n'
    conductor = Conductor(planner(plan), pool, retry=Retry(attempts=1))
    told = (await ChatPodium(conductor=conductor).ainvoke("What?")).response_metadata["podium"]
    assert (told["maybe_paid"], told["steps"][1]["maybe_paid"]) == (True, True)


async def test_the_fallback_planner_may_be_a_chat_model() -> None:
    """As the planner may."""
    broken = ChatPlanner(ScriptedWorker("planner", WorkerRefused("no")))
    fallback = FakeListChatModel(responses=[PLAN])
    made = ChatPodium(planner=broken, workers=[finder(), writer()], fallback_planner=fallback)
    told = (await made.ainvoke("What?")).response_metadata["podium"]
    assert (told["status"], told["planner"]["is_fallback"]) == ("partial", True)


@pytest.mark.parametrize("how", ["constructor", "call", "bind"])
async def test_sampling_is_the_last_workers(how: str) -> None:
    """Temperature, length and stops are for who writes the answer; the others write as they do."""
    said = {"temperature": 0.5, "max_tokens": 99, "stop": ["END"]}
    pool = [finder(), writer()]
    model = ChatPodium(conductor=Conductor(planner(), pool), **(said if how == "constructor" else {}))
    if how == "bind":
        await model.bind(**said).ainvoke("What?")
    else:
        await model.ainvoke("What?", **(said if how == "call" else {}))
    first, last = pool[0].requests[0].sampling, pool[1].requests[0].sampling
    assert (last.temperature, last.max_tokens, last.stop) == (0.5, 99, ("END",))
    assert (first.temperature, first.max_tokens, first.stop) == (None, None, ())


@pytest.mark.parametrize("stream", [True, False])
async def test_timeout_ends_the_run(*, stream: bool) -> None:
    """It is the whole run's; what was under way is cancelled."""
    slow = ScriptedWorker("finder", "late", latency=30)
    model = ChatPodium(conductor=Conductor(planner(), [slow, writer()]), timeout=0.05)
    with pytest.raises(LimitExceeded, match=r"0\.05 s"):
        _ = [chunk async for chunk in model.astream("What?")] if stream else await model.ainvoke("What?")
    assert len(slow.requests) == 1


async def test_labels_and_policy_of_a_call() -> None:
    """What holds for this question alone."""
    pool = [finder(), ScriptedWorker(Card(name="writer", labels=frozenset({"eu"})), "Forty-two.")]
    model = ChatPodium(conductor=Conductor(planner(), pool, fallback_planner=RulePlanner()))
    rule = Policy(labels="private", rules=[Rule("private", only="eu")])
    message = await model.ainvoke("What?", labels=["private"], policy=rule)
    assert [step["worker"] for step in message.response_metadata["podium"]["steps"]] == ["writer"]
    assert not pool[0].requests
    message = await model.ainvoke("What?", policy=rule)
    assert len(message.response_metadata["podium"]["steps"]) == 2


async def test_made_of_parts() -> None:
    """A planner and workers make a conductor; `max_retries` is its number of further calls."""
    attempts: list[Request] = []

    def reply(request: Request) -> Any:
        attempts.append(request)
        return WorkerBroken("cut off") if len(attempts) < 3 else "Forty-two."

    made = ChatPodium(planner=planner(), workers=[finder(), writer(reply)], max_retries=2)
    assert (await made.ainvoke("What?")).content == "Forty-two."
    assert len(attempts) == 3
    attempts.clear()
    once = ChatPodium(planner=planner(), workers=[finder(), writer(reply)], max_retries=0)
    with pytest.raises(RunFailed, match="cut off"):
        await once.ainvoke("What?")
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "has no planner"),
        ({"conductor": Conductor(planner(), [finder()]), "workers": [finder()]}, "has its own"),
        ({"planner": planner()}, "at least one worker"),
        ({"conductor": Conductor(planner(), [finder()]), "fallback_planner": planner()}, "has its own"),
        ({"conductor": Conductor(planner(), [finder()]), "partial": "drop"}, "partial"),
        ({"conductor": Conductor(planner(), [finder()]), "max_retries": 2}, "has its own"),
        ({"conductor": Conductor(planner(), [finder()]), "api_key": "key"}, "not accept api_key: its opt"),
        ({"planner": planner(), "workers": [finder()], "limit": Limits()}, r"limit \(did you mean limits\?"),
        ({"planner": planner(), "workers": [finder()], "workflows": True}, "a planner that plans by itself"),
        ({"conductor": Conductor(planner(), [finder()]), "timeout": 0}, "greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(said: dict[str, Any], told: str) -> None:
    """Nothing is taken that nobody would hear."""
    with pytest.raises(ValidationError, match=told):
        ChatPodium(**said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"top_k": 3}, "does not accept top_k"),
        ({"model": "gpt-5"}, "a conductor has no model of its own"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
async def test_wrong_arguments_of_a_call_are_refused(said: dict[str, Any], told: str) -> None:
    """So are those of a call."""
    with pytest.raises(ConfigError, match=told):
        await scripted().ainvoke("What?", **said)


async def test_messages_without_a_question_are_refused() -> None:
    """An assistant alone asks nothing."""
    with pytest.raises(QueryError, match="no question"):
        await scripted().ainvoke([AIMessage("Hello")])


async def test_the_parts_of_a_conductor_are_options() -> None:
    """What a run may spend, who may see it, and all else."""
    limited = ChatPodium(planner=planner(), workers=[finder(), writer()], limits=Limits(calls=2))
    with pytest.raises(RunFailed, match=r"Limits\.calls"):
        await limited.ainvoke("What?")
    made = ChatPodium(planner=planner(), workers=[finder()], labels=["private"], max_retries=4)
    assert made.conductor.card.labels == {"private"}
    assert made.conductor.retry.attempts == 5


def test_what_traces_and_caches_know_it_by() -> None:
    """Its name, its provider, how it writes, and who works for it; nothing of what they hold."""
    model = ChatPodium(
        conductor=Conductor(planner(), [finder(), writer()]), model="team", temperature=0.5, stop=["E"]
    )
    told = model._get_ls_params()
    assert (told["ls_provider"], told["ls_model_name"], told["ls_model_type"]) == ("podium", "team", "chat")
    assert (told["ls_temperature"], told["ls_stop"]) == (0.5, ["E"])
    assert model._llm_type == "podium"
    assert not ChatPodium.is_lc_serializable()
    assert "team" in repr(model)
    assert "ScriptedWorker" not in repr(model)
    other = ChatPodium(conductor=Conductor(planner(), [finder()]), model="team", temperature=0.5, stop=["E"])
    assert model._get_llm_string() != other._get_llm_string()


async def test_whole_chunks_add_up_to_the_message() -> None:
    """Chunks, added, are what `invoke` returns."""
    whole: AIMessageChunk | None = None
    async for chunk in scripted().astream("What?"):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    message = await scripted().ainvoke("What?")
    assert whole.content == message.content
    assert whole.usage_metadata == message.usage_metadata
    assert whole.response_metadata["podium"]["plan"] == message.response_metadata["podium"]["plan"]


async def test_langchains_cache_is_not_asked_unless_it_is_wanted() -> None:
    """It would know an answer by the question alone, and nothing of the conductor's policy or journal."""
    pool = [finder(), writer()]
    conductor = Conductor(planner(), pool)
    set_llm_cache(InMemoryCache())
    try:
        for _ in range(2):
            await ChatPodium(conductor=conductor).ainvoke("What?")
        assert len(pool[1].requests) == 2
        for _ in range(2):
            await ChatPodium(conductor=conductor, cache=True).ainvoke("What?")
        assert len(pool[1].requests) == 3
    finally:
        set_llm_cache(None)


async def test_as_a_worker_it_is_its_conductor() -> None:
    """Whose run is within the limits of the run around it, and billed whole."""
    inner = scripted(card=Card(name="inner"))
    plan = '{"worker": 0, "subtask": "Answer.", "access": []}\n'
    outer = ChatPodium(planner=planner(plan), workers=[inner])
    message = await outer.ainvoke("What?")
    assert message.content == "Forty-two."
    assert message.response_metadata["podium"]["usage"]["total_tokens"] == 482


async def test_fields_that_are_configured_per_call() -> None:
    """A model made of parts is made over with others."""
    model = ChatPodium(planner=planner(), workers=[finder(), writer()], max_retries=1)
    choice = model.configurable_fields(temperature=ConfigurableField("heat"))
    message = await choice.with_config(configurable={"heat": 0.5}).ainvoke("What?")
    assert message.content == "Forty-two."
    assert isinstance(model.conductor, Conductor)
    asked = model.conductor.pool[1]
    assert isinstance(asked, ScriptedWorker)
    assert asked.requests[0].sampling.temperature == 0.5


@pytest.mark.parametrize("end", [AIMessage("41."), SystemMessage("Numbers are written in words.")])
async def test_a_conversation_may_end_in_any_message(end: Any) -> None:
    """The user's last message is the question; workers are shown the whole conversation."""
    last = writer()
    model = ChatPodium(conductor=Conductor(planner(), [finder(), last]))
    assert (await model.ainvoke([HumanMessage("Six times seven?"), end])).content == "Forty-two."
    shown = last.requests[0].messages
    assert end.content in [message.text for message in shown[:-1]]
    assert "Six times seven?" in shown[-1].text
