"""The result of a run, its forecast, and the conclusion from its rounds. Pure data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from re import finditer
from typing import Literal

from podium.errors import LimitExceeded
from podium.secrets import scrub
from podium.types.explain import explain_round, spent
from podium.types.forecast import Forecast, compare
from podium.types.messages import Part
from podium.types.outcome import (
    NO_BRANCH,
    Action,
    Call,
    Outcome,
    Problem,
    Proposal,
    Round,
    answering,
    total_cost,
    usage_note,
)
from podium.types.plan import KEPT, Plan, PlannedBy
from podium.types.steps import AnyStep, depends_on
from podium.usage import Usage

RunStatus = Literal["ok", "partial", "failed", "waiting"]

_TOLD = {"ok": "answered", "partial": "answered in part", "failed": "no answer", "waiting": "waits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run."""

    run_id: str
    answer: str
    """The output of the plan's last step, verbatim; empty if the run has no answer."""
    status: RunStatus
    """`ok`: the last step, all steps that it depends on, and all actions whose condition holds are `ok`.

    `partial`: there is an answer, but it is incomplete. `failed`: there is no answer; `outcomes` has the
    outputs of the steps. `waiting`: the plan, or an action, waits for approval.
    """
    problem: Problem | None = None
    """Why the run is not `ok`."""
    rounds: tuple[Round, ...] = ()
    workers: tuple[str, ...] = ()
    """Names of the pool's workers, in the pool's order."""
    actions: tuple[Action, ...] = ()
    """The actions that the run and its nested runs have begun, in order, each with its end."""
    seconds: float = 0.0
    """Duration of the run, without the time between an interruption and the resume."""
    forecast: Forecast | None = None
    """The forecast of the first plan; `None` if no forecast was made."""
    tool_calls: tuple[Part, ...] = ()
    """Tool calls for the caller to execute, in OpenAI's form; the answer may then be empty."""
    labels: frozenset[str] = frozenset()
    """The labels of the answer, for the rules of a policy."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that were run, one per round."""
        return tuple(r.plan for r in self.rounds if r.plan is not None and r.plan.steps)

    @property
    def planner(self) -> PlannedBy | None:
        """The planner of the latest plan that was run; `None` if no plan was run."""
        planned = [r.planner for r in self.rounds if r.plan not in (None, KEPT)]
        return planned[-1] if planned else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all rounds, including those of answer checks."""
        checked = ((*r.outcomes, *((r.check,) if r.check is not None else ())) for r in self.rounds)
        return tuple(outcome for outcomes in checked for outcome in outcomes)

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """The planner calls of all rounds."""
        return tuple(proposal for r in self.rounds for proposal in r.proposals)

    @property
    def usage(self) -> Usage:
        """Tokens of the planner and all steps."""
        written = Usage.total(proposal.usage for proposal in self.proposals)
        return written + Usage.total(outcome.usage for outcome in self.outcomes)

    @property
    def estimated_usage(self) -> Usage:
        """The part of `usage` that was estimated from text, because no plausible usage was reported."""
        return Usage.total(bill.usage for bill in self.bills if bill.usage.estimated)

    @property
    def usage_note(self) -> str:
        """How many calls are charged without a reported usage, and what; empty if there are none."""
        return usage_note(self.bills)

    @property
    def cost(self) -> float | None:
        """Cost of the planner and all steps in USD; `None` when a price is unknown.

        The usage of a call may be estimated, or it may be unknown whether the call is billed (see
        `maybe_paid`). `charged` of the call says what the cost is computed from.
        """
        return total_cost([*(p.cost for p in self.proposals), *(o.cost for o in self.outcomes)])

    @property
    def maybe_paid(self) -> bool:
        """Whether part of `cost` may not be billed: a call was sent, and no complete response arrived."""
        return any(p.maybe_paid for p in self.proposals) or any(o.maybe_paid for o in self.outcomes)

    @property
    def usage_by_worker(self) -> dict[str, Usage]:
        """Tokens of each worker that was called."""
        return {name: Usage.total(call.usage for call in calls) for name, calls in self._calls().items()}

    @property
    def cost_by_worker(self) -> dict[str, float | None]:
        """Cost in USD of each worker that was called; `None` when unknown."""
        return {name: total_cost(call.cost for call in calls) for name, calls in self._calls().items()}

    @property
    def bills(self) -> Sequence[Proposal | Call | Outcome]:
        """The calls of planners and workers, each with its tokens and cost."""
        calls = (call for outcome in self.outcomes for call in outcome.calls or (outcome,))
        return (*self.proposals, *calls)

    def _calls(self) -> dict[str, list[Call | Outcome]]:
        found: dict[str, list[Call | Outcome]] = {}
        for outcome in self.outcomes:
            for call in outcome.calls or ((outcome,) if outcome.attempts else ()):
                found.setdefault(call.worker, []).append(call)
        return found

    def explain(self) -> str:
        """Return a description of the run's decisions, their reasons and their costs."""
        told = "calls tools" if self.tool_calls else _TOLD[self.status]
        if self.problem is not None:
            told += f" ({self.problem.code}: {self.problem.message})"
        lines = [f"Run {self.run_id}: {told} after {self.seconds:.2f} s."]
        for current in self.rounds:
            lines += explain_round(current)
        if self.forecast is not None and self.rounds:
            lines.append(compare(self.forecast, self.rounds[0].outcomes))
        unsure = ", part of which may not be billed" if self.maybe_paid else ""
        unsure += f" ({note})" if (note := self.usage_note) else ""
        lines.append(f"Total: {spent(self.usage, self.cost, self.estimated_usage)}{unsure}.")
        return scrub("\n".join(lines) + "\n")


