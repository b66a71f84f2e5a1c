"""Answers A2A clients: each model is an agent, and each message to it a task."""

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Any, cast

import anyio
from a2a.auth.user import User
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import DefaultServerCallContextBuilder, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, ListTasksRequest, Part, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.requests import Request
from starlette.types import ASGIApp

from podium.a2a import ACTS_EXTENSION
from podium.errors import QueryError
from podium.hosts.completions import usage_form
from podium.types import Message
from podium_server.api.endpoint import told_fault
from podium_server.api.on_demand import part_of, read_message, tame_sdks
from podium_server.http import Exchange, InFlight, Stopping
from podium_server.keys import Caller
from podium_server.models import ServedModel
from podium_server.settings import ServerSection
from podium_server.turn import Asked, TextPiece, Turns

_WORK = "podium.work"
"""The key of the `_Work` of a request in the ASGI scope."""
_ANY_URL = "http://localhost/a2a"
"""The SDK reads no URL of the card; a request has the real one."""
_CLOSE_SECONDS = 5.0
"""How long cancelled tasks may take to record their ends when the server stops."""
_PIECE_SECONDS = 0.1
"""How long pieces of an answer are collected before they are sent: each event copies the whole task."""
_MOST_TASKS = 1000


class _Work(User):
    """The caller of a request, as the owner of its task, and the scope of the run."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.scope = anyio.CancelScope()

    @property
    def is_authenticated(self) -> bool:
        return self.caller.key is not None

    @property
    def user_name(self) -> str:
        return self.caller.caller_id


class _Contexts(DefaultServerCallContextBuilder):
    def build_user(self, request: Request) -> User:
        return cast("_Work", request.scope[_WORK])


class A2aApi:
    """`POST /a2a/MODEL`, and the cards of the agents."""

    def __init__(self, turns: Turns, settings: ServerSection, stopping: Stopping) -> None:
        tame_sdks()
        self._turns = turns
        self._in_flight = InFlight(settings.requests, stopping)
        self._handlers: list[DefaultRequestHandler] = []
        self._apps: dict[str, ASGIApp] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Run the agents in the block; at its end, cancel their tasks."""
        try:
            yield
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                for handler in self._handlers:
                    await handler.aclose()

    async def card(self, exchange: Exchange, caller: Caller) -> None:
        """Answer with the card of a model; without a name in the path, of the caller's first model."""
        model = self._turns.find(caller, exchange.path_params.get("model"))
        url = f"{exchange.scheme}://{exchange.header('host')}/a2a/{model.name}"
        await exchange.json(agent_card_to_dict(_card(model, url, needs_key=caller.key is not None)))

    async def answer(self, exchange: Exchange, caller: Caller) -> None:
        """Let the SDK answer a request.

        A client that waits for the answer and disconnects cancels its task, which it cannot find again. A
        task continues after the end of a stream, and after a request that does not wait.
        """
        app = self._app(self._turns.find(caller, exchange.path_params["model"]))
        raw, work = await exchange.body(), _Work(caller)
        message = read_message(raw)
        asked = part_of(message, "params", "configuration")
        is_awaited = (
            message.get("method") in ("SendMessage", "message/send")
            and not part_of(asked, "returnImmediately")
            and part_of(asked, "blocking") is not False
        )
        on_gone = work.scope.cancel if is_awaited else lambda: None
        await exchange.forward(app, raw, {_WORK: work}, on_gone=on_gone)

    def _app(self, model: ServedModel) -> ASGIApp:
        if model.name not in self._apps:
            tasks = _RecentTasks()
            agent = _Agent(self._turns, model.name, tasks, self._in_flight)
            handler = DefaultRequestHandler(agent, tasks, _card(model, _ANY_URL, needs_key=False))
            self._handlers.append(handler)
            (route,) = create_jsonrpc_routes(handler, "/", _Contexts(), enable_v0_3_compat=True)
            self._apps[model.name] = route.app
        return self._apps[model.name]


def _card(model: ServedModel, url: str, *, needs_key: bool) -> AgentCard:
    described = model.description or f"Answers questions, as the model {model.name}."
    extension = {"uri": ACTS_EXTENSION, "params": {"acts": model.conductor.acts}}
    card: dict[str, Any] = {
        "name": model.name,
        "description": described,
        "version": model.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
            for version in ("1.0", "0.3")
        ],
        "capabilities": {"streaming": True, "extensions": [extension]},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {"id": "ask", "name": model.name, "description": described, "tags": ["question", "answer"]}
        ],
    }
    if needs_key:
        card["securitySchemes"] = {"key": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"key": {}}}]
    made: AgentCard = ParseDict(card, AgentCard())
    return made


