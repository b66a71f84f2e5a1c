"""AutoGen and Agent Framework keep to what all adapters keep to: their agents as workers and as the face."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from agent_framework import Agent, AgentResponseUpdate
from autogen.speaking import READ, WRITTEN, Speaker, SpeakingClient
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, as_worker
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    as_worker as framework_worker,
)
from podium.aio import run_sync
from podium.planners import Planner


def answer_of(
    text: str, facts: Mapping[str, Any], outputs: Mapping[int, str], counts: tuple[str, str]
) -> Answer:
    """Return an answer, of what a host tells beside it; `counts` are its names of tokens read and written."""
    steps = tuple(
        Told(
            step=told["step"],
            worker=told["worker"],
            status=told["status"],
            output=outputs.get(told["step"], ""),
            tokens=sum(told["usage"][name] for name in counts),
            problem="" if told["problem"] is None else told["problem"]["message"],
        )
        for told in facts["steps"]
    )
    return Answer(text, facts["status"], steps)


def answer_in(messages: Sequence[Any]) -> Answer:
    *inner, said = messages
    assert isinstance(said, TextMessage)
    outputs = {int(m.metadata["podium_step"]): m.content for m in inner if "podium_step" in m.metadata}
    facts = {"status": said.metadata["podium_status"], "steps": json.loads(said.metadata["podium_steps"])}
    return answer_of(said.content, facts, outputs, ("prompt_tokens", "completion_tokens"))


class AutoGenFace(Face):
    """An agent, reset before each question: it would remember the one before."""

    def __init__(self, agent: ConductorAgent) -> None:
        self._agent = agent

    async def ask(self, question: str) -> Answer:
        await self._agent.on_reset(CancellationToken())
        result = await self._agent.run(task=question)
        return answer_in(result.messages)

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own, as AutoGen has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for message in self._agent.run_stream(task=question):
            assert not isinstance(message, Response)
            if isinstance(message, ModelClientStreamingChunkEvent):
                yield int(message.metadata["podium_step"]), message.content
        assert isinstance(message, TaskResult)


class AutoGenAdapter(Adapter):
    """Makes agents."""

    tokens = READ + WRITTEN
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Speaker:
        return Speaker(name, speak)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return AutoGenFace(
            ConductorAgent(
                "lead", workers=list(workers), planner=planner, model_client_stream=True, **options
            )
        )


class TestAutoGen(AdapterContract):
    @pytest.fixture
    def adapter(self) -> Adapter:
        return AutoGenAdapter()


class ClientFace(Face):
    """A model client, which remembers nothing."""

    def __init__(self, client: ConductorChatCompletionClient) -> None:
        self._client = client

    async def ask(self, question: str) -> Answer:
        said = await self._client.create([UserMessage(content=question, source="user")])
        assert isinstance(said.content, str)
        result = self._client.results[-1]
        steps = tuple(
            Told(
                step=outcome.step,
                worker=outcome.worker,
                status=outcome.status,
                output=outcome.text,
                tokens=outcome.usage.total_tokens,
                problem="" if outcome.problem is None else outcome.problem.message,
            )
            for outcome in result.outcomes
        )
        return Answer(said.content, result.status, steps)

    def ask_sync(self, question: str) -> Answer:
        """Ask it in a loop of its own, as AutoGen has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read the answer, which has no steps."""
        async for piece in self._client.create_stream([UserMessage(content=question, source="user")]):
            if isinstance(piece, str):
                yield 0, piece


class ClientAdapter(AutoGenAdapter):
    """Makes model clients."""

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return ClientFace(ConductorChatCompletionClient(workers=list(workers), planner=planner, **options))


@pytest.mark.long
class TestModelClient(AdapterContract):
    lacks: ClassVar = {"test_pieces_are_streamed_with_their_step": "a model client streams its answer alone"}

    @pytest.fixture
    def adapter(self) -> Adapter:
        return ClientAdapter()


def _outputs(update: AgentResponseUpdate) -> list[tuple[int, str]]:
    """Return the step and the output in an update; a plan and a failure are none."""
    step = (update.additional_properties or {}).get("podium_step")
    texts = [content.text or "" for content in update.contents if content.type == "text_reasoning"]
    return [(step, text) for text in texts if step is not None and not text.startswith("failed: ")]


class FrameworkFace(Face):
    """An agent without a session, which remembers nothing."""

    def __init__(self, agent: FrameworkConductor) -> None:
        self._agent = agent

    async def ask(self, question: str) -> Answer:
        """Stream it, which tells of the steps too."""
        stream, outputs = self._agent.run(question, stream=True), dict[int, str]()
        async for update in stream:
            outputs |= dict(_outputs(update))
        response = await stream.get_final_response()
        counts = ("input_token_count", "output_token_count")
        return answer_of(response.text, response.additional_properties["podium"], outputs, counts)

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own, as Agent Framework has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for update in self._agent.run(question, stream=True):
            for output in _outputs(update):
                yield output


class FrameworkAdapter(Adapter):
    """Makes agents of Agent Framework's."""

    tokens = READ + WRITTEN
    as_worker = staticmethod(framework_worker)

    def worker(self, name: str, speak: Speak) -> Agent[Any]:
        return Agent(SpeakingClient(speak), "You help.", name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return FrameworkFace(
            FrameworkConductor(workers=list(workers), planner=planner, show_steps=True, **options)
        )


class TestAgentFramework(AdapterContract):
    @pytest.fixture
    def adapter(self) -> Adapter:
        return FrameworkAdapter()
