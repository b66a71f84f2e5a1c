"""deepagents: the analysts are subagents of a deep agent, which calls them and writes the recommendation.

Its providers' packages are many, so it is no dependency of this repository:
`uv run --with deepagents python -m benchmarks.comparison deepagents`.
"""

from typing import Any

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI

from benchmarks.comparison.arms.arm import Arm
from benchmarks.comparison.job import QUESTION, Job
from benchmarks.comparison.model_server import MANAGER, Asked, Said, Script

_PROMPT = (
    "You manage a team of analysts. Have each region examined by the analyst who knows it, then write the "
    "recommendation yourself, and name the finding that each point rests on."
)


def _model(name: str, url: str) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=url, api_key=lambda: "none", max_retries=0)


async def _run(job: Job, url: str) -> str:
    subagents: Any = [
        {
            "name": unit.name,
            "description": unit.description,
            "system_prompt": unit.description,
            "model": _model(unit.name, url),
            "tools": [],
        }
        for unit in job.units
    ]
    agent = create_deep_agent(_model(MANAGER, url), system_prompt=_PROMPT, subagents=subagents)
    config: Any = {"recursion_limit": 200}
    state = await agent.ainvoke({"messages": [("user", QUESTION)]}, config)
    return str(state["messages"][-1].text)


def _delegate(*, at_once: bool) -> Script:
    def script(job: Job, asked: Asked) -> Said | None:
        if asked.model != MANAGER:
            return None
        first = asked.turn * (len(job.units) if at_once else 1)
        due = job.units[first : first + len(job.units)] if at_once else job.units[first : first + 1]
        calls = [("task", {"description": unit.subtask, "subagent_type": unit.name}) for unit in due]
        return Said(calls=calls) if calls else Said(job.joined(asked.text))

    return script


ARMS = (
    Arm("deepagents", _run, _delegate(at_once=False)),
    Arm("deepagents, several at once", _run, _delegate(at_once=True)),
)