LACK = "(Not complete: "
"""How the sentence begins that ends the text of an incomplete answer, for users who see only the text."""
_TOLD_PARTS = 3
"""Most actions inside of maps and blocks that a problem names."""
STALE = "stale"
"""The code of the problem of a recorded result that lacks an input which exists by now."""


def conclusion(rounds: Sequence[Round], *, is_paused: bool = False) -> tuple[str, RunStatus, Problem | None]:
    """Return the answer of all rounds so far, the run's status, and why the status is not `ok`.

    Args:
        rounds: the rounds.
        is_paused: whether the last round waits for results of the caller's tools.
    """
    if is_paused:
        return _interim(rounds[-1])
    answering = next((current for current in reversed(rounds) if answer_of(current) is not None), None)
    answer = None if answering is None else answer_of(answering)
    if answering is None or answer is None:
        failures = (_failure(current) for current in reversed(rounds))
        failure = next((failure for failure in failures if failure is not None), None)
        return "", "failed", _with_actions(failure, rounds)
    # a plan without steps keeps the previous answer
    later = [each for each in rounds if each.number > answering.number]
    failed = [each for each in later if each.plan is None or each.plan.steps]
    failure = _failure(failed[-1]) if failed else None
    before = _lack_of_turns if answering.plan is not None and answering.plan.answer else _lack_before
    lacks = (_own(answer), _lack(answering), before(rounds, answering), failure)
    undone = _undone(rounds, "; ".join(problem.message for problem in lacks if problem is not None))
    problems = [problem for problem in (*lacks, undone) if problem is not None]
    if not problems:
        return answer.text, "ok", None
    messages = dict.fromkeys(problem.message for problem in problems)
    words = [one for one in messages if not any(one in other for other in messages if other != one)]
    return answer.text, "partial", Problem(problems[0].code, "; ".join(words))


def _interim(current: Round) -> tuple[str, RunStatus, Problem | None]:
    """Return the text of the last step if it calls tools, and the steps so far that lack something."""
    last, outcomes = last_of(current), steps_of(current)
    text = last.text if last is not None and last.tool_calls else ""
    ended = [each for each in outcomes if each.status in ("ok", "failed")]
    bad = [each for each in ended if each.status == "failed" or each.problem is not None]
    return text, "partial" if bad else "ok", Problem(_code(bad), _list(bad)) if bad else None


