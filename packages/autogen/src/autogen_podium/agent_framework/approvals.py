"""What a run waits for, as the framework's requests for user input; the answers as decisions."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from agent_framework import Content, Message

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.hosts.decisions import asked_call, record_decision, waiting_of
from podium.secrets import scrub
from podium.types import ApprovalAsked, Message as PodiumMessage, RunStarted

_MARK: Final = "podium/"
"""The beginning of the ids of our requests; the run, the step and what makes it unique follow."""
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


async def requests_of(conductor: Conductor, run_id: str, problems: Mapping[str, str]) -> list[Content]:
    """Return a request for each thing that a run waits for, with what was wrong with the answer before."""
    names, waiting = conductor.pool.names, await waiting_of(conductor, run_id)
    return [_request(asked, names, problems) for asked in waiting if not asked.is_late]


def _request(asked: ApprovalAsked, workers: Sequence[str], problems: Mapping[str, str]) -> Content:
    name, facts = asked_call(asked, workers)
    if problem := problems.get(facts["step"]):
        facts["problem"] = problem
    mark = f"{_MARK}{asked.run_id}/{facts['step']}/{uuid4().hex}"  # workflows ask once by the same id
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
    runs, problems = set[str](), dict[str, str]()
    for content in decisions:
        is_approval = content.type == "function_approval_response"
        mark = str(content.id if is_approval else content.call_id)
        run_id, step, _ = mark.removeprefix(_MARK).rsplit("/", 2)
        runs.add(run_id)
        for asked in await waiting_of(conductor, run_id):
            if asked.is_late or step != ("" if asked.step is None else asked.name):
                continue
            try:
                if is_approval:
                    await conductor.decide(run_id, action=step or None, approved=content.approved, by=_BY)
                else:
                    await record_decision(conductor, asked, str(content.result), by=_BY)
            except (ConfigError, QueryError, ValueError) as error:
                problems[step] = scrub(str(error))
    if len(runs) > 1:
        raise ConfigError(f"these are decisions on several runs: {', '.join(sorted(runs))}")
    assert conductor.journal is not None  # a run waits in a journal
    (run_id,) = runs
    started = (await conductor.journal.read(run_id))[0].event
    assert isinstance(started, RunStarted)
    return run_id, (*started.query, *started.tool_messages), problems
