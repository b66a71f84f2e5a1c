"""Executes the rounds of a run: plan, run the steps, and decide on another round.

After a round the planner may write another plan or keep the answer (arXiv 2512.04388: recursion).
Three things differ from the paper. The run ends if a plan repeats an earlier plan. A check (`accept`) can
request another round. Workers of a later round see the previous round only if their access list has
"previous"; in the paper, "all" includes the previous round. With `on_failure="replan"`, a round with a failed
step is followed by another plan; `Limits.replans` limits these rounds. If the limits have no room for this
plan, or if it gives no answer, an earlier plan continues in a last round, as with `on_failure="note"`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import NamedTuple

from anyio import move_on_after

from podium.budget.ledger import NO_NEEDS, Kept
from podium.errors import LimitExceeded, PlannerError, PodiumError
from podium.execution.context import PreviousRound, RunContext
from podium.execution.fit import needs_without_failed
from podium.execution.graph import WAITING
from podium.execution.scheduler import OpenCalls, RoundScheduler
from podium.planners.chat import failure_feedback, round_feedback, turn_feedback
from podium.planners.planner import Turn
from podium.policy.policy import Ask
from podium.policy.rules import after
from podium.prompts.prompt import fill, shown_step
from podium.run.acceptance import AcceptanceCheck
from podium.run.approval import REPLANNED, request_answer, request_approval, waiting
from podium.run.forecast import remember
from podium.run.planning import CODES, EarlyStart, PlanRequester, failures, planned_by, text_before
from podium.run_state.paid import PaidResults
from podium.secrets import BUGS
from podium.types.events import ApprovalGiven, PlannerEnded, PlanReady, RoundStarted
from podium.types.outcome import Action, Outcome, Problem, Proposal, Round
from podium.types.plan import KEPT, Plan, PlannedBy
from podium.types.result import RunStatus, answer_of, answer_outcome, conclusion, missing, steps_of, told
from podium.workers.worker import Worker

_CHANGED = PlannedBy("user", "the plan was changed in its approval")
FALLBACK = "planner_fallback"
"""Problem code: the fallback planner wrote a plan."""
BETTER = "the planner may improve the answer of its plan"


class _Earlier(NamedTuple):
    """A round without an answer, whose plan can still give an answer without its failed steps."""

    context: RunContext
    """The context of the round."""
    round: Round
    failed: tuple[tuple[str, Outcome], ...]
    """The failed steps, each with its exact key."""
    needs: Kept
    """What the plan still needs."""


class _Next(NamedTuple):
    """The next round, and the prompt for its planner."""

    why: str
    feedback: str
    labels: frozenset[str]
    """The labels of all data in the prompt."""
    paid: PaidResults | None = None
    """Results that are reused; `None` if the plan may repeat steps on purpose."""
    earlier: _Earlier | None = None
    """The plan that continues; `None` for a new plan."""
    beside: Kept = NO_NEEDS
    """What the limits must leave besides."""


@dataclass(slots=True)
class Rounds:
    """The rounds of one run; their results can be read at any time."""

    context: RunContext
    """The context of the run; its labels grow with the data that the planner sees of each round."""
    done: list[Round] = field(default_factory=list)
    """The rounds that have ended."""
    problem: Problem | None = None
    """Why the run is not `ok`, for any other reason than a failed step."""
    cause: BaseException | None = None
    """The error of the planner, if the latest round has no plan."""
    answer_sent: int | None = None
    """Number of the latest round whose answer was streamed."""
    _refused: str = field(default="", init=False)
    """Why the latest answer was rejected."""
    _refusal: LimitExceeded | None = field(default=None, init=False)
    """Why the limits allowed no message after the latest one of a planner that speaks turn by turn."""
    _stopped: bool = field(default=False, init=False)
    """Whether the latest plan was rejected, or waits for approval."""
    _labels: dict[int, tuple[frozenset[str], ...]] = field(default_factory=dict, init=False)
    """The labels of the outputs of each round's steps."""
    _are_whole: tuple[bool, ...] = field(default=(), init=False)
    """Whether the outputs of the latest round's steps are complete and were made from complete inputs."""
    calls: OpenCalls = field(default=OpenCalls(), init=False)
    """The calls of the caller's tools for whose results steps of the latest round wait."""
    _planner: PlannedBy | None = field(default=None, init=False)
    """The planner of the latest round's plan."""
    _paid: list[tuple[str, Outcome]] = field(default_factory=list, init=False)
    """The `ok` outcomes of all rounds, each with its exact key."""
    _failures: tuple[tuple[str, Outcome], ...] = field(default=(), init=False)
    """The failed steps of the latest round, each with its exact key."""
    _earlier: _Earlier | None = field(default=None, init=False)
    """The first plan that can still give an answer without its failed steps."""
    _improvements: int = field(default=0, init=False)
    """Number of rounds that may still follow to improve the answer."""
    _replans: int = field(default=0, init=False)
    """Number of rounds that may still follow after failed steps."""

    def __post_init__(self) -> None:
        settings = self.context.settings
        turns = settings.planner.rounds
        if self.context.request.query:  # without a query, no further plan can be made
            self._improvements = (turns or settings.limits.rounds) - 1
            self._replans = settings.limits.replans if settings.on_failure == "replan" and not turns else 0

    async def run(self, given: Plan | None) -> None:
        """Run rounds until the answer is kept, accepted or repeated, or the limit of rounds is reached."""
        turns: tuple[Turn, ...] = ()
        begun = _Next("", "", self.context.labels)
        for number in count(1):
            current = await self._round(number, begun, turns, given)
            calls = self._speaks and (current.plan is None or current.plan.answer is None)
            following = self._next_turn(current) if calls else await self._following(current)
            if following is None:
                break
            before, begun, given = self.context, following, None
            if begun.earlier is not None:
                self.context, given = begun.earlier.context, begun.earlier.round.plan
                continue
            labels = before.labels | begun.labels
            self.context = replace(before, labels=labels, previous=self._shown(current), earlier=begun.beside)
            turns = (*turns, Turn(text_before(self.context, before, current), begun.feedback))
        if self._refused and not self._stopped and not self.calls.made:
            words = f"no answer was accepted in {len(self.done)} round(s); the last answer was rejected: "
            self.problem = Problem("not_accepted", words + self._refused)

    def conclusion(self) -> tuple[str, RunStatus, Problem | None]:
        """Return the answer so far, the run's status, and its problem."""
        answer, status, problem = self._conclusion()
        return answer, status, self.context.actions.with_remedy(problem)

    def _conclusion(self) -> tuple[str, RunStatus, Problem | None]:
        answer, status, problem = conclusion(self.done, is_paused=bool(self.calls.made))
        unanswered = self._unanswered()
        own = self.problem or self._fallback() or self.context.actions.untold(problem) or unanswered
        if own is None:
            return answer, status, problem
        if own.code == WAITING:
            return "" if unanswered is not None else answer, "waiting", own
        if problem is not None and not self._stopped and own.code not in CODES:
            return answer, status, Problem(problem.code, f"{problem.message}; {own.message}")
        if unanswered is not None and own is not unanswered:
            own = replace(own, message=f"{own.message}; {unanswered.message}")
        return answer, "failed" if self.answer is None and not self.calls.made else "partial", own

    def _unanswered(self) -> Problem | None:
        """Return the problem of a planner that speaks turn by turn and wrote no answer."""
        turns = [each.plan for each in self.done if each.plan is not None and self._is_turn(each)]
        if not turns or turns[-1].answer is not None:
            return None
        told = f"the planner wrote no answer by turn {len(turns)}"
        told += ": this is the output of its latest step" if self.answer else ""
        refused = self._refusal
        return Problem("no_answer", told) if refused is None else Problem("limit", f"{told}; {refused}")

    def _is_turn(self, current: Round) -> bool:
        """Return whether a planner that speaks turn by turn was asked for the plan of a round."""
        is_fallback = current.planner is not None and current.planner.is_fallback
        return self._speaks and bool(current.proposals) and not is_fallback

    @property
    def _speaks(self) -> bool:
        """Whether the planner speaks turn by turn."""
        return self.context.settings.planner.rounds is not None

    def _fallback(self) -> Problem | None:
        """Return the problem of a run with a plan of the fallback planner."""
        for current in self.done:
            if current.planner is not None and current.planner.is_fallback:
                why = failures(current.proposals) or current.planner.why
                told = f"the fallback planner {current.planner.name!r} wrote the plan"
                return Problem(FALLBACK, f"{told}: {why}" if why else told)
        return None

    @property
    def answer(self) -> Outcome | None:
        """The outcome of the step that gave the answer; `None` without an answer."""
        return answer_outcome(self.done)

    @property
    def answer_labels(self) -> frozenset[str]:
        """The labels of the answer, or of the calls; empty without both."""
        answer = self.answer
        if self.calls.made:
            return self.calls.labels
        return frozenset() if answer is None else self._labels[answer.round][answer.step]

    async def _round(self, number: int, begun: _Next, turns: tuple[Turn, ...], given: Plan | None) -> Round:
        context, why = self.context, begun.why
        approvals, policy = context.paid_results.approvals, context.policy
        is_replaced = any(isinstance(each, ApprovalGiven) and each.again for each in approvals.values())
        last = not self._improvements and context.settings.accept is None and not is_replaced
        context.tell(RoundStarted, round=number, why=why)
        execution = RoundScheduler(
            context,
            number,
            last=last,
            may_replan=self._replans > 0,
            paid=begun.paid,
            approve={
                kind: partial(self._approve, kind=kind)
                for kind in ("actions", "fan-outs")
                if approvals or policy.approvers_of(kind)
            },
            answer=partial(request_answer, context),
        )
        proposals: list[Proposal] = []
        plan, refused = given, None
        self._planner = None
        try:
            async with execution:
                try:
                    plan = await self._plan(number, turns, given, execution, proposals)
                except PlannerError as error:
                    self.problem = Problem.of(error)  # the answer of an earlier round is kept
                    if begun.paid is not None:
                        message = f"{error}; a new plan was needed because of {begun.why}"
                        self.problem = replace(self.problem, message=message)
                    self.cause = error.__cause__
                except PodiumError as error:  # raised below, outside of the task group
                    refused = error
                except BUGS as bug:
                    execution.stop(bug)
                if begun.paid is None and self._is_repeated(plan):
                    why, plan = f"{why}; the plan repeats an earlier plan, so the answer is kept", KEPT
                if plan is not None:
                    self._announce(number, plan, proposals, why)
                    plan = await self._carry_out(number, plan, execution, begun)
                else:
                    execution.complete(KEPT)
        finally:
            self.answer_sent = number if execution.answer_sent else self.answer_sent
            self._labels[number], self._are_whole = execution.labels, execution.are_whole
            if plan is not None and plan.answer is not None and (card := context.settings.planner.card):
                self._labels[number] = (after(card, context.labels),)
            keyed = execution.keyed
            self._paid += [each for each in keyed if each[1].status == "ok"]
            self._failures = tuple([each for each in keyed if each[1].status == "failed"])
            ended = partial(Round, number=number, plan=plan, planner=self._planner, why=why)
            self.done.append(ended(proposals=tuple(proposals), outcomes=execution.outcomes))
            remember(self.context.settings.pool, self.done[-1], self.context.settings.pool.names)
        self._stop(execution)
        execution.forget()
        if refused is not None:
            if self.answer is None:
                raise refused
            self.problem = Problem.of(refused)
        return self.done[-1]

    async def _approve(
        self, action: Action, plan: Plan, labels: frozenset[str], *, kind: Ask
    ) -> ApprovalGiven | Problem | None:
        """Return the approval of an action, or of items or a turn, or why they may not start."""
        return await request_approval(self.context, action.round, plan, labels, action, kind)

    def _stop(self, execution: RoundScheduler) -> None:
        """Set why the run stops after a round in which steps wait."""
        if execution.broke is not None:
            raise execution.broke
        self.calls = execution.calls
        if execution.waits:
            self.problem = waiting([each.message for _, each in sorted(execution.waits.items())])
            self._stopped = True

    async def _plan(
        self,
        number: int,
        turns: tuple[Turn, ...],
        given: Plan | None,
        execution: RoundScheduler,
        proposals: list[Proposal],
    ) -> Plan | None:
        """Return the round's plan: the recorded plan, the given plan, or a new plan."""
        context, paid_results = self.context, self.context.paid_results
        recorded = paid_results.rounds.get(number)
        for each in () if recorded is None else recorded.planned:
            proposals.append(each.proposal)
            context.tell(PlannerEnded, round=number, proposal=each.proposal)
        known = None if recorded is None else recorded.ready
        if known is not None and number not in paid_results.stand_ins:
            return self._verified(known.plan)
        if given is not None:
            return given
        # A later plan may keep the answer or repeat a plan, so its steps start only when it is complete.
        early = EarlyStart(context, execution.add) if number == 1 else None
        asking = PlanRequester(context, number, turns, self.answer is not None, early, proposals)
        asking.is_last = self._speaks and not self._improvements
        if known is None:
            plan = await asking.make()
            execution.leave(asking.kept)
            self._refusal = asking.refused
            return plan
        asking.may_fall_back = False
        seconds = (context.ledger.deadline - context.clock()) / 2  # the other half is for the recorded plan
        with suppress(PlannerError), move_on_after(seconds):
            plan = await asking.make()
            paid_results.set_plan(number, None)
            return plan
        return self._verified(known.plan)

    def _verified(self, plan: Plan) -> Plan:
        """Return a recorded plan; raise `PlanError` if it does not fit the current policy."""
        context = self.context
        context.policy.verify(plan, context.settings.pool.cards, context.labels, context.previous.labels)
        return plan

    def _is_repeated(self, plan: Plan | None) -> bool:
        if plan is None or not plan.steps or any(step.previous for step in plan.steps) or self._speaks:
            return False  # steps with "previous" see a different previous round; an equal turn is meant
        return any(plan == earlier.plan for earlier in self.done)

    def _announce(self, number: int, plan: Plan, proposals: Sequence[Proposal], why: str) -> None:
        known = self.context.paid_results.rounds.get(number)
        if known is not None and known.planner and known.ready and known.ready.plan == plan:
            self._tell_plan(number, plan, known.planner)
            return
        before = next((each.planner for each in self.done if each.plan == plan), None)
        planner = planned_by(proposals) if proposals else before or plan.planner
        planner = planner or PlannedBy("user", plan.why)
        if not plan.steps or not planner.why:
            told = (
                "" if self._refusal is None else f"it was told that this is its last message: {self._refusal}"
            )
            planner = replace(planner, why=why or told)
        self._tell_plan(number, plan, planner)

    def _tell_plan(self, number: int, plan: Plan, planner: PlannedBy) -> None:
        self._planner = planner
        facts = {"planner": planner.name, "why": planner.why, "is_fallback": planner.is_fallback}
        facts["actions"] = self.context.settings.actions_of(plan)
        self.context.tell(PlanReady, round=number, plan=plan, **facts)

    async def _carry_out(self, number: int, plan: Plan, execution: RoundScheduler, begun: _Next) -> Plan:
        """Ask for approval, run the plan, and return the approved plan."""
        allowed: ApprovalGiven | Problem | None = None
        may_ask = self.context.policy.approvers_of("plans") or self.context.paid_results.rounds
        try:
            if may_ask and begun.earlier is None:  # an earlier plan was approved in its own round
                allowed = await request_approval(self.context, number, plan, self.context.labels)
        except BUGS as bug:
            execution.stop(bug)
            return plan
        if isinstance(allowed, Problem):
            if allowed.code != REPLANNED or self._speaks or not self.context.request.query:
                self.problem, self._stopped = allowed, True
            if allowed.code != WAITING:
                execution.refuse(plan, allowed)
            return plan
        if allowed is not None and allowed.plan not in (None, plan):
            plan = allowed.plan
            self._tell_plan(number, plan, plan.planner or _CHANGED)
        execution.complete(plan)
        return plan

    async def _following(self, current: Round) -> _Next | None:
        """Return the next round; `None` if this round is the last."""
        if self._stopped or self.calls.made or current.plan == KEPT:
            return None
        if (following := self._after_failure(current)) is not None:
            return following
        answer = answer_of(current)
        if current.plan is None or answer is None:
            return None
        shown = (answer.step, *self.context.settings.actions_of(current.plan))
        labels = frozenset[str]().union(*(self._labels[current.number][step] for step in shown))
        if self.context.settings.accept is not None:
            self._refused = await self._judged(current, answer.text, labels)
            if not self._refused:
                return None
        if not self._improvements or (not self._refused and (self._speaks or _is_out(current))):
            return None
        self._improvements -= 1
        if isinstance(self.context.settings.accept, Worker):
            labels = after(self.context.settings.accept.card, labels)
        spelling = self.context.settings.planner.spelling
        feedback = round_feedback(answer.text, spelling=spelling, reason=self._refused)
        if self._speaks:
            feedback = fill("refused", reason=self._refused)
        return _Next(self._refused or BETTER, feedback, labels)

    def _next_turn(self, current: Round) -> _Next | None:
        """Return the round in which the planner reads the results of its call; `None` if the run ends."""
        outcomes, fails = steps_of(current), self.context.settings.on_failure == "fail"
        # After an action with an unknown end, a person decides before the next turn.
        ends = [each for each in outcomes if each.action == "unknown" or (fails and each.status == "failed")]
        is_last = self._stopped or not self._improvements or self._refusal is not None
        if is_last or ends or not outcomes or not self._is_turn(current):
            return None
        self._improvements = 0 if _is_out(current) else self._improvements - 1  # then only the answer follows
        labels = frozenset[str]().union(*self._labels[current.number])
        return _Next("", turn_feedback(current), labels)

    def _after_failure(self, current: Round) -> _Next | None:
        """Return a round with a new plan, or with an earlier plan; `None` if neither helps."""
        problems = [outcome.problem for outcome in steps_of(current)]
        if words := {each.message for each in problems if each is not None and each.code == REPLANNED}:
            why = "; ".join(sorted(words))
            return _Next(why, fill("another", reason=why), frozenset(), _paid_results(self._paid))
        context, number = self.context, current.number + 1
        if context.settings.on_failure != "replan" or (not self._replans and self._earlier is None):
            return None
        if self._earlier is None and self.answer is None:
            needs = needs_without_failed(context, current.plan, steps_of(current))
            self._earlier = None if needs is None else _Earlier(context, current, self._failures, needs)
        earlier = self._earlier if self.answer is None else None
        if current.plan is not None and (failed := self._failed(current)):
            plan, spelling = current.plan, context.settings.planner.spelling
            may_keep = self.answer is not None
            feedback = failure_feedback(plan, steps_of(current), spelling=spelling, may_keep=may_keep)
            self._replans -= 1
            labels = frozenset[str]().union(*self._labels[current.number])
            why, beside = "; ".join(map(told, failed)), NO_NEEDS if earlier is None else earlier.needs
            return _Next(why, feedback, labels, _paid_results(self._paid), beside=beside)
        if earlier is None:
            return None
        if current is not earlier.round and self.problem is None and (problem := conclusion([current])[2]):
            message = f"the new plan of round {current.number} gave no answer: {problem.message}"
            self.problem = replace(problem, message=message)
        self._replans, self._improvements, self._earlier = 0, 0, None
        why = f"the plan of round {earlier.round.number} continues without its failed steps"
        # The failed steps run again if the plan is recorded.
        is_recorded = earlier.context.paid_results.round(number).ready is not None
        paid = _paid_results(self._paid if is_recorded else (*self._paid, *earlier.failed))
        return _Next(why, "", frozenset(), paid, earlier)

    def _shown(self, current: Round) -> PreviousRound:
        """Return the data that steps with "previous" on their access list see in the next round.

        If the planner speaks turn by turn, these are the outputs of all its turns.
        """
        plan, good = current.plan, [outcome for outcome in steps_of(current) if outcome.status == "ok"]
        assert plan is not None
        names = self.context.request.context
        visible = [shown_step(plan, one.step, one.text, previous=True, names=names) for one in good]
        labels = frozenset[str]().union(*(self._labels[current.number][outcome.step] for outcome in good))
        is_whole = all(self._are_whole[outcome.step] for outcome in good)
        if not self._speaks:
            return PreviousRound(tuple(visible), labels, is_whole)
        before = self.context.previous
        turn = [replace(each, label=current.number) for each in visible]
        return PreviousRound((*before.visible, *turn), labels | before.labels, is_whole and before.is_whole)

    def _failed(self, current: Round) -> list[Outcome]:
        """Return the failed steps; empty if no further plan is allowed or useful."""
        failed = [outcome for outcome in steps_of(current) if outcome.status == "failed"]
        has_whole_answer = answer_of(current) is not None and not missing(current)
        if has_whole_answer:  # another plan may carry out an action that has failed
            failed = [outcome for outcome in failed if outcome.action in ("failed", "not_done")]
        return [] if not self._replans or _is_out(current) else failed

    async def _judged(self, current: Round, answer: str, labels: frozenset[str]) -> str:
        """Return why the answer is rejected; empty if it is accepted or could not be judged."""
        assert self.context.settings.accept is not None
        assert current.plan is not None
        context = replace(self.context, labels=labels)
        judging = AcceptanceCheck(context, current.number, len(current.plan.steps))
        try:
            return await judging.verdict(self.context.settings.accept, answer)
        finally:
            if judging.check is not None:
                self.done[-1] = replace(current, check=judging.check)
            self.problem = judging.problem or self.problem


def _paid_results(outcomes: Iterable[tuple[str, Outcome]]) -> PaidResults:
    """Return outcomes, each with its exact key, as results that a round reuses."""
    results = PaidResults()
    for key, outcome in outcomes:
        results.add(key, outcome)
    return results


def _is_out(current: Round) -> bool:
    """Return whether the run's limits refused a step, so another round would also fail."""
    return any(
        outcome.problem is not None and outcome.problem.code == LimitExceeded.code and not outcome.attempts
        for outcome in steps_of(current)
    )