def _own(answer: Outcome | None) -> Problem | None:
    """Return the problem of an answer, which names its step."""
    return None if answer is None or answer.problem is None else Problem(answer.problem.code, told(answer))


def _undone(rounds: Sequence[Round], known: str = "") -> Problem | None:
    """Return the actions that were not carried out, whose end is unknown, or which an agent did twice.

    An action that its condition skipped is none of them. Why the inputs of a skipped action are incomplete is
    added. What is in `known` is left out.
    """
    plans = [(current.plan.steps, current) for current in rounds if current.plan and current.plan.steps]
    found, causes = list[Outcome](), list[Outcome]()
    for steps, current in plans:
        inside = [each for each in current.outcomes[len(steps) :] if each.path and not each.is_superseded]
        undone = [
            outcome
            for outcome in (*steps_of(current), *inside)
            if (outcome.action == "unknown" or (outcome.action is not None and current is plans[-1][1]))
            and (outcome.status != "ok" or outcome.problem is not None)
            and not outcome.is_dropped
        ]
        inputs = _inputs(steps, [each.plan_step for each in undone if each.follows])
        bad = [each for each in steps_of(current) if each.step in inputs and each.problem is not None]
        causes += [each for each in bad if not (each.follows or each in undone or told(each) in known)]
        found += undone
    if not found:
        return None
    around = {each.name[: at.start()] for each in found for at in finditer(r"[.[(]", each.name)}
    untold = [each for each in found if each.name not in around and told(each) not in known]
    untold = [each for each in untold if f"step {each.name}:" not in known]
    plain, inner = [e for e in untold if not e.path], [e for e in untold if e.path]
    words = _list([*causes, *plain, *inner[:_TOLD_PARTS]]) or known
    more = f"; and {len(inner) - _TOLD_PARTS} more actions" if len(inner) > _TOLD_PARTS else ""
    return Problem(_code(found), words + more)


def _inputs(steps: Sequence[AnyStep], starts: Sequence[int]) -> list[int]:
    """Return the steps that these steps depend on, directly or through others, in the plan's order."""
    found, left = set[int](), list(starts)
    while left:
        more = depends_on(steps[left.pop()]) - found
        found |= more
        left += more
    return sorted(found)


def _with_actions(failure: Problem | None, rounds: Sequence[Round]) -> Problem | None:
    """Return the problem of a run without an answer, together with the problem of its actions."""
    undone = _undone(rounds, "" if failure is None else failure.message)
    if failure is None or undone is None or undone.message in failure.message:
        return failure or undone
    return Problem(failure.code, f"{failure.message}; {undone.message}", failure.retry_after)


def answer_outcome(rounds: Sequence[Round]) -> Outcome | None:
    """Return the outcome whose text is the run's answer; `None` if the run has no answer."""
    return next((found for current in reversed(rounds) if (found := answer_of(current)) is not None), None)


def answer_of(current: Round) -> Outcome | None:
    """Return the outcome of the last step of the round's plan; `None` if that step is not `ok`."""
    found = last_of(current)
    return found if found is not None and found.status == "ok" else None


def last_of(current: Round) -> Outcome | None:
    """Return the outcome of the step that gives the round's answer; `None` without one.

    An answer that the planner wrote has an outcome with the planner's name, whose cost is the planner's.
    """
    outcomes = steps_of(current)
    if current.plan is not None and current.plan.answer is not None:
        name = "" if current.planner is None else current.planner.name
        return Outcome(round=current.number, step=0, worker=name, status="ok", text=current.plan.answer)
    if current.plan is None or not outcomes or outcomes[-1].step != len(current.plan.steps) - 1:
        return None  # the last step of an interrupted round has no outcome
    ended = {outcome.step: outcome for outcome in outcomes}  # a step that was never decided has no outcome
    return answering([ended[index] for index in current.plan.answers if index in ended])


