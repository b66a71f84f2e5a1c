"""AutoGen and Agent Framework keep to what all adapters keep to: their agents as workers and as the face."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import Agent
from autogen.speaking import READ, WRITTEN, Speaker, SpeakingClient
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_core import CancellationToken
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told

from autogen_podium import ConductorAgent
from autogen_podium.agent_framework import ConductorAgent as FrameworkConductor
from podium.aio import run_sync
from podium.planners import FixedPlanner


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


class AutoGenFace(Face):
    """An agent, reset before each question: it would remember the one before."""

    def __init__(self, agent: ConductorAgent) -> None:
        self._agent = agent

    async def ask(self, question: str) -> Answer:
        """Run it."""
        await self._agent.on_reset(CancellationToken())
        result = await self._agent.run(task=question)
        *inner, said = result.messages
        assert isinstance(said, TextMessage)
        outputs = {int(m.metadata["podium_step"]): m.content for m in inner if "podium_step" in m.metadata}
        facts = {"status": said.metadata["podium_status"], "steps": json.loads(said.metadata["podium_steps"])}
        return answer_of(said.content, facts, outputs, ("prompt_tokens", "completion_tokens"))

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own, as AutoGen has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read the pieces its agents write."""
        async for message in self._agent.run_stream(task=question):
            assert not isinstance(message, Response)
            if isinstance(message, ModelClientStreamingChunkEvent):
                yield int(message.metadata["podium_step"]), message.content
        assert isinstance(message, TaskResult)


class AutoGenAdapter(Adapter):
    """Makes agents."""

    tokens = READ + WRITTEN

    def worker(self, name: str, speak: Speak) -> Speaker:
        """Return an agent that remembers."""
        return Speaker(name, speak)

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return an agent that conducts."""
        return AutoGenFace(
            ConductorAgent("lead", list(workers), planner, model_client_stream=True, **options)
        )


class TestAutoGen(AdapterContract):
    """A conductor as an agent of AutoGen's."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """AutoGen's."""
        return AutoGenAdapter()


class FrameworkFace(Face):
    """An agent without a session, which remembers nothing."""

    def __init__(self, agent: FrameworkConductor) -> None:
        self._agent = agent

    async def ask(self, question: str) -> Answer:
        """Stream it, which tells of the steps too."""
        stream, outputs = self._agent.run(question, stream=True), dict[int, str]()
        async for update in stream:
            properties = update.additional_properties or {}
            for content in update.contents:
                if content.type == "text_reasoning":
                    outputs[properties["podium_step"]] = content.text or ""
        response = await stream.get_final_response()
        counts = ("input_token_count", "output_token_count")
        return answer_of(response.text, response.additional_properties["podium"], outputs, counts)

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own, as Agent Framework has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read what its steps came to, and what of the last is written."""
        async for update in self._agent.run(question, stream=True):
            for content in update.contents:
                if content.type == "text_reasoning":
                    yield (update.additional_properties or {})["podium_step"], content.text or ""


class FrameworkAdapter(Adapter):
    """Makes agents of Agent Framework's."""

    tokens = READ + WRITTEN

    def worker(self, name: str, speak: Speak) -> Agent[Any]:
        """Return an agent over a chat client."""
        return Agent(SpeakingClient(speak), "You help.", name=name)

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return an agent that conducts."""
        return FrameworkFace(FrameworkConductor(list(workers), planner, emit_steps=True, **options))


class TestAgentFramework(AdapterContract):
    """A conductor as an agent of Agent Framework's."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """Agent Framework's."""
        return FrameworkAdapter()
