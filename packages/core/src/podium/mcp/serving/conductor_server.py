"""The tools of a conductor for MCP clients: `ask`, `plan` and `run_plan`."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field

from podium.conductor import Conductor
from podium.errors import PodiumError, RunWaiting
from podium.hosted import HostedConductor
from podium.hosts import plan_lines
from podium.mcp.serving.answers import answer, failure, plan_answer, refusal
from podium.mcp.serving.progress import Listen, Progress
from podium.mcp.serving.sdk_server import (
    Elicitation,
    add_tool,
    call_tool_result,
    close_schemas,
    new_server,
    tool_annotations,
)
from podium.plan_text import read_saved_plan
from podium.run.approval import how_to_decide
from podium.types import ApprovalAsked, Plan, Result, read_query

_INSTRUCTIONS = (
    "A conductor answers a question: it writes a plan, and a team of workers runs it. `ask` does both. "
    "`plan` only writes the plan, so that it can be read or changed; `run_plan` runs a plan."
)
_USER = "the user of the MCP client"
Question = Annotated[str, Field(description="The question, with all information that the answer needs.")]
Labels = Annotated[
    list[str] | None, Field(description="Labels of the question, for the rules of the policy.")
]
SavedPlan = Annotated[
    dict[str, Any],
    Field(
        description="A plan in the form that `plan` returns: steps with worker (a name), subtask and access."
    ),
]


class Decision(BaseModel):
    """The form in which the user of a client decides on a plan."""

    approve: bool = Field(description="Whether the plan may run.")
    why: str = Field(default="", description="The reason, if the plan may not run.")


def make_server(
    conductor: Conductor | HostedConductor, *, name: str = "podium", host: str = "127.0.0.1"
) -> Any:
    """Return an MCP server for a conductor: a `FastMCP` of the SDK, or in version 2 an `MCPServer`.

    A hosted conductor has only the tool `ask`.

    Args:
        conductor: the conductor, which stays open while the server runs.
        name: the server's name.
        host: the host on which the server listens, if it serves HTTP.

    Raises:
        ConfigError: the SDK is not installed.
    """

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        async with conductor:
            yield

    server = new_server(name, instructions=_INSTRUCTIONS, host=host, lifespan=lifespan)
    asks, reads = (tool_annotations({"readOnlyHint": each}) for each in (not conductor.acts, True))
    if isinstance(conductor, HostedConductor):
        add_tool(server, _HostedTools(conductor).ask, asks)
        close_schemas(server)
        return server
    tools = _Tools(conductor)
    add_tool(server, tools.ask, asks)
    add_tool(server, tools.plan, reads)
    add_tool(server, tools.run_plan, asks)
    close_schemas(server)
    return server


class _HostedTools:
    def __init__(self, conductor: HostedConductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: Any) -> Any:
        """Answer a question. A remote conductor writes a plan and runs it."""

        async def run(_: Listen) -> Result:
            return await self._conductor.run(question)

        try:
            return call_tool_result(answer(await Progress(context).of(run)))
        except PodiumError as error:
            return call_tool_result(failure(error))


class _Tools:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: Any, labels: Labels = None) -> Any:
        """Answer a question: write a plan, and let a team of workers run it."""

        async def run(listen: Listen) -> Result:
            return await self._conductor.run(question, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    async def plan(self, question: Question, context: Any, labels: Labels = None) -> Any:  # noqa: ARG002 - all tools have it
        """Plan a question without running the plan. The structured content has the plan for `run_plan`."""
        try:
            made = await self._conductor.plan(question, labels=labels or ())
            told = plan_answer(made, self._conductor.pool.names, self._conductor.forecast(made))
        except PodiumError as error:
            told = failure(error)
        return call_tool_result(told)

    async def run_plan(
        self, plan: SavedPlan, context: Any, question: Question = "", labels: Labels = None
    ) -> Any:
        """Run a plan, for its own question or for another one."""

        async def run(listen: Listen) -> Result:
            asked = self._read(plan, question)
            return await self._conductor.run(asked, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    def _read(self, plan: dict[str, Any], question: str) -> Plan:
        """Return the plan, with the new question if one is given."""
        read = read_saved_plan(
            json.dumps(plan), self._conductor.pool.names, self._conductor.limits.plan_steps
        )
        return replace(read, query=read_query(question)) if question else read

    async def _answered(self, context: Any, run: Callable[[Listen], Awaitable[Result]]) -> Any:
        """Run a query. If its plan waits for approval, ask the user of the client."""
        progress, user = Progress(context), Elicitation(context)
        try:
            decided = user.answered(Decision)
            if decided is None:
                result = await progress.of(run)
            else:
                run_id, action, form = decided
                if action == "cancel":
                    return call_tool_result(_undecided(run_id))
                result = await self._decided(progress, run_id, form)
            while result.status == "waiting":
                if not user.is_supported:
                    return call_tool_result(_refused(result))
                question = _question(progress.waiting, self._conductor.pool.names)
                if user.repeats_calls:
                    return user.asking(question, Decision, result.run_id)
                action, form = await user.ask(question, Decision)
                if action == "cancel":
                    return call_tool_result(_undecided(result.run_id))
                result = await self._decided(progress, result.run_id, form)
        except PodiumError as error:
            return call_tool_result(failure(error))
        return call_tool_result(answer(result))

    async def _decided(self, progress: Progress, run_id: str, form: BaseModel | None) -> Result:
        """Record the decision on a plan, and continue the run."""
        decision = form if isinstance(form, Decision) else Decision(approve=False)
        await self._conductor.decide(run_id, approved=decision.approve, by=_USER, why=decision.why)
        return await progress.of(lambda listen: self._conductor.resume(run_id, on_event=listen))


def _question(waiting: Sequence[ApprovalAsked], workers: Sequence[str]) -> str:
    steps = [(asked.step, asked.plan.steps, asked.asked) for asked in waiting if asked.step is not None]
    if steps:
        lines = [f"{step}. {workers[plan[step].worker]}: {asked}" for step, plan, asked in steps]
        return "\n".join(["May these actions be carried out?", *lines])
    lines = [line for asked in waiting for line in plan_lines(asked.plan, workers)]
    return "\n".join(["May this plan run?", *lines])


def _refused(result: Result) -> dict[str, Any]:
    told = "the plan waits for approval, and this client cannot ask its user (it has no elicitation)"
    return refusal(RunWaiting.code, f"{told}: {how_to_decide(result.run_id)}", result)


def _undecided(run_id: str) -> dict[str, Any]:
    told = f"nobody decided on the plan of run {run_id}: continue with `podium resume {run_id} --approve`"
    return {
        "content": [{"type": "text", "text": f"waiting: {told}"}],
        "structuredContent": {"code": "waiting", "message": told, "run_id": run_id},
        "isError": True,
    }
