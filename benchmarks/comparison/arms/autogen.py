"""AutoGen: a conductor's team, SelectorGroupChat, Swarm, GraphFlow wired by hand, Magentic-One."""

import json
import logging
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Team
from autogen_agentchat.conditions import SourceMatchTermination
from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_ext.models.openai import OpenAIChatCompletionClient

from autogen_podium import ConductorTeam
from benchmarks.comparison.arms.arm import Arm, hand_over, plan
from benchmarks.comparison.job import QUESTION, THOUGHT, Job, Step
from benchmarks.comparison.model_server import MANAGER, Asked, Said

_CAN: Any = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "family": "unknown",
    "structured_output": False,
}
logging.getLogger("autogen_core").setLevel(logging.ERROR)


def _client(name: str, url: str) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(
        model=name, base_url=url, api_key="none", model_info=_CAN, max_retries=0, parallel_tool_calls=False
    )


def _agent(step: Step, url: str, handoffs: Any = None) -> AssistantAgent:
    told = step.system + (" When your part is done, hand over." if handoffs else "")
    return AssistantAgent(
        step.name,
        _client(step.name, url),
        description=step.description,
        system_message=told,
        handoffs=handoffs,
    )


async def _answer(team: Team) -> str:
    result = await team.run(task=QUESTION)
    last = result.messages[-1]
    assert isinstance(last, BaseChatMessage)
    return last.to_text()


async def _podium(job: Job, url: str) -> str:
    return await _answer(
        ConductorTeam(workers=[_agent(step, url) for step in job.steps], planner=_client(MANAGER, url))
    )


async def _selector(job: Job, url: str) -> str:
    done = SourceMatchTermination([job.writer.name])
    agents: Any = [_agent(step, url) for step in job.steps]
    return await _answer(SelectorGroupChat(agents, _client(MANAGER, url), termination_condition=done))


def _select(job: Job, asked: Asked) -> Said | None:
    return Said(job.steps[asked.turn].name) if asked.model == MANAGER else None


def _swarm(*, mesh: bool) -> Arm:
    async def run(job: Job, url: str) -> str:
        names = [step.name for step in job.steps]
        agents: Any = [
            _agent(step, url, [n for n in names if n != step.name] if mesh else names[at + 1 : at + 2])
            for at, step in enumerate(job.steps)
        ]
        return await _answer(Swarm(agents, termination_condition=SourceMatchTermination([job.writer.name])))

    return Arm(f"Swarm, {'every agent to every other' if mesh else 'one successor'}", run, hand_over)


async def _graph_flow(job: Job, url: str) -> str:
    agents = {step.name: _agent(step, url) for step in job.steps}
    builder = DiGraphBuilder()
    for agent in agents.values():
        builder.add_node(agent)
    for unit in job.units:
        builder.add_edge(agents[unit.name], agents[job.writer.name])
    flow = GraphFlow(participants=builder.get_participants(), graph=builder.build())
    result = await flow.run(task=QUESTION)
    said = [m for m in result.messages if isinstance(m, BaseChatMessage) and m.source == job.writer.name]
    return said[-1].to_text()


async def _magentic(job: Job, url: str) -> str:
    agents: Any = [_agent(unit, url) for unit in job.units]
    return await _answer(MagenticOneGroupChat(agents, _client(MANAGER, url)))


def _orchestrate(job: Job, asked: Asked) -> Said | None:
    """Return an answer of Magentic-One's orchestrator: facts, plan, ledger of a turn, or final answer."""
    if asked.model != MANAGER:
        return None
    if asked.turn < 2:
        return Said(THOUGHT)
    at = asked.turn - 2
    if at > len(job.units):
        return Said(job.joined(asked.text))
    done = at == len(job.units)
    unit = job.units[min(at, len(job.units) - 1)]
    left = "Every region was examined." if done else f"The region of {unit.name} was not examined yet."
    ledger = {
        "is_request_satisfied": {"reason": left, "answer": done},
        "is_in_loop": {"reason": "Each turn examined another region.", "answer": False},
        "is_progress_being_made": {"reason": "Each turn added a finding.", "answer": True},
        "next_speaker": {"reason": unit.description, "answer": unit.name},
        "instruction_or_question": {"reason": left, "answer": unit.subtask},
    }
    return Said(json.dumps(ledger, indent=4))


ARMS = (
    Arm("Podium, ConductorTeam", _podium, plan),
    Arm("GraphFlow, wired by hand", _graph_flow),
    Arm("SelectorGroupChat", _selector, _select),
    _swarm(mesh=True),
    _swarm(mesh=False),
    Arm("MagenticOneGroupChat", _magentic, _orchestrate),
)
