"""An agent made with the A2A SDK. The last word of a message decides its behaviour.

with serving() as served:
...  # served.url, served.cancelled
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, Part, TaskState
from google.protobuf.json_format import ParseDict
from servers import web_thread
from servers.web_thread import answering, listen
from starlette.applications import Starlette


@dataclass
class Served(web_thread.Served):
    """A running agent server."""

    asked: list[str] = field(default_factory=list)
    """The texts that the agent received."""
    began: threading.Event = field(default_factory=threading.Event)
    """Set when a slow task starts."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when a client cancels a task."""


_ENDS = {
    "fail": (TaskState.TASK_STATE_FAILED, "the printer is on fire"),
    "reject": (TaskState.TASK_STATE_REJECTED, "not my job"),
    "input": (TaskState.TASK_STATE_INPUT_REQUIRED, "which colour?"),
    "auth": (TaskState.TASK_STATE_AUTH_REQUIRED, "log in first"),
    "cancel": (TaskState.TASK_STATE_CANCELED, ""),
    "message": (TaskState.TASK_STATE_COMPLETED, "all is done"),
    "nothing": (TaskState.TASK_STATE_COMPLETED, ""),
}
"""The final state of a task and the agent's message, by the last word of the text."""
_PICTURE = Part(raw=b"no picture", media_type="image/png", filename="cat.png")
_ARTIFACTS = {
    "picture": [Part(text="A cat:"), _PICTURE],
    "file": [_PICTURE],
    "data": [ParseDict({"data": {"rows": [1, 2]}}, Part()), Part(url="https://example.com/a", filename="a")],
}
"""The parts of the only artifact, by the last word of the text."""


class Agent(AgentExecutor):
    """Behaves as the last word of the text says; by default answers with the text, in two pieces."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run a task."""
        text = context.get_user_input()
        self._served.asked.append(text)
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()

        word = text.split()[-1]
        if word in _ENDS:
            state, said = _ENDS[word]
            message = updater.new_agent_message([Part(text=said)]) if said else None
            await updater.update_status(state, message)
        elif word in _ARTIFACTS:
            await updater.add_artifact(_ARTIFACTS[word])
            await updater.complete()
        else:
            await self._work(word, text, updater)

    async def _work(self, word: str, text: str, updater: TaskUpdater) -> None:
        match word:
            case "raise":
                raise ValueError("a bug of the agent")
            case "slow":
                self._served.began.set()
                await asyncio.sleep(30)
            case "replace":
                await updater.add_artifact([Part(text="first")], artifact_id="one")
                await updater.add_artifact([Part(text="second")], artifact_id="one")
            case _:
                await updater.add_artifact([Part(text="You said: ")], artifact_id="one", last_chunk=False)
                await updater.add_artifact([Part(text=text)], artifact_id="one", append=True, last_chunk=True)
                await updater.add_artifact([Part(text="Anything else?")], artifact_id="two")
        await updater.complete(updater.new_agent_message([Part(text="bye")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Record that a client cancels a task."""
        self._served.cancelled.set()
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.TASK_STATE_CANCELED)


def card_of(url: str, *, streaming: bool = True) -> AgentCard:
    """Return the agent's card."""
    skill = {"id": "say", "name": "Saying", "description": "Repeats what it is told.", "tags": ["text"]}
    return ParseDict(
        {
            "name": "parrot",
            "description": "Says things.",
            "version": "1",
            "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [skill],
        },
        AgentCard(),
    )


@contextmanager
def serving(*, streaming: bool = True, called_at: Callable[[str], str] = str) -> Iterator[Served]:
    """Serve the agent in a thread until the block ends; `called_at` returns the URL on its card."""
    listening, url = listen()
    served = Served(url)
    card = card_of(called_at(f"{url}/rpc"), streaming=streaming)
    handler = DefaultRequestHandler(Agent(served), InMemoryTaskStore(), card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])
    with answering(app, served, listening):
        yield served
