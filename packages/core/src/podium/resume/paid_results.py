"""What a run knows to be paid for already, found by content and not by place.

A run that is resumed finds here what its journal holds; a round that was planned anew
after a failure finds what earlier rounds came to.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from podium.secrets import scrub
from podium.types.events import ApprovalGiven, PlanReady
from podium.types.messages import Message
from podium.types.outcome import Call, Outcome, Proposal
from podium.usage import Usage
from podium.workers.worker import StepInput


def step_key(
    worker: str, step_input: StepInput, tool_messages: Sequence[Message] = (), *, exact: bool = False
) -> str:
    """Return what stands for a step by content: who works, and all they are shown.

    Neither the step's place in its plan nor the order in which steps ended counts.

    Args:
        worker: the worker's name.
        step_input: what it is shown.
        tool_messages: tool calls and their results that it is shown besides.
        exact: whether secrets in it count too, which no journal holds.
    """
    seen = [
        [shown.subtask, shown.output, shown.gap, *(["previous"] if shown.previous else [])]
        for shown in step_input.visible
    ]
    told: list[object] = [
        worker,
        step_input.subtask,
        seen,
        [message.to_wire() for message in step_input.query],
    ]
    if tool_messages:
        told.append([message.to_wire() for message in tool_messages])
    if step_input.texts:
        told.append(["texts", *step_input.texts])
    text = json.dumps(told, sort_keys=True)
    return sha256((text if exact else scrub(text)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class PaidResults:
    """Outcomes, plans and decisions of before."""

    run_id: str | None = None
    """Whose they are, where that is another run."""
    plans: dict[int, PlanReady] = field(default_factory=dict)
    """By number of the round."""
    proposals: dict[int, list[Proposal]] = field(default_factory=dict)
    """By number of the round."""
    decisions: dict[int, ApprovalGiven] = field(default_factory=dict)
    """By number of the round."""
    asked: set[int] = field(default_factory=set)
    """Numbers of the rounds whose plan someone was to approve."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By number of the round: why it was begun."""
    lost: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """By round and step: calls that came to nothing, or whose end nobody saw."""
    unseen: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """Those of `lost` that no recorded outcome bills."""
    charged: set[tuple[int, int, int]] = field(default_factory=set)
    """Round, step and attempt of every recorded call: the run's ledger is charged with these already."""
    _outcomes: dict[str, list[tuple[int, Outcome]]] = field(default_factory=dict)
    """By what the step was given; each with its number among all that were added."""
    _added: int = 0

    def add(self, key: str, outcome: Outcome) -> None:
        """Remember an outcome; those of one run are added in the order in which its steps ended."""
        self._added += 1
        self._outcomes.setdefault(key, []).append((self._added, outcome))

    def position(self, key: str, number: int, step: int) -> tuple[bool, int] | None:
        """Return what orders the outcomes `take` would give: those of the very place first, as they ended.

        A step that needs only some of its inputs was shown those that ended first; so it
        is again if they end in that order again. `None` means that there is none.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        at = _chosen(known, number, step)
        return (known[at][1].round, known[at][1].step) != (number, step), known[at][0]

    def take(self, key: str, number: int, step: int) -> Outcome | None:
        """Return an outcome of these contents, that of the same place first; each is given once.

        Two steps may ask the same of one worker to hear two answers. That of another place
        comes without its bill, which stands where it was paid.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        _, outcome = known.pop(_chosen(known, number, step))
        if (outcome.round, outcome.step) == (number, step):
            return replace(outcome, reused=True)
        return replace(
            outcome,
            round=number,
            step=step,
            usage=Usage(),
            cost=0.0,
            attempts=0,
            calls=(),
            maybe_paid=False,
            reused=True,
            started=None,
            ended=None,
        )


def _chosen(known: list[tuple[int, Outcome]], number: int, step: int) -> int:
    """Return where the outcome of this place is; where it has none, the first."""
    places = [(outcome.round, outcome.step) for _, outcome in known]
    return places.index((number, step)) if (number, step) in places else 0
