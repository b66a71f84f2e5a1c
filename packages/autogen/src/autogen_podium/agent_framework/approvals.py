"""What a run waits for, as the framework's requests for user input; the answers as decisions."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from agent_framework import Content, Message

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.hosts.decisions import (
    asked_call,
    conversation_of,
    record_decision,
    step_of,
    waiting_of,
)
from podium.types import ApprovalAsked, Message as PodiumMessage

_MARK: Final = "podium/"
"""The beginning of the ids of our requests; the run, the step and what makes it unique follow."""
_BY: Final = "agent_framework"


def _mark_of(content: Content) -> str:
    is_approval = content.type in ("function_approval_request", "function_approval_response")
    return str((content.id if is_approval else content.call_id) or "")


def is_own(content: Content) -> bool:
    """Return whether a content is one of our requests, or an answer to one."""
    return _mark_of(content).startswith(_MARK)


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


async def requests_of(conductor: Conductor, run_id: str, problems: Mapping[str, str]) -> list[Content]:
    """Return a request for each thing that a run waits for, with what was wrong with the answer before."""
    names, waiting = conductor.pool.names, await waiting_of(conductor, run_id)
    return [_request(asked, names, problems) for asked in waiting if not asked.is_late]


def _request(asked: ApprovalAsked, workers: Sequence[str], problems: Mapping[str, str]) -> Content:
    name, facts = asked_call(asked, workers, problems.get(step_of(asked), ""))
    mark = f"{_MARK}{asked.run_id}/{step_of(asked)}/{uuid4().hex[:8]}"  # workflows ask once by the same id
    # as hosted, like the approvals of a provider's own tools: the framework looks for no function
    call = Content.from_function_call(mark, name, arguments=facts, id=mark, hosted=True)
    if asked.question is None:
        return Content.from_function_approval_request(mark, call)
    call.user_input_request = True
    return call


async def decided(
    conductor: Conductor, decisions: Sequence[Content]
) -> tuple[str, tuple[PodiumMessage, ...], Mapping[str, str]]:
    """Record decisions; return the run that continues, its conversation, and what is wrong, by the step.

    Repeated decisions are ignored. What is wrong is asked again.
    """
    places = {tuple(_mark_of(content).split("/", 1)[1].rsplit("/", 2)[:2]): content for content in decisions}
    runs, problems = {run_id for run_id, _ in places}, dict[str, str]()
    if len(runs) > 1:
        raise ConfigError(f"these are decisions on several runs: {', '.join(sorted(runs))}")
    (run_id,) = runs
    for asked in await waiting_of(conductor, run_id):
        content = places.get((run_id, step_of(asked)))
        if content is None or asked.is_late:
            continue
        try:
            if content.type == "function_approval_response":
                action = step_of(asked) or None
                await conductor.decide(run_id, action=action, approved=content.approved, by=_BY)
            else:
                await record_decision(conductor, asked, str(content.result), by=_BY)
        except (ConfigError, QueryError, ValueError) as error:
            problems[step_of(asked)] = str(error)
    return run_id, await conversation_of(conductor, run_id), problems
