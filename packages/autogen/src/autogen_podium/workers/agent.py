"""A worker that runs an AutoGen agent or team.

Agents and teams remember messages. But a step may be shown only the steps on its access list. So the agent or
team is reset before each step, and runs one step at a time.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, Final

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, UserProxyAgent
from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    ToolCallSummaryMessage,
    UserInputRequestedEvent,
)
from autogen_core import CancellationToken
from autogen_core.models import FunctionExecutionResult

from autogen_podium.messages import read_usage, to_chat
from autogen_podium.turns import cancelling, exclusive
from autogen_podium.workers.model import Finishes, watching
from autogen_podium.workers.objects import acts_first, members_of
from podium.errors import AnswerToolCalls, ConfigError, WorkerError, WorkerFailed
from podium.hosts import read_completion, worker_errors
from podium.hosts.results import spent_completion
from podium.secrets import printable
from podium.types import Completion
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers import Card, PersonWorker, Request, StepInput, Worker, step_input_of

Inner = BaseAgentEvent | BaseChatMessage
"""A message or event inside an agent."""
Listener = Callable[[Inner], None]
_MAX_QUOTE: Final = 300
_TRACEBACK: Final = "\nTraceback:\n"
_NAMED: Final = re.compile(r"(?:RuntimeError: )*(\w+): (.*)", re.DOTALL)
_STATUS: Final = re.compile(r"Error code: (\d{3})\b")
"""The beginning of server errors in the clients of OpenAI and Anthropic."""
_OTHER_LOOP: Final = "is bound to a different event loop"
_ONE_LOOP: Final = (
    "a team of AutoGen runs in the event loop of its first run only: use one event loop, or run_sync, "
    "or make a new team for each event loop"
)


class AgentWorker(Worker):
    """Runs an agent or a team.

    Its answer is not streamed, because only the end shows which text is the last. A listener gets its
    messages as they are sent. Humans inside (`UserProxyAgent`) are shown the question, the visible steps and
    the subtask.
    """

    def __init__(
        self, agent: ChatAgent | Team, *, card: Card, make: Callable[[], ChatAgent] | None = None
    ) -> None:
        _check_handoffs(agent)
        self.agent = agent
        self._make = make
        self.uses_tokens = not isinstance(agent, UserProxyAgent)
        self.card = card

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with the step's input, and return its last message."""
        return self.call_listened(request, lambda _: None)

    async def call_listened(
        self, request: Request, listener: Listener
    ) -> AsyncGenerator[str | Completion, None]:
        """Run the agent like `call`; the listener gets each message and event inside.

        The listener does not get the last message if it is an invalid answer.
        """
        token, finishes, heard = CancellationToken(), Finishes(), list[Inner]()
        agent = self.agent if self._make is None else self._make()
        prompt = _human_prompt(step_input_of(request))

        held: list[Inner] = []
        """The latest message, which may be the answer."""

        def release() -> None:
            while held:
                listener(held.pop())

        def hear(inner: Inner) -> None:
            if isinstance(inner, UserInputRequestedEvent):
                inner.metadata["podium_prompt"] = prompt
            heard.append(inner)
            release()
            held.append(inner)
            if not isinstance(inner, BaseChatMessage):
                release()

        try:
            with worker_errors(
                self.card.name,
                usage=lambda: _spent(heard, finishes),
                has_run=lambda: bool(heard) or (self.acts and acts_first(self.agent)),
            ):
                async with exclusive(agent):
                    with (
                        watching(agent, finishes),
                        prompting(agent, prompt),
                        _team_errors(finishes, release),
                    ):
                        await cancelling(token, _ask(agent, request, token, hear))
                done = self._completion(request, heard, finishes)
        finally:
            token.cancel()
        release()
        if request.stream:
            yield done.text
        yield done

    def _completion(self, request: Request, heard: list[Inner], finishes: Finishes) -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        used = _used(heard, finishes)
        last = next((inner for inner in reversed(heard) if isinstance(inner, BaseChatMessage)), None)
        text = "" if last is None else last.to_model_text()
        if isinstance(last, HandoffMessage):
            told = f"worker {self.card.name!r} has no answer: {last.source!r} handed its subtask off to"
            raise WorkerFailed(
                f"{told} {last.target!r}, but a step cannot wait for another agent", maybe_paid=True
            )
        if isinstance(last, ToolCallSummaryMessage) and (fault := _tool_fault(last, self.card.name)):
            raise fault
        finish = finishes.reason_of(text)
        done = read_completion(request.messages, text=text, finish_reason=finish, usage=used)
        return spent_completion(done.text, used, self.card) if used == Usage() else done


async def _ask(agent: ChatAgent | Team, request: Request, token: CancellationToken, hear: Listener) -> None:
    if isinstance(agent, Team):
        await agent.reset()
    else:
        await agent.on_reset(token)
    stream = agent.run_stream(
        task=to_chat(request.messages), cancellation_token=token, output_task_messages=False
    )
    async for inner in stream:
        if not isinstance(inner, TaskResult):
            hear(inner)


