"""Microsoft Agent Framework: a conductor's agent, parallel agents wired by hand, a group chat."""

import json
from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from agent_framework_orchestrations import ConcurrentBuilder, GroupChatBuilder
from openai import AsyncOpenAI

from autogen_podium.agent_framework import ConductorAgent
from benchmarks.comparison.arms.arm import Arm, plan
from benchmarks.comparison.job import QUESTION, Job, Step
from benchmarks.comparison.model_server import MANAGER, Asked, Said
from podium import ChatPlanner, ChatWorker, Endpoint

_LEAD = (
    "You manage a team of analysts. Have each region examined by the analyst who knows it, then write the "
    "recommendation yourself, and name the finding that each point rests on."
)


def _client(name: str, url: str) -> OpenAIChatCompletionClient[Any]:
    return OpenAIChatCompletionClient(
        model=name, async_client=AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    )


def _agent(step: Step, url: str) -> Agent[Any]:
    return Agent(_client(step.name, url), step.system, name=step.name, description=step.description)


async def _podium(job: Job, url: str) -> str:
    planner = ChatPlanner(ChatWorker(MANAGER, endpoint=Endpoint(url, api_key="none")))
    response = await ConductorAgent(workers=[_agent(step, url) for step in job.steps], planner=planner).run(
        QUESTION
    )
    return response.text


async def _concurrent(job: Job, url: str) -> str:
    async def write(results: Any) -> str:
        found = "\n\n".join(result.agent_response.text for result in results)
        return (await _agent(job.writer, url).run(f"{QUESTION}\n\nFindings:\n\n{found}")).text

    if len(job.units) == 1:  # the builder's fan-in needs two agents
        first = await _agent(job.units[0], url).run(QUESTION)
        return (await _agent(job.writer, url).run(f"{QUESTION}\n\nFindings:\n\n{first.text}")).text
    agents = [_agent(unit, url) for unit in job.units]
    run = await ConcurrentBuilder(participants=agents).with_aggregator(write).build().run(QUESTION)
    return str(run.get_outputs()[-1])


async def _group_chat(job: Job, url: str) -> str:
    lead = Agent(_client(MANAGER, url), _LEAD, name=MANAGER)
    agents = [_agent(unit, url) for unit in job.units]
    run = await GroupChatBuilder(participants=agents, orchestrator_agent=lead).build().run(QUESTION)
    return str(run.get_outputs()[-1].text)


def _lead(job: Job, asked: Asked) -> Said | None:
    """Return the orchestrator's answer: the next speaker, or at the end the recommendation."""
    if asked.model != MANAGER:
        return None
    left = job.units[asked.turn :]
    told: dict[str, Any] = {"terminate": not left, "reason": "Each region needs a finding."}
    if left:
        told |= {"next_speaker": left[0].name, "final_message": None}
    else:
        told |= {"next_speaker": None, "final_message": job.joined(asked.text)}
    return Said(json.dumps(told))


ARMS = (
    Arm("Podium, ConductorAgent", _podium, plan),
    Arm("Concurrent, wired by hand", _concurrent),
    Arm("GroupChat", _group_chat, _lead),
)
