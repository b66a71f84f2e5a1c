"""AutoGen and Agent Framework keep to what all adapters keep to: their agents as workers and as the face."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from agent_framework import Agent, AgentResponseUpdate
from autogen.speaking import READ, WRITTEN, Speaker, SpeakingClient
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_core import CancellationToken
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, answer_in

from autogen_podium import ConductorAgent, as_worker
from autogen_podium.agent_framework import ConductorAgent as FrameworkConductor, as_worker as framework_worker
from podium.aio import run_sync
from podium.planners import Planner


def _told(messages: Sequence[Any]) -> Answer:
    *inner, said = messages
    assert isinstance(said, TextMessage)
    outputs = {int(m.metadata["podium_step"]): m.content for m in inner if "podium_step" in m.metadata}
    facts = {"status": said.metadata["podium_status"], "steps": json.loads(said.metadata["podium_steps"])}
    return answer_in(said.content, facts, outputs, "prompt_tokens", "completion_tokens")


class AutoGenFace(Face):
    """An agent, reset before each question: it would remember the one before."""

    def __init__(self, agent: ConductorAgent) -> None:
        self._agent = agent

    async def ask(self, question: str) -> Answer:
        await self._agent.on_reset(CancellationToken())
        result = await self._agent.run(task=question)
        return _told(result.messages)

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
    tokens = READ + WRITTEN
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Speaker:
        return Speaker(name, speak)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        options |= {"workers": list(workers), "planner": planner, "model_client_stream": True}
        return AutoGenFace(ConductorAgent("lead", **options))


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
        return answer_in(response.text, response.additional_properties["podium"], outputs, *counts)

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own, as Agent Framework has nothing that is not async."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for update in self._agent.run(question, stream=True):
            for output in _outputs(update):
                yield output


class FrameworkAdapter(Adapter):
    tokens = READ + WRITTEN
    as_worker = staticmethod(framework_worker)

    def worker(self, name: str, speak: Speak) -> Agent[Any]:
        return Agent(SpeakingClient(speak), "You help.", name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        options |= {"workers": list(workers), "planner": planner, "show_steps": True}
        return FrameworkFace(FrameworkConductor(**options))


class TestAdapters(AdapterContract):
    @pytest.fixture(params=[AutoGenAdapter, FrameworkAdapter])
    def adapter(self, request: pytest.FixtureRequest) -> Adapter:
        return request.param()