def writer_of(current: Round) -> Outcome | None:
    """Return the outcome of the step that wrote the round's answer: of `else`, the other step."""
    found, steps = last_of(current), {outcome.step: outcome for outcome in steps_of(current)}
    while found is not None and found.stands_for is not None:
        found = steps.get(found.stands_for)
    return found


def steps_of(current: Round) -> tuple[Outcome, ...]:
    """Return the outcomes of the steps of the round's plan, in the plan's order."""
    return () if current.plan is None else current.outcomes[: len(current.plan.steps)]


def missing(current: Round) -> list[Outcome]:
    """Return the outcomes of steps that the round's answer depends on and that have no output."""
    outcomes = steps_of(current)
    if all(outcome.shown is None for outcome in outcomes) or answer_of(current) is None:
        return []
    assert current.plan is not None
    found = set[int]()
    for outcome in used(current):
        step, shown = current.plan.steps[outcome.step], outcome.shown
        access = [seen for seen in step.access if not outcomes[seen].is_dropped]
        if shown is not None and len(shown) < min(step.least, len(access)):
            found.update(set(access) - set(shown))
    return [outcomes[index] for index in sorted(_with_causes(current.plan, outcomes, found))]


def told(outcome: Outcome) -> str:
    """Return a step's number, its worker and why it has no output, as one text."""
    return f"step {outcome.name} ({outcome.worker}): {_why(outcome)}"


def _why(outcome: Outcome) -> str:
    return outcome.status if outcome.problem is None else outcome.problem.message


def steps_behind(plan: Plan, ended: Mapping[int, Outcome], step: int) -> list[int]:
    """Return a step and all steps whose outputs it used, directly or through others, in the plan's order.

    Args:
        plan: the plan.
        ended: the outcomes of steps that are `ok`, by step; other steps are left out.
        step: the index of the step.
    """
    found, left = set[int](), [step]
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            own, shown = plan.steps[index], ended[index].shown if index in ended else None
            others = set[int]() if own.is_plain else depends_on(own) - {*own.access}
            left += [*(own.access if shown is None else shown), *others]
    return sorted(found & set(ended))


def used(current: Round) -> list[Outcome]:
    """Return the outcomes of the round's last step and of all steps whose outputs it used."""
    outcomes = steps_of(current)
    if current.plan is None or not outcomes:
        return []
    last = last_of(current) or outcomes[-1]
    behind = steps_behind(current.plan, dict(enumerate(outcomes)), last.step)
    return [outcomes[index] for index in behind]


def _with_causes(plan: Plan, outcomes: Sequence[Outcome], steps: Iterable[int]) -> set[int]:
    """Return these steps, and the steps without an output that they depend on."""
    met, todo = set[int](), list(steps)
    while todo:
        index = todo.pop()
        if index not in met:
            met.add(index)
            if outcomes[index].follows:
                todo += [seen for seen in depends_on(plan.steps[index]) if outcomes[seen].status != "ok"]
    return met


def _lack(current: Round) -> Problem | None:
    """Return the missing parts of a round's answer: steps without an output, or incomplete outputs."""
    outcomes = steps_of(current)
    without = missing(current)
    if gone := [outcome for outcome in without if outcome.status != "ok"]:
        code = _code(outcome for outcome in outcomes if outcome.status == "failed")
        return Problem(code, "the answer was made without " + _list_causes(gone))
    if without:
        return _stale(current, without)
    behind = [outcome for outcome in used(current) if outcome is not last_of(current)]
    short = [outcome for outcome in behind if outcome.status == "ok" and outcome.problem is not None]
    if not short:
        return None
    return Problem(_code(short), "the answer uses incomplete outputs: " + _list(short))