class _RecentTasks(InMemoryTaskStore):
    """The newest tasks of one agent. The SDK shows a task to its owner only, which is the caller."""

    def __init__(self) -> None:
        super().__init__()
        self._owners: OrderedDict[str, User] = OrderedDict()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        self._owners[task.id] = context.user
        while len(self._owners) > _MOST_TASKS:
            oldest, owner = self._owners.popitem(last=False)
            await super().delete(oldest, ServerCallContext(user=owner))


class _Agent(AgentExecutor):
    """Answers messages with a model."""

    def __init__(self, turns: Turns, model: str, tasks: _RecentTasks, in_flight: InFlight) -> None:
        self._turns = turns
        self._model = model
        self._tasks = tasks
        self._in_flight = in_flight

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run a task; a failure is its state."""
        assert context.message is not None
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        await updater.start_work()
        work = cast("_Work", context.call_context.user)
        try:
            with work.scope, self._in_flight.counted():
                await self._run(context, work, updater)
        except Exception as error:  # noqa: BLE001 - the outermost place; the client and the log get it
            fault = told_fault(error)
            is_refused = fault.status < 500 and fault.run_id is None
            state = TaskState.TASK_STATE_REJECTED if is_refused else TaskState.TASK_STATE_FAILED
            facts = {"code": fault.code, "run_id": fault.run_id, **fault.more.get("podium", {})}
            await _set(updater, state, f"{fault.code}: {fault.message}", facts)
        if work.scope.cancelled_caught:
            await updater.cancel()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Set the state of a task that its client cancels; the SDK cancels its run."""
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()

    async def _run(self, context: RequestContext, work: _Work, updater: TaskUpdater) -> None:
        is_streamed = "tream" in str(context.call_context.state.get("method"))
        messages = await self._conversation(context)
        asked = Asked(model=self._model, messages=messages, stream=is_streamed)
        waiting: list[str] = []
        sent_at = None

        async def send() -> None:
            nonlocal sent_at
            part = Part(text="".join(waiting))
            waiting.clear()
            await updater.add_artifact([part], "answer", append=sent_at is not None)
            sent_at = monotonic()

        async with self._turns.admitted(work.caller, asked) as turn:
            async with aclosing(turn.pieces()) as pieces:
                async for piece in pieces:
                    if not isinstance(piece, TextPiece):
                        await _set(updater, TaskState.TASK_STATE_WORKING, piece.text)
                        continue
                    waiting.append(piece.text)
                    if is_streamed and (sent_at is None or monotonic() - sent_at >= _PIECE_SECONDS):
                        await send()
            if waiting or sent_at is None:
                await send()
            problem = turn.answered.problem
            told = "" if problem is None else f"The answer is incomplete ({problem.code}: {problem.message})."
            facts = {
                **turn.answered.summary,
                "model": turn.model.versioned_id,
                "usage": usage_form(turn.answered.usage),
            }
            await _set(updater, TaskState.TASK_STATE_COMPLETED, told, facts)

    async def _conversation(self, context: RequestContext) -> list[Message]:
        """Return the earlier messages and answers of the conversation, and the new message."""
        assert context.message is not None
        completed = ListTasksRequest(context_id=context.context_id, status=TaskState.TASK_STATE_COMPLETED)
        messages: list[Message] = []
        for task in reversed((await self._tasks.list(completed, context.call_context)).tasks):
            if task.id != context.task_id:
                asked = [message for message in task.history if message.role == Role.ROLE_USER]
                messages.append(Message("user", _text(part for each in asked for part in each.parts)))
                parts = [part for artifact in task.artifacts for part in artifact.parts]
                messages.append(Message("assistant", _text(parts)))
        return [*messages, Message("user", _text(context.message.parts))]


async def _set(updater: TaskUpdater, state: Any, told: str, facts: dict[str, Any] | None = None) -> None:
    """Set the state of a task, with a message and facts about the run."""
    message = updater.new_agent_message([Part(text=told)]) if told else None
    await updater.update_status(state, message, metadata=None if facts is None else {"podium": facts})


def _text(parts: Iterable[Part]) -> str:
    """Return the text of parts; data is written as JSON."""
    texts = []
    for part in parts:
        match MessageToDict(part):
            case {"text": str(text)}:
                texts.append(text)
            case {"data": data}:
                texts.append(json.dumps(data, ensure_ascii=False))
            case _:
                raise QueryError("the message has a file, and these agents read text and data only")
    return "\n".join(texts)
