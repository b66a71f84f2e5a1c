"""The tools with which MCP clients reach a conductor: `ask`, `plan` and `run_plan`."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field

from podium.conductor import Conductor
from podium.errors import PodiumError
from podium.hosted import HostedConductor
from podium.hosts import plan_lines
from podium.mcp.serving.answers import answer, failure, plan_answer, refusal
from podium.mcp.serving.progress import Listen, Progress
from podium.mcp.serving.sdk_server import (
    Elicitation,
    call_tool_result,
    close_schemas,
    context_class,
    new_server,
    tool_annotations,
)
from podium.plan_text import read_saved_plan
from podium.types import Plan, Result, read_query

_INSTRUCTIONS = (
    "A conductor answers a question by planning it and having a team of workers carry the plan out. "
    "`ask` does both. `plan` only plans, so that the plan can be looked at or changed; `run_plan` carries "
    "a plan out."
)
_USER = "the user of the MCP client"
Question = Annotated[str, Field(description="The question, with all that is needed to answer it.")]
Labels = Annotated[
    list[str] | None, Field(description="Properties of the question that the policy's rules refer to.")
]
SavedPlan = Annotated[
    dict[str, Any],
    Field(description="A plan as `plan` returns it: steps with worker (a name), subtask and access."),
]


class Decision(BaseModel):
    """What the user of a client is asked about a plan."""

    approve: bool = Field(description="Whether the plan may be carried out.")
    why: str = Field(default="", description="The reason, if it may not.")


def make_server(
    conductor: Conductor | HostedConductor, *, name: str = "podium", host: str = "127.0.0.1"
) -> Any:
    """Return a server of the MCP SDK that serves a conductor: a `FastMCP`, or with version 2 an `MCPServer`.

    A hosted conductor has only the tool `ask`.

    Args:
        conductor: answers; it is kept open while the server runs.
        name: the server's name.
        host: where the server listens, if it serves HTTP.

    Raises:
        ConfigError: the SDK is not installed.
    """

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        async with conductor:
            yield

    server = new_server(name, instructions=_INSTRUCTIONS, host=host, lifespan=lifespan)
    changes, reads = tool_annotations({"readOnlyHint": False}), tool_annotations({"readOnlyHint": True})
    if isinstance(conductor, HostedConductor):
        _add(server, _HostedTools(conductor).ask, changes)
        close_schemas(server)
        return server
    tools = _Tools(conductor)
    _add(server, tools.ask, changes)
    _add(server, tools.plan, reads)
    _add(server, tools.run_plan, changes)
    close_schemas(server)
    return server


def _add(server: Any, tool: Callable[..., Awaitable[Any]], annotations: Any) -> None:
    function: Any = getattr(tool, "__func__")  # noqa: B009 - mypy knows no such attribute of a callable
    function.__annotations__["context"] = context_class()  # by which the SDK knows what to give it
    server.add_tool(tool, annotations=annotations, structured_output=False)


class _HostedTools:
    def __init__(self, conductor: HostedConductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: Any) -> Any:
        """Answer a question. A remote conductor plans it and carries the plan out."""

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
        """Answer a question: plan it, and have a team of workers carry the plan out."""

        async def run(listen: Listen) -> Result:
            return await self._conductor.run(question, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    async def plan(self, question: Question, context: Any, labels: Labels = None) -> Any:  # noqa: ARG002 - as the others
        """Plan a question and run nothing. The structured content has the plan, which `run_plan` takes."""
        try:
            made = await self._conductor.plan(question, labels=labels or ())
            told = plan_answer(made, self._conductor.pool.names, self._conductor.forecast(made))
        except PodiumError as error:
            told = failure(error)
        return call_tool_result(told)

    async def run_plan(
        self, plan: SavedPlan, context: Any, question: Question = "", labels: Labels = None
    ) -> Any:
        """Carry out a plan, for its own question unless another is given."""

        async def run(listen: Listen) -> Result:
            asked = self._read(plan, question)
            return await self._conductor.run(asked, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    def _read(self, plan: dict[str, Any], question: str) -> Plan:
        """Return a plan, with its question replaced if there is another."""
        read = read_saved_plan(
            json.dumps(plan), self._conductor.pool.names, self._conductor.limits.plan_steps
        )
        return replace(read, query=read_query(question)) if question else read

    async def _answered(self, context: Any, run: Callable[[Listen], Awaitable[Result]]) -> Any:
        """Carry out a run. Where a plan waits for approval, ask the user of the client."""
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
        """Record the decision on a plan, and go on with the run."""
        decision = form if isinstance(form, Decision) else Decision(approve=False)
        await self._conductor.decide(run_id, approved=decision.approve, by=_USER, why=decision.why)
        return await progress.of(lambda listen: self._conductor.resume(run_id, on_event=listen))


def _question(plan: Plan | None, workers: Sequence[str]) -> str:
    lines = [] if plan is None else plan_lines(plan, workers)
    return "\n".join(["May this plan be carried out?", *lines])


def _refused(result: Result) -> dict[str, Any]:
    run_id = result.run_id
    decide = f"decide with `podium approve {run_id}` or `podium refuse {run_id} --why TEXT`"
    told = "the plan waits for approval, and this client cannot ask its user (it has no elicitation)"
    return refusal("waiting", f"{told}: {decide}, then go on with `podium resume {run_id}`", result)


def _undecided(run_id: str) -> dict[str, Any]:
    told = f"nobody decided on the plan of run {run_id}: go on with `podium resume {run_id} --approve`"
    return {
        "content": [{"type": "text", "text": f"waiting: {told}"}],
        "structuredContent": {"code": "waiting", "message": told, "run_id": run_id},
        "isError": True,
    }
