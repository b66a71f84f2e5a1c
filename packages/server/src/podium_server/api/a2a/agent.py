"""Runs the tasks of a model."""

import json
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any, cast

import anyio
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, TaskState
from google.protobuf.json_format import MessageToDict

from podium.errors import QueryError
from podium.types import Message
from podium_server.api.a2a.tasks import RecentTasks
from podium_server.api.chat.response import usage_form
from podium_server.api.endpoint import told_fault
from podium_server.http import InFlight
from podium_server.keys import Caller
from podium_server.turn import Asked, TextPiece, Turn, Turns

_PIECE_SECONDS = 0.1
"""How long pieces of an answer are collected before they are sent: each event copies the whole task."""
_ANSWER = "answer"


class Work:
    """What a task knows about the HTTP request that began it.

    Args:
        caller: who made the request.
    """

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.scope = anyio.CancelScope()
        """The scope of the run."""


class ModelAgent(AgentExecutor):
    """Answers messages with a model. The data of a call has a `Work` under `work`.

    Args:
        turns: makes the turns.
        model: the name of the model.
        tasks: stores the tasks.
        in_flight: counts the running tasks.
    """

    def __init__(self, turns: Turns, model: str, tasks: RecentTasks, in_flight: InFlight) -> None:
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
        work = cast("Work", context.call_context.state["work"])
        try:
            with work.scope, self._in_flight.counted():
                await self._run(context, work, updater)
        except Exception as error:  # noqa: BLE001 - the outermost place; the client and the log get it
            fault = told_fault(error)
            is_refused = fault.status < 500 and fault.run_id is None
            state = TaskState.TASK_STATE_REJECTED if is_refused else TaskState.TASK_STATE_FAILED
            facts = {"code": fault.code, "run_id": fault.run_id, **fault.more.get("podium", {})}
            await _end(updater, state, f"{fault.code}: {fault.message}", facts)
        if work.scope.cancelled_caught:
            await updater.cancel()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Set the state of a task that its client cancels; the SDK cancels its run."""
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        await updater.cancel()

    async def _run(self, context: RequestContext, work: Work, updater: TaskUpdater) -> None:
        is_streamed = "tream" in str(context.call_context.state.get("method"))
        messages = await self._conversation(context)
        asked = Asked(model=self._model, messages=messages, stream=is_streamed)
        async with self._turns.admitted(work.caller, asked) as turn:
            answer = _Answer(updater, is_streamed=is_streamed)
            async with aclosing(turn.pieces()) as pieces:
                async for piece in pieces:
                    if isinstance(piece, TextPiece):
                        await answer.add(piece.text)
                    else:
                        note = updater.new_agent_message([Part(text=piece.text)])
                        await updater.update_status(TaskState.TASK_STATE_WORKING, note)
            await answer.send()
            problem = turn.summary["problem"]
            told = (
                ""
                if problem is None
                else f"The answer is incomplete ({problem['code']}: {problem['message']})."
            )
            await _end(updater, TaskState.TASK_STATE_COMPLETED, told, _facts(turn))

    async def _conversation(self, context: RequestContext) -> list[Message]:
        """Return the earlier messages and answers of the conversation, and the new message.

        Raises:
            QueryError: the message has a part that is neither text nor data.
        """
        messages: list[Message] = []
        task_id, context_id = str(context.task_id), str(context.context_id)
        for task in await self._tasks.before(task_id, context_id, context.call_context):
            asked = [message for message in task.history if message.role == 1]  # ROLE_USER
            messages.append(Message("user", _text(part for message in asked for part in message.parts)))
            parts = [part for artifact in task.artifacts for part in artifact.parts]
            messages.append(Message("assistant", _text(parts)))
        assert context.message is not None
        return [*messages, Message("user", _text(context.message.parts))]


class _Answer:
    """Sends the text of an answer as an artifact: whole, or in pieces."""

    def __init__(self, updater: TaskUpdater, *, is_streamed: bool) -> None:
        self._updater = updater
        self._is_streamed = is_streamed
        self._pieces: list[str] = []
        self._is_begun = False
        self._sent_at = 0.0

    async def add(self, text: str) -> None:
        self._pieces.append(text)
        if self._is_streamed and monotonic() - self._sent_at >= _PIECE_SECONDS:
            await self.send()

    async def send(self) -> None:
        """Send the pieces that were not sent."""
        text = "".join(self._pieces)
        if text or not self._is_begun:
            await self._updater.add_artifact([Part(text=text)], _ANSWER, append=self._is_begun)
        self._is_begun, self._sent_at = True, monotonic()
        self._pieces.clear()


async def _end(updater: TaskUpdater, state: Any, told: str, facts: Mapping[str, Any]) -> None:
    message = updater.new_agent_message([Part(text=told)]) if told else None
    await updater.update_status(state, message, metadata={"podium": facts})


def _facts(turn: Turn) -> Mapping[str, Any]:
    return {**turn.summary, "model": turn.model.versioned_id, "usage": usage_form(turn.usage)}


def _text(parts: Iterable[Part]) -> str:
    """Return the text of parts; data is written as JSON.

    Raises:
        QueryError: a part is neither text nor data.
    """
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
