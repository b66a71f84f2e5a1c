"""Workers that call Agent Framework's agents, chat clients and workflows, and what their responses mean.

They do not retry. Turn off a client's own retries.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from agent_framework import (
    AgentExecutorResponse,
    AgentResponse,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    Message,
    RawAgent,
    SupportsAgentRun,
    SupportsChatGetResponse,
    Workflow,
    WorkflowCheckpoint,
    WorkflowRunResult,
    WorkflowRunState,
)

from autogen_podium.agent_framework.acts import acts_first
from autogen_podium.agent_framework.messages import read_usage, to_framework
from autogen_podium.turns import exclusive
from podium.aio.sync import events_of
from podium.errors import WorkerBroken, WorkerFailed
from podium.hosts import read_completion, sampling_arguments, tool_call, worker_errors
from podium.types import Completion, Part, Sampling, Tools
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker

_OPENAI: Final = ("RawOpenAIChatCompletionClient", "RawOpenAIChatClient")
"""Agent Framework's client classes for OpenAI's SDK, which may not be installed."""
_REFUSED: Final = ("model_output_kind", "refusal")
_MAX_QUOTE: Final = 300


class FrameworkWorker(Worker):
    """Calls an Agent Framework object and reads its response."""

    has_one_text = True
    """Whether the concatenated text of all updates is the answer: no tool is called between them."""
    acts_first = True
    """Whether a call may change something before a model has answered."""

    def __init__(self, client: object, *, card: Card) -> None:
        self._client = client
        self.card = card

    @abstractmethod
    def ask(self, request: Request, noted: "FunctionsNoted", *, stream: bool) -> Any:
        """Return the object's return value for a request; `noted` is told when a function is called."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the object; with `request.stream`, as a stream if `has_one_text`."""
        sent, noted, response = "", FunctionsNoted(), None

        def has_run() -> bool:
            return self.acts and (noted.is_called or self.acts_first)

        with worker_errors(self.card.name, has_run=has_run):
            async with aclosing(self._pieces(request, noted)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, str):
                        sent += piece
                        yield piece
                    else:
                        response = piece
        completion = read_response(request, response, sent, worker=self.card.name, client=self._client)
        if request.stream and not sent and completion.text:
            yield completion.text
        yield completion

    def _pieces(self, request: Request, noted: "FunctionsNoted") -> AsyncGenerator[object, None]:
        """Call in a separate task: a second cancellation would interrupt the client's own clean-up."""

        async def read(emit: Callable[[object], None]) -> None:
            if not request.stream or not self.has_one_text:
                emit(await self.ask(request, noted, stream=False))
                return
            async with self.ask(request, noted, stream=True) as stream:
                async for update in stream:
                    if update.text and update.role != "tool":
                        emit(update.text)
                emit(await stream.get_final_response())

        return events_of(read)


class FunctionsNoted(FunctionMiddleware):
    """Notes whether an agent has called a function."""

    def __init__(self) -> None:
        self.is_called = False

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Note the call."""
        del context
        self.is_called = True
        await call_next()


class AgentWorker(FrameworkWorker):
    """Runs an agent without a session: each run sees only its step's input, and steps run in parallel."""

    def __init__(self, agent: SupportsAgentRun, *, card: Card) -> None:
        super().__init__(getattr(agent, "client", None), card=card)
        self.agent = agent

    @property
    def has_one_text(self) -> bool:  # type: ignore[override]
        """False if tool calls may separate the agent's texts."""
        agent = self.agent
        if not isinstance(agent, RawAgent):
            return True
        return not (agent.default_options.get("tools") or agent.mcp_tools or agent.context_providers)

    @property
    def acts_first(self) -> bool:  # type: ignore[override]
        """Whether the agent runs unknown code before its model answers."""
        return acts_first(self.agent)

    def ask(self, request: Request, noted: FunctionsNoted, *, stream: bool) -> Any:
        """Run the agent."""
        run: Any = self.agent.run
        others = {} if self.acts_first else {"middleware": [noted]}
        return run(to_framework(request.messages), stream=stream, **others)