def _stale(current: Round, late: Sequence[Outcome]) -> Problem:
    """Return the problem of an answer that was recorded before these steps had an output."""
    assert current.plan is not None
    outcomes, again = steps_of(current), set[int]()
    for step, outcome in zip(current.plan.steps, outcomes, strict=True):
        shown = outcome.shown
        access = [seen for seen in step.access if not outcomes[seen].is_dropped]
        lacks = shown is not None and len(shown) < min(step.least, len(access))
        if outcome.status == "ok" and (lacks or again.intersection(step.access if shown is None else shown)):
            again.add(outcome.step)
    made = [outcomes[index] for index in sorted(again)]
    cost = total_cost(outcome.cost for outcome in made)
    price = f", which cost ${cost:.4f}" if cost else ""
    words = f"the answer was made before {_names(late)} had an output: to make {_names(made)} again{price}"
    return Problem(STALE, f"{words}, resume the run with refresh=True (--refresh)")


def _names(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(f"step {outcome.step} ({outcome.worker})" for outcome in outcomes)


def _lack_before(rounds: Sequence[Round], current: Round) -> Problem | None:
    """Return what is missing in earlier rounds, if the answer used them through `"previous"`."""
    found = list[Problem]()
    for before in reversed([earlier for earlier in rounds if earlier.number < current.number]):
        steps = () if current.plan is None else current.plan.steps
        if not any(steps[outcome.step].previous for outcome in used(current)):
            break
        problems = (_own(answer_of(before)), _lack(before))
        found += [Problem(p.code, f"round {before.number}: {p.message}") for p in problems if p is not None]
        current = before
    return Problem(found[0].code, "; ".join(problem.message for problem in found)) if found else None


def _lack_of_turns(rounds: Sequence[Round], current: Round) -> Problem | None:
    """Return what the steps before an answer lack that the planner wrote from their results."""
    before = [each for each in rounds if each.number < current.number]
    lacks = {each.number: [o for o in steps_of(each) if o.status != "ok" or o.problem] for each in before}
    found = [outcome for each in lacks.values() for outcome in each]
    where = "; ".join(f"round {number}: {_list(each)}" for number, each in lacks.items() if each)
    return Problem(_code(found), f"the answer lacks results: {where}") if found else None


def _failure(current: Round) -> Problem | None:
    """Return why a round has no answer: the failed steps behind its last step, or the planner's problem."""
    outcomes = steps_of(current)
    causes: list[Outcome] = []
    if current.plan is not None and outcomes:
        last = last_of(current) or outcomes[-1]
        if last.is_dropped:
            return Problem(NO_BRANCH, f"the answer's step did not run, so there is no answer: {told(last)}")
        behind = _with_causes(current.plan, outcomes, [last.step])
        causes = [outcomes[index] for index in sorted(behind) if outcomes[index].status == "failed"]
        causes = [outcome for outcome in causes if not outcome.follows] or causes
    causes = causes or [outcome for outcome in outcomes if outcome.status == "failed"] or list(outcomes[-1:])
    if causes:
        waits = [each.problem.retry_after or 0.0 for each in causes if each.problem is not None]
        return Problem(_code(causes), _list(causes), max(waits, default=0.0) or None)
    for proposal in reversed(current.proposals):
        if proposal.problem is not None:
            words = f"planner {proposal.planner}: {proposal.problem.message}"
            return Problem(proposal.problem.code, words)
    return None


def _list_causes(outcomes: Sequence[Outcome]) -> str:
    """Return the problems of steps without an output, and the numbers of steps skipped because of them."""
    causes = [outcome for outcome in outcomes if not outcome.follows] or outcomes
    skipped = _names(outcome for outcome in outcomes if outcome not in causes)
    return _list(causes) + (f"; therefore skipped: {skipped}" if skipped else "")


def _list(outcomes: Iterable[Outcome]) -> str:
    """Return the steps with their problems; steps with the same problem share its message."""
    steps: dict[str, list[str]] = {}
    for outcome in outcomes:
        steps.setdefault(_why(outcome), []).append(f"step {outcome.name} ({outcome.worker})")
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in steps.items())


def _code(outcomes: Iterable[Outcome]) -> str:
    """Return `limit` if one of the steps has that problem, else the code of the first problem."""
    codes = [outcome.problem.code for outcome in outcomes if outcome.problem is not None]
    return LimitExceeded.code if LimitExceeded.code in codes else codes[0] if codes else "missing"
