"""pydantic-ai: a manager writes a script, which `DynamicWorkflow` runs.

It runs in an environment of its own, because it needs `openai` 3; it must not import packages that only the
workspace's environment has.
"""

from typing import Any

from pydantic_ai import Agent, NativeOutput, UsageLimits  # type: ignore[import-not-found]
from pydantic_ai.concurrency import ConcurrencyLimiter  # type: ignore[import-not-found]
from pydantic_ai.models.concurrency import ConcurrencyLimitedModel  # type: ignore[import-not-found]
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]
from pydantic_ai_harness import DynamicWorkflow  # type: ignore[import-not-found]

from benchmarks.workflows.arms.answers import Files, Findings, Note, Report, Vote
from benchmarks.workflows.job import QUESTION

_TYPES = {"lister": Files, "reader": Note, "reviewer": Findings, "sceptic": Vote, "writer": Report}


async def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Do the job once."""
    provider = OpenAIProvider(base_url=asked["url"], api_key="none")
    limiter = ConcurrencyLimiter(max_running=asked["slots"])
    agents = [
        Agent(
            ConcurrencyLimitedModel(OpenAIChatModel(name, provider=provider), limiter),
            name=name,
            instructions=QUESTION,
            output_type=NativeOutput(kind),
        )
        for name, kind in _TYPES.items()
    ]
    tokens = asked.get("tokens")
    limits = UsageLimits(request_limit=None, total_tokens_limit=tokens)
    calls = 12 * asked["files"] + 100
    flow = DynamicWorkflow(agents=agents, max_agent_calls=calls, sub_agent_usage_limits=limits)
    manager = Agent(OpenAIChatModel("manager", provider=provider), capabilities=[flow])
    result = await manager.run(QUESTION, usage_limits=UsageLimits(request_limit=None))
    return {"status": "ok", "answer": result.output}
