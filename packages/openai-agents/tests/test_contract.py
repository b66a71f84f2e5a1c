"""Agents of the SDK as workers, and each face of a conductor, keep to what all adapters keep to."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from agents import Agent, Runner, RunResultStreaming
from agents_speaking import READ, WRITTEN, speaker
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, answer_in

from openai_agents_podium import ConductorModel, as_worker, podium_metadata
from podium.aio import run_sync
from podium.planners import Planner


class AgentFace(Face):
    """An agent whose model is a conductor, run by the SDK's runner."""

    def __init__(self, model: ConductorModel) -> None:
        self._agent = Agent[Any](name="lead", model=model)

    async def ask(self, question: str) -> Answer:
        """Stream it, because the outputs of steps are in a stream alone."""
        outputs = dict[int, str]()
        result = Runner.run_streamed(self._agent, question)
        async for step, text in _pieces(result):
            outputs[step] = outputs.get(step, "") + text
        counts = ("input_tokens", "output_tokens")
        return answer_in(result.final_output, podium_metadata(result), outputs, *counts)

    def ask_sync(self, question: str) -> Answer:
        """Run it in a loop of its own: `Runner.run_sync` refuses to run inside of one."""
        return run_sync(lambda: self.ask(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for piece in _pieces(Runner.run_streamed(self._agent, question)):
            yield piece


async def _pieces(result: RunResultStreaming) -> AsyncGenerator[tuple[int, str], None]:
    """Yield the pieces of a streamed run; those of the answer are the last step's."""
    answer = list[str]()
    async for event in result.stream_events():
        if event.type != "raw_response_event":
            continue
        if event.data.type == "response.reasoning_summary_text.delta":
            if (step := event.data.item_id.split("_")[3]) != "plan":
                yield int(step), event.data.delta
        elif event.data.type == "response.output_text.delta":
            answer.append(event.data.delta)
    last = podium_metadata(result)["steps"][-1]["step"]
    for piece in answer:
        yield last, piece


class AgentsAdapter(Adapter):
    tokens = READ + WRITTEN
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Agent[Any]:
        return speaker(name, speak)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return AgentFace(ConductorModel(workers=workers, planner=planner, show_steps=True, **options))


class TestAgent(AdapterContract):
    @pytest.fixture
    def adapter(self) -> Adapter:
        return AgentsAdapter()
