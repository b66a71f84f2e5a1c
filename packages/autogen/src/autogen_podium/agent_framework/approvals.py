"""What a run waits for, as the framework's requests for user input; the answers as decisions."""

from collections.abc import Sequence
from typing import Any, Final

from agent_framework import Content, Message

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.hosts.decisions import asked_call, waiting_of
from podium.types import ApprovalAsked, Message as PodiumMessage, RunStarted

_MARK: Final = "podium/"
"""The beginning of the ids of our requests; the run and the step follow."""
_BY: Final = "agent_framework"


def is_own(content: Content) -> bool:
    """Return whether a content is one of our requests, or an answer to one."""
    is_answer = content.type in ("function_approval_request", "function_approval_response")
    name = content.id if is_answer else content.call_id
    return str(name or "").startswith(_MARK)


def decisions_in(messages: Sequence[Message]) -> list[Content]:
    """Return the answers to our requests in the messages since the assistant's last."""
    last = max((at for at, each in enumerate(messages, 1) if each.role == "assistant"), default=0)
    found: list[Content] = []
    for message in messages[last:]:
        own = [content for content in message.contents if is_own(content)]
        if own and len(own) < len(message.contents):
            raise QueryError("a message has a decision and other contents: send the decision alone")
        found += own
    return found


async def requests_of(conductor: Conductor, run_id: str) -> list[Content]:
    """Return a request for each thing that a run waits for."""
    names = conductor.pool.names
    return [_request(asked, names) for asked in await waiting_of(conductor, run_id) if not asked.is_late]


def _request(asked: ApprovalAsked, workers: Sequence[str]) -> Content:
    name, facts = asked_call(asked, workers)
    mark = f"{_MARK}{asked.run_id}/{facts['step']}"
    # as hosted, like the approvals of a provider's own tools: the framework looks for no function
    call = Content.from_function_call(mark, name, arguments=facts, id=mark, hosted=True)
    if asked.question is None:
        return Content.from_function_approval_request(mark, call)
    call.user_input_request = True
    return call


async def decided(
    conductor: Conductor, decisions: Sequence[Content]
) -> tuple[str, tuple[PodiumMessage, ...]]:
    """Record decisions; return the run that continues, and its conversation. Repeated ones are ignored."""
    runs = set[str]()
    for content in decisions:
        is_approval = content.type == "function_approval_response"
        mark = str(content.id if is_approval else content.call_id)
        run_id, _, step = mark.removeprefix(_MARK).rpartition("/")
        runs.add(run_id)
        waiting = [each for each in await waiting_of(conductor, run_id) if not each.is_late]
        if not any(step == ("" if each.step is None else each.name) for each in waiting):
            continue
        said: Any = {"approved": content.approved} if is_approval else {"answer": str(content.result)}
        await conductor.decide(run_id, action=step or None, by=_BY, **said)
    if len(runs) > 1:
        raise ConfigError(f"these are decisions on several runs: {', '.join(sorted(runs))}")
    assert conductor.journal is not None  # a run waits in a journal
    (run_id,) = runs
    started = (await conductor.journal.read(run_id))[0].event
    assert isinstance(started, RunStarted)
    return run_id, (*started.query, *started.tool_messages)
