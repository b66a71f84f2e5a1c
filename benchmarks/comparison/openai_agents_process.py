"""The process of the teams of the OpenAI Agents SDK, in the environment of `packages/openai-agents`.

It reads a JSON line for each job, and answers with a JSON line. It must not import packages that only the
workspace's environment has.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled  # type: ignore[import-not-found]
from openai import AsyncOpenAI

from benchmarks.comparison.job import QUESTION, Job, Step, job_of
from openai_agents_podium import ConductorModel  # type: ignore[import-not-found]

_MAX_TURNS = 100
_LEAD = (
    "You manage a team of analysts. Have each region examined by the analyst who knows it, then write the "
    "recommendation yourself, and name the finding that each point rests on."
)


def _model(name: str, client: AsyncOpenAI) -> Any:
    return OpenAIChatCompletionsModel(name, client)


def _agent(step: Step, client: AsyncOpenAI, told: str = "") -> Any:
    return Agent(
        name=step.name,
        handoff_description=step.description,
        instructions=step.system + told,
        model=_model(step.name, client),
    )


async def _answer(agent: Any, question: str = QUESTION) -> str:
    return str((await Runner.run(agent, question, max_turns=_MAX_TURNS)).final_output)


async def _podium(job: Job, client: AsyncOpenAI, manager: str) -> str:
    agents = [_agent(step, client) for step in job.steps]
    model = ConductorModel(workers=agents, planner=_model(manager, client))
    return await _answer(Agent(name="team", model=model))


async def _by_hand(job: Job, client: AsyncOpenAI, _: str) -> str:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_answer(_agent(unit, client))) for unit in job.units]
    found = [task.result() for task in tasks]
    return await _answer(_agent(job.writer, client), f"{QUESTION}\n\nFindings:\n\n" + "\n\n".join(found))


async def _tools(job: Job, client: AsyncOpenAI, manager: str) -> str:
    tools = [_agent(unit, client).as_tool(unit.name, unit.description) for unit in job.units]
    lead: Any = Agent(name=manager, instructions=_LEAD, model=_model(manager, client), tools=tools)
    return await _answer(lead)


async def _mesh(job: Job, client: AsyncOpenAI, _: str) -> str:
    agents = [_agent(step, client, " When your part is done, hand over.") for step in job.steps]
    for agent in agents:
        agent.handoffs = [other for other in agents if other is not agent]
    return await _answer(agents[0])


async def _chain(job: Job, client: AsyncOpenAI, _: str) -> str:
    agents = [_agent(step, client, " When your part is done, hand over.") for step in job.steps]
    for at, agent in enumerate(agents):
        agent.handoffs = agents[at + 1 : at + 2]
    return await _answer(agents[0])


_TEAMS: dict[str, Callable[[Job, AsyncOpenAI, str], Awaitable[str]]] = {
    "podium": _podium,
    "by_hand": _by_hand,
    "tools": _tools,
    "mesh": _mesh,
    "chain": _chain,
}


async def _run(team: str, units: int, url: str, manager: str) -> str:
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        return await _TEAMS[team](job_of(units), client, manager)


def main() -> None:
    """Do the jobs on stdin until its end."""
    set_tracing_disabled(True)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            print(json.dumps(runner.run(_run(*json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
