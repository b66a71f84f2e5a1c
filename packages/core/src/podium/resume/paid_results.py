"""The results that are already paid for, found by the content of a step and not by its index.

A resumed run finds the results of its journal, and a new round after a failure finds the results
of earlier rounds.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from podium.resume.action_log import Execution, without_cost
from podium.secrets import scrub
from podium.types.events import ApprovalGiven, PlanReady
from podium.types.messages import Message
from podium.types.outcome import Call, Outcome, Proposal
from podium.workers.worker import StepInput


def step_key(
    worker: str, step_input: StepInput, tool_messages: Sequence[Message] = (), *, exact: bool = False
) -> str:
    """Return the hash of a step's worker and of all that the worker sees.

    The step's index in its plan and the order in which steps ended do not change it.

    Args:
        worker: the worker's name.
        step_input: the input of the worker.
        tool_messages: tool calls and their results that the worker also sees.
        exact: whether to include secrets; journals have no secrets.
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
    """Recorded outcomes, plans and decisions."""

    run_id: str | None = None
    """The id of the run that recorded the results, if it is another run."""
    plans: dict[int, PlanReady] = field(default_factory=dict)
    """The plan of each round, by number."""
    stand_ins: set[int] = field(default_factory=set)
    """Numbers of the rounds whose planner is asked again, because the fallback planner wrote the plan. If
    there is still no other plan, this plan is used again."""
    proposals: dict[int, list[Proposal]] = field(default_factory=dict)
    """The planner calls of each round, by number."""
    decisions: dict[int, ApprovalGiven] = field(default_factory=dict)
    """The decision on each round's plan, by number."""
    asked: set[int] = field(default_factory=set)
    """Numbers of the rounds whose plan needed an approval."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why each round began, by number."""
    lost: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """By round and step: calls that failed, or whose end was not recorded."""
    unseen: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """The calls in `lost` whose cost is not part of a recorded outcome."""
    actions: list[Execution] = field(default_factory=list)
    """The recorded actions of the run and its nested runs."""
    approvals: dict[tuple[int, int, str], ApprovalGiven | None] = field(default_factory=dict)
    """The latest decision on each action that needed an approval, by round, step and `Action.key`; `None` if
    nobody has decided."""
    moved: dict[tuple[int, int], str] = field(default_factory=dict)
    """By round and step: the key of the outcome, if it was recorded for another conversation."""
    charged: set[tuple[int, int, int]] = field(default_factory=set)
    """Round, step and attempt of every recorded call, which the ledger has already counted."""
    _outcomes: dict[str, list[tuple[int, Outcome]]] = field(default_factory=dict)
    """Outcomes by `step_key`, each with its number in the order of `add`."""
    _added: int = 0
    _shown: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)
    """By round and step: the steps whose output its worker saw, of `ok` outcomes that did not see all."""

    def add(self, key: str, outcome: Outcome) -> None:
        """Add an outcome; outcomes of a run are added in the order in which its steps ended."""
        self._added += 1
        self._outcomes.setdefault(key, []).append((self._added, outcome))
        if outcome.status == "ok" and outcome.shown is not None:
            self._shown.setdefault((outcome.round, outcome.step), []).append(outcome.shown)

    def add_actions(self, earlier: Iterable[Execution]) -> None:
        """Add the actions of earlier runs, except those that this run has recorded because it took them."""
        known = Counter(each.action.key for each in self.actions)
        for execution in earlier:
            known[execution.action.key] -= 1
            if known[execution.action.key] < 0:
                self.actions.append(execution)

    def shown(self, number: int, step: int) -> Sequence[tuple[int, ...]]:
        """Return what the `ok` outcomes of a step saw, the latest first, if they did not see everything."""
        return self._shown.get((number, step), [])[::-1]

    def forget_plan(self, number: int) -> None:
        """Remove the plan of a round, and the decision on it."""
        self.plans.pop(number, None)
        self.decisions.pop(number, None)
        self.stand_ins.discard(number)

    def position(self, key: str, number: int, step: int) -> tuple[bool, int] | None:
        """Return the rank of the outcome that `take` would return; `None` if there is none.

        If several steps have outcomes, the scheduler ends the step with the lowest rank first. Outcomes of
        the same round and step have the lowest ranks, in the order in which the recorded steps ended; then
        follow all other outcomes. So a step with `enough` sees the same inputs again.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        at = _chosen(known, number, step)
        return (known[at][1].round, known[at][1].step) != (number, step), known[at][0]

    def place(self, key: str, number: int, step: int) -> tuple[int, int] | None:
        """Return round and step of the outcome that `take` would return; `None` if there is none."""
        known = self._outcomes.get(key)
        if not known:
            return None
        outcome = known[_chosen(known, number, step)][1]
        return outcome.round, outcome.step

    def take(self, key: str, number: int, step: int) -> Outcome | None:
        """Return and remove an outcome with this key, preferably of the same round and step.

        Each outcome is returned once, because two steps with the same input may need two different answers.
        An outcome of another step is returned without its cost, because the cost counts in that step.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        _, outcome = known.pop(_chosen(known, number, step))
        if (outcome.round, outcome.step) == (number, step):
            return replace(outcome, reused=True)
        return without_cost(outcome, number, step)


def _chosen(known: list[tuple[int, Outcome]], number: int, step: int) -> int:
    """Return the index of the outcome of this round and step, or 0."""
    places = [(outcome.round, outcome.step) for _, outcome in known]
    return places.index((number, step)) if (number, step) in places else 0
