"""What a run waits for, as a text or a call for a person, and the person's text as a decision."""

import json
from collections.abc import Sequence
from typing import Any, Final

from podium.conductor import Conductor
from podium.hosts.results import plan_lines
from podium.run_state import fold
from podium.secrets import printable, scrub, scrub_data
from podium.types import ApprovalAsked, Message, RunStarted
from podium.types.steps import step_at, worker_of

ASK: Final = "ask_person"
"""The name of the calls that ask a question."""
_YES: Final = frozenset({"y", "yes", "ok", "approve", "approved", "lgtm", "true"})
_NO: Final = frozenset({"n", "no", "reject", "rejected", "refuse", "refused", "false"})
_HOW: Final = "Write `yes`, or `no` and the reason."


async def waiting_of(conductor: Conductor, run_id: str) -> Sequence[ApprovalAsked]:
    """Return what a run in the conductor's journal waits for."""
    assert conductor.journal is not None
    async with conductor.journal:
        return fold(entry.event for entry in await conductor.journal.read(run_id)).waiting


def asked_text(asked: ApprovalAsked, workers: Sequence[str], problem: str = "") -> str:
    """Return the text of a question or an approval, which says what may be answered, and is printable.

    Args:
        asked: what the run waits for.
        workers: the names of the pool's workers.
        problem: what was wrong with the answer before; empty for nothing.
    """
    if asked.step is None:
        lines = ["May this plan run?", *plan_lines(asked.plan, workers)]
    elif asked.is_fan_out:
        lines = [f"May step {asked.name} start? {asked.asked}"]
    elif asked.question is None:
        worker = worker_of(step_at(asked.plan.steps, asked.name), workers)
        lines = [f"May {worker} do this? {asked.asked}"]
    else:
        lines = [asked.asked]
    if asked.question is None:
        lines.append(_HOW)
    elif asked.question.choices:
        lines.append(f"Choices: {', '.join(asked.question.choices)}")
    elif asked.question.returns is not None:
        lines.append(f"Write JSON that fits {json.dumps(asked.question.returns)}")
    return printable(scrub("\n".join([*filter(None, [problem]), *lines])))


def asked_call(asked: ApprovalAsked, workers: Sequence[str], problem: str = "") -> tuple[str, dict[str, Any]]:
    """Return what a run waits for as a call of a function of the host: its name, and its arguments."""
    facts: dict[str, Any] = {"asked": asked.asked}
    if asked.step is None:
        name, facts = "approve_plan", {"plan": plan_lines(asked.plan, workers)}
    elif (question := asked.question) is not None:
        name = ASK
        facts |= {"choices": list(question.choices)} if question.choices else {}
        facts |= {} if question.returns is None else {"returns": question.returns}
    elif asked.is_fan_out:
        name = "approve_items"
    else:
        name = "approve_action"
        facts["worker"] = worker_of(step_at(asked.plan.steps, asked.name), workers)
    facts |= {"problem": problem} if problem else {}
    place = {"run_id": asked.run_id, "step": step_of(asked)}
    return name, {**place, **scrub_data(facts)}


def step_of(asked: ApprovalAsked) -> str:
    """Return the name of the step that waits; empty for the plan."""
    return "" if asked.step is None else asked.name


async def conversation_of(conductor: Conductor, run_id: str) -> tuple[Message, ...]:
    """Return the conversation that a run in the conductor's journal answers."""
    assert conductor.journal is not None
    async with conductor.journal:
        started = (await conductor.journal.read(run_id))[0].event
    assert isinstance(started, RunStarted)
    return (*started.query, *started.tool_messages)


async def record_decision(conductor: Conductor, asked: ApprovalAsked, said: str, *, by: str) -> None:
    """Record a person's text as the answer to a question, or as the decision about a plan or an action.

    Raises:
        QueryError: the answer does not fit the question, or is late.
        ValueError: the text is neither `yes` nor `no`.
    """
    action = None if asked.step is None else asked.name
    if asked.question is not None:
        await conductor.decide(asked.run_id, answer=said, action=action, by=by)
        return
    word, _, why = said.strip().partition(" ")
    word = word.strip(".,!:;").lower()
    if word not in _YES | _NO:
        raise ValueError(f"{said!r:.80} is neither yes nor no")
    await conductor.decide(asked.run_id, approved=word in _YES, action=action, by=by, why=scrub(why.strip()))
