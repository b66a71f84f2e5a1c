"""A worker that is an agent of AutoGen's, or a whole team.

Both remember what they were told. So that a step sees only its access list, it has the agent
to itself and finds it as it was made. It knows nobody who listens to what happens inside.
"""

from collections.abc import AsyncGenerator, Callable
from typing import cast

from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core import CancellationToken

from autogen_podium.cancelling import alone, cancelling
from autogen_podium.faults import calling
from autogen_podium.messages import read_usage, to_chat
from podium.errors import WorkerBroken, WorkerError
from podium.types import Completion, estimate_usage, storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker

Inner = BaseAgentEvent | BaseChatMessage
"""What an agent lets others see while it works."""
Tell = Callable[[Inner], None]


class AgentWorker(Worker):
    """Has an agent or a team do the subtask.

    Its answer comes in one piece: which of an agent's texts is its last is not known before
    its end. What it streams meanwhile is told to whoever listens.

    Args:
        agent: who does it; it is reset before every step.
        card: what the planner is told of it. One card's agent does one step at a time.
    """

    def __init__(self, agent: ChatAgent | Team, *, card: Card) -> None:
        self.agent = agent
        self.card = card

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Tell the agent what the step is shown, and return its last message."""
        return self.told(request, lambda _: None)

    async def told(self, request: Request, tell: Tell) -> AsyncGenerator[str | Completion, None]:
        """Do as `call`, and tell somebody of each message and event inside."""
        token, heard = CancellationToken(), list[Inner]()

        def hear(inner: Inner) -> None:
            heard.append(inner)
            tell(inner)

        try:
            with calling(self.card.name):
                async with alone(self.agent):
                    await cancelling(token, self._ask(request, token, hear))
            text = _answer(heard, self.card.name)
        except WorkerError as error:
            error.usage = error.usage or usage_of(heard)
            raise
        finally:
            token.cancel()
        if request.stream:
            yield text
        yield Completion(text, usage=_estimated(request, heard))

    async def _ask(self, request: Request, token: CancellationToken, hear: Tell) -> None:
        agent, task = self.agent, to_chat(request.messages)
        if isinstance(agent, Team):
            await agent.reset()
        else:
            await agent.on_reset(token)
        async for inner in agent.run_stream(task=task, cancellation_token=token, output_task_messages=False):
            if not isinstance(inner, TaskResult):
                hear(inner)


def usage_of(messages: list[Inner]) -> Usage | None:
    """Return what models used for these; a message counts once. `None` where none reported any."""
    reported = {message.id: read_usage(message.models_usage) for message in messages}
    used = [usage for usage in reported.values() if usage is not None]
    return Usage.total(used) if used else None


def _answer(heard: list[Inner], name: str) -> str:
    last = next((inner for inner in reversed(heard) if isinstance(inner, BaseChatMessage)), None)
    text = "" if last is None else storable(last.to_model_text())
    if not text.strip():
        raise WorkerBroken(f"worker {name!r} said nothing", maybe_paid=True)
    return text


def _estimated(request: Request, heard: list[Inner]) -> Usage:
    """Return what was used: as reported; by the texts, where a model was asked and its server did not say.

    An agent that asked no model reports nothing, and has used nothing.
    """
    if (used := usage_of(heard)) is not None:
        return used
    asked = [inner for inner in heard if inner.models_usage is not None]
    texts = "".join(cast("BaseChatMessage", inner).to_text() for inner in asked)
    return estimate_usage(request.messages, texts) if asked else Usage()