class ClientWorker(FrameworkWorker):
    """Calls a chat client. Tools are offered as declarations; the caller of the run calls them."""

    takes_tools = True

    def __init__(self, client: SupportsChatGetResponse[Any], *, card: Card) -> None:
        super().__init__(client, card=card)
        self.client: Any = client

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas, for clients of OpenAI's SDK; other clients may ignore them."""
        return frozenset({"json"} if is_openai(self.client) else ())

    def ask(self, request: Request, noted: FunctionsNoted, *, stream: bool) -> Any:
        """Call the client."""
        del noted  # the caller of the run calls the tools
        options = self._options(request.sampling) | _offered(request.tools)
        return self.client.get_response(to_framework(request.messages), stream=stream, options=options)

    def _options(self, sampling: Sampling) -> dict[str, Any]:
        options = sampling_arguments(sampling)
        if sampling.effort is not None and is_openai(self.client):
            options["reasoning_effort"] = sampling.effort
        if sampling.constraint is not None and sampling.constraint.kind == "json":
            schema = {"name": "answer", "schema": sampling.constraint.value, "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        return options


def _offered(tools: Tools | None) -> dict[str, Any]:
    if tools is None or not tools.offered:
        return {}
    offered = [_tool(tool) for tool in tools.offered]
    choice: object = tools.choice
    if isinstance(tools.choice, dict):
        choice = {"mode": "required", "required_function_name": tools.choice["function"]["name"]}
    return {"tools": offered} | ({} if choice is None else {"tool_choice": choice})


def _tool(tool: Part) -> FunctionTool:
    function = tool["function"]
    return FunctionTool(
        name=function["name"],
        description=function.get("description") or "",
        func=None,
        input_model=function.get("parameters") or {"type": "object", "properties": {}},
    )


class WorkflowWorker(Worker):
    """Runs a workflow with the step's input. Its last output is the answer, which is not streamed.

    Each step starts from the state that the workflow had before its first step.
    """

    def __init__(self, workflow: Workflow, *, card: Card) -> None:
        self.workflow = workflow
        self.card = card

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the workflow."""
        async with aclosing(self._run(request)) as runs:
            with worker_errors(self.card.name, has_run=lambda: self.acts):
                run = await anext(runs)
        completion = self._completion(request, run)
        if request.stream:
            yield completion.text
        yield completion

    def _run(self, request: Request) -> AsyncGenerator[WorkflowRunResult, None]:
        """Run in a separate task: a second cancellation would leave tasks of the workflow behind."""

        async def running(emit: Callable[[WorkflowRunResult], None]) -> None:
            async with exclusive(self.workflow):
                await _set_back(self.workflow)
                emit(await self.workflow.run(to_framework(request.messages)))

        return events_of(running)

    def _completion(self, request: Request, run: WorkflowRunResult) -> Completion:
        name, outputs, responses = self.card.name, run.get_outputs(), list(_responses(run))
        if run.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS:
            waits = f"worker {name!r} asks for approval or for other information"
            raise WorkerFailed(f"{waits}, but a step cannot wait", maybe_paid=True)
        if not outputs:
            raise WorkerFailed(f"worker {name!r} ended without an output", maybe_paid=True)
        last = outputs[-1]
        answer = last if isinstance(last, AgentResponse) else AgentResponse(messages=_messages(last, name))
        completion = read_response(request, answer, "", worker=name, client=None)
        used = [read_usage(response.usage_details) for response in responses]
        known = [usage for usage in used if usage is not None]
        missing = "; ".join(filter(None, (failed_tools(response.messages) for response in responses)))
        usage = reduce(add, known, Usage()) if known and len(known) == len(used) else completion.usage
        return replace(completion, usage=usage, missing=missing or completion.missing)


def _responses(run: WorkflowRunResult) -> Iterator[AgentResponse[Any]]:
    """Yield the response of each agent in a run, also of agents whose response is not an output."""
    for event in run:
        sent = list(event.data or ()) if event.type == "executor_completed" else []
        handed_on = [one.agent_response for one in sent if isinstance(one, AgentExecutorResponse)]
        # an executor that passes a response on may also output it
        yield from handed_on[:1] or [one for one in sent if isinstance(one, AgentResponse)][:1]


def _messages(output: object, worker: str) -> list[Message]:
    """Return an output that is not a response as assistant messages."""
    parts = output if isinstance(output, list) else [output]
    texts = [part.text if isinstance(part, Message) else part for part in parts]
    text = texts[-1] if texts else ""
    if not isinstance(text, str):
        told = f"worker {worker!r} has a {type(output).__name__} as its last output, which is not text"
        raise WorkerFailed(f"{told}: have it output texts, messages or responses of agents", maybe_paid=True)
    return [Message("assistant", [storable(text)])]


_first: WeakKeyDictionary[Workflow, WorkflowCheckpoint] = WeakKeyDictionary()
"""The states of workflows before their first steps."""


async def _set_back(workflow: Workflow) -> None:
    """Reset a workflow to its first state, as Agent Framework does with a nested workflow."""
    runner = workflow._runner  # noqa: SLF001 - the public way needs a storage and a resumed run
    if workflow not in _first:
        _first[workflow] = deepcopy(await runner.build_checkpoint())
    await runner.restore_checkpoint(deepcopy(_first[workflow]))


def is_openai(client: object) -> bool:
    """Return whether a chat client is one of Agent Framework's clients for OpenAI's SDK."""
    return any(kind.__name__ in _OPENAI for kind in type(client).__mro__)


def read_response(
    request: Request, response: object, sent: str, *, worker: str, client: object
) -> Completion:
    """Return the answer in a response, by the same rules as for every chat model.

    An answer of OpenAI's clients without a finish reason was cut. Other clients may leave out the finish
    reason.

    Returns:
        The completion; `missing` names the tools of an agent whose last call failed.
    """
    if not isinstance(response, AgentResponse | ChatResponse):
        raise WorkerBroken(f"worker {worker!r} returned no response", maybe_paid=True)
    if isinstance(response, AgentResponse) and response.user_input_requests:
        waits = f"worker {worker!r} asks for approval, but a step cannot wait"
        raise WorkerFailed(f"{waits}: give it tools that need no approval", maybe_paid=True)
    last = next((m for m in reversed(response.messages) if m.role == "assistant" and m.text.strip()), None)
    finish = response.finish_reason
    if finish is None and not (is_openai(client) and not request.sampling.stop):
        finish = "stop"
    completion = read_completion(
        request.messages,
        text=sent or ("" if last is None else last.text),
        finish_reason="stop" if finish == "tool_calls" else finish,
        tool_calls=_open_calls(response.messages),
        refusal=_refusal(response.messages),
        usage=read_usage(response.usage_details),
        model=getattr(response, "model", None),
    )
    failed = failed_tools(response.messages)
    return replace(completion, missing=failed) if failed else completion


def _refusal(messages: Sequence[Message]) -> str | None:
    """Return the text of a refusal, which OpenAI's clients mark; `None` if the model did not refuse."""
    marked = (c.text or "" for c in _contents(messages[-1:]) if _mark(c) == _REFUSED[1])
    return storable("".join(marked)) or None


def _mark(content: Content) -> object:
    properties = content.additional_properties or {}
    inner = properties.get("core")
    return inner.get(_REFUSED[0]) if isinstance(inner, dict) else properties.get(_REFUSED[0])


def _open_calls(messages: Sequence[Message]) -> list[Part]:
    """Return the tool calls in the last message, which have not been made."""
    calls = [content for content in _contents(messages[-1:]) if content.type == "function_call"]
    return [tool_call(call.call_id, call.name, call.arguments) for call in calls]


def failed_tools(messages: Sequence[Message]) -> str:
    """Return a text that names the tools of an agent whose last call failed; empty if there are none."""
    names, faults = dict[str | None, str](), dict[str, str]()
    for content in _contents(messages):
        if content.type == "function_call":
            names[content.call_id] = str(content.name)
        elif content.type == "function_result":
            name = names.get(content.call_id, "?")
            faults.pop(name, None)
            if content.exception is not None:
                faults[name] = storable(str(content.exception) or str(content.result))[:_MAX_QUOTE]
    return "; ".join(f"its tool {name!r} failed: {why}" for name, why in faults.items())


def _contents(messages: Sequence[Message]) -> Iterator[Content]:
    return (content for message in messages for content in message.contents)