def _check_handoffs(agent: ChatAgent | Team) -> None:
    """Raise `ConfigError` for an agent with handoffs. Handoffs between members of a team are allowed."""
    inner: object = agent
    while isinstance(inner, MessageFilterAgent):
        inner = vars(inner)["_wrapped_agent"]
    if isinstance(inner, AssistantAgent) and vars(inner).get("_handoffs"):
        told = f"agent {agent.name!r} has handoffs, but the plan chooses the workers"
        raise ConfigError(
            f"{told}: create it without handoffs, or pass a Swarm of these agents as one worker"
        )


def _used(messages: list[Inner], finishes: Finishes) -> Usage | None:
    """Return the usage on messages, each counted once, and of the managers of teams.

    `None` if a model did not report all of its usage, `Usage()` if no model was called. Messages of a
    conductor's run without an answer do not count here: Podium counts the cost of such a run separately.
    """
    answered = {None, *(_run_of(inner) for inner in messages if "podium_status" in inner.metadata)}
    reported = {
        inner.id: read_usage(inner.models_usage)
        for inner in messages
        if inner.models_usage is not None and _run_of(inner) in answered
    }
    known = [usage for usage in (*reported.values(), finishes.managers_usage) if usage is not None]
    return Usage.total(known) if len(known) == len(reported) + 1 else None


def _run_of(inner: Inner) -> str | None:
    """Return the id of the conductor's run that a message belongs to; `None` for another message."""
    return inner.metadata.get("podium_run_id")


def _spent(heard: list[Inner], finishes: Finishes) -> Usage | None:
    used = _used(heard, finishes)
    return None if used == Usage() else used  # a failed call may have called a model unseen


def _tool_fault(summary: ToolCallSummaryMessage, worker: str) -> WorkerError | None:
    """Return the error if the answer is the error text of a tool; `None` if no tool failed."""
    failed = [result for result in summary.results if result.is_error]
    if not failed:
        return None
    if unknown := [result.name for result in failed if _is_unknown(result)]:
        told = f"worker {worker!r} called tools that nobody offered: {', '.join(unknown)}"
        return AnswerToolCalls(told, maybe_paid=True)
    said = "; ".join(f"{result.name}: {storable(result.content)[:_MAX_QUOTE]}" for result in failed)
    return WorkerFailed(
        f"a tool of worker {worker!r} failed, and its error is the answer: {said}", maybe_paid=True
    )


def _is_unknown(result: FunctionExecutionResult) -> bool:
    """Return whether a model called a tool that its agent does not have; only the text shows it."""
    return result.content == f"Error: tool '{result.name}' not found in any workbench"


@contextmanager
def _team_errors(finishes: Finishes, release: Callable[[], None]) -> Iterator[None]:
    """Raise what a member of a team raised, in place of the text that the team makes of it."""
    try:
        yield
    except Exception as error:  # raised again, or in place of it what a team hides
        release()
        cause = _cause_in_team(error, finishes.last_error)
        if cause is error:
            raise
        raise cause  # noqa: B904 - it has its own cause


def _cause_in_team(error: Exception, known: Exception | None) -> Exception:
    """Return the exception that a member of a team raised; other errors are returned unchanged."""
    text, separator, _ = str(error).partition(_TRACEBACK)
    if not separator and text.endswith(_OTHER_LOOP):
        return RuntimeError(_ONE_LOOP)
    if not separator:
        return error
    if known is not None and f"{type(known).__name__}: {known}" in str(error):
        return known
    named = _NAMED.fullmatch(text)
    if named is None:
        return RuntimeError(text)
    name, message = named.groups()
    made: Exception = type(name, (RuntimeError,), {})(message)
    if status := _STATUS.match(message):
        made.__dict__["status_code"] = int(status[1])
    return made


@contextmanager
def prompting(agent: object, prompt: str) -> Iterator[None]:
    """Put a text before each prompt of the humans in an agent or a team, in the block."""
    held = [(human, human.input_func) for human in members_of(agent) if isinstance(human, UserProxyAgent)]
    try:
        for human, ask in held:
            human.input_func = _prompted(ask, prompt)
        yield
    finally:
        for human, ask in held:
            human.input_func = ask


def _human_prompt(step_input: StepInput) -> str:
    """Return the text of a step for a human, without control characters, which a terminal would execute."""
    said = [f"{message.role}: {message.text}" for message in step_input.query]
    return printable("\n\n".join([*said, f"Your part:\n{PersonWorker('human').asked(step_input)}"]))


def _prompted(ask: Any, prompt: str) -> Any:
    """Return an input function of the same kind, sync or async, because an agent checks the kind once."""

    async def ask_async(asked: str, *more: Any) -> str:
        return str(await ask(f"{prompt}\n\n{asked}", *more))

    def ask_sync(asked: str) -> str:
        return str(ask(f"{prompt}\n\n{asked}"))

    return ask_async if iscoroutinefunction(ask) else ask_sync
