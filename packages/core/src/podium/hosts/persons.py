"""What a run waits for, told to a person as text, and the person's text as a decision."""

import json
from collections.abc import Sequence
from typing import Final

from podium.conductor import Conductor
from podium.errors import QueryError
from podium.hosts.results import plan_lines
from podium.run_state import fold
from podium.secrets import printable, scrub
from podium.types import ApprovalAsked
from podium.types.steps import step_at, worker_of

_YES: Final = frozenset({"y", "yes", "ok", "approve", "approved", "lgtm"})
_NO: Final = frozenset({"n", "no", "reject", "rejected", "refuse", "refused"})


async def waiting_for(conductor: Conductor, run_id: str) -> tuple[ApprovalAsked, ...]:
    """Return the approvals and questions that a recorded run waits for, without late questions."""
    assert conductor.journal is not None  # a run waits in a journal
    async with conductor.journal:
        entries = await conductor.journal.read(run_id)
    return tuple(asked for asked in fold(entry.event for entry in entries).waiting if not asked.is_late)


def asked_text(asked: ApprovalAsked, workers: Sequence[str]) -> str:
    """Return an approval or a question as text, with the words that answer it."""
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
        lines.append("Write `yes`, or `no` and the reason.")
    elif asked.question.choices:
        lines.append(f"Choices: {', '.join(asked.question.choices)}")
    elif asked.question.returns is not None:
        lines.append(f"Write JSON that fits {json.dumps(asked.question.returns)}")
    return printable(scrub("\n".join(lines)))


async def decide_by_text(conductor: Conductor, asked: ApprovalAsked, said: str, *, by: str) -> str:
    """Record what a person wrote; return the reason why it is no decision, or an empty text."""
    action = None if asked.step is None else asked.name
    if asked.question is not None:
        try:
            await conductor.decide(asked.run_id, answer=said, action=action, by=by)
        except QueryError as error:
            return str(error)
        return ""
    word, _, why = said.strip().partition(" ")
    word = word.strip(".,!:").lower()
    if word not in _YES | _NO:
        return f"{said.strip()[:80]!r} is neither yes nor no."
    why = scrub(why.strip())
    await conductor.decide(asked.run_id, approved=word in _YES, action=action, by=by, why=why)
    return ""
