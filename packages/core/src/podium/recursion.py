"""Rounds: plan, carry out, and let the conductor look at what came of it.

After a round the planner may write another plan or keep the answer (arXiv 2512.04388,
section 3.2, calls this recursion; its conductor is trained for one such round). Unlike
there, a round ends the run as soon as its plan repeats an earlier one, an `accept` check
can ask for another round, and workers of a later round are shown nothing of an earlier
one but what the planner writes into their subtasks.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable

import anyio

from podium.attempt import Attempt
from podium.boundary import Boundary
from podium.errors import PodiumError, WorkerFailed
from podium.events import PlanReady, RoundStarted
from podium.execute import STOPPED, Execution, tell_end
from podium.outcome import Outcome, Problem, Proposal, Round
from podium.plan import Plan, Step
from podium.planners.planner import Turn
from podium.planners.task import round_feedback
from podium.planning import Planners, Planning
from podium.prompt import judge_prompt
from podium.result import RunStatus
from podium.setting import Setting
from podium.spelling import write_plan
from podium.workers.pool import Pool, take
from podium.workers.worker import Worker

Accept = Worker | Callable[[str, str], bool | str | Awaitable[bool | str]]
"""Judges an answer: a worker that is asked for YES or NO, or a function of question and
answer that returns `True`, or `False`, or in words what is wrong."""

_VERDICT = re.compile(r"[\s*_#>\"'`]*(yes|no)\b[\s*_#>\"'`.,:;!–—-]*", re.IGNORECASE)
"""How a judge's reply begins."""
_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class Rounds:
    """The rounds of one run; what they came to can be read at any time."""

    setting: Setting
    planners: Planners
    accept: Accept | None = None
    done: list[Round] = field(default_factory=list)
    problem: Problem | None = None
    """Why the run fell short although its last step did not fail."""
    answer_sent: bool = False
    """Whether some of the answer was sent on while it was written."""

    async def run(self, given: Plan | None) -> None:
        """Run rounds until the answer is kept, accepted or repeated, or the limit is met.

        Args:
            given: the first round's plan; `None` has the planner write it.

        Raises:
            PodiumError: what went wrong with the planner, when strictness was asked for.
        """
        turns: tuple[Turn, ...] = ()
        reason = ""
        for number in range(1, self._most + 1):
            why = "" if number == 1 else reason or "the conductor may better what its plan came to"
            current = await self._round(number, why, turns, given if number == 1 else None)
            answer = answer_of(current)
            if current.plan is None or not current.plan.steps or answer is None:
                break
            reason = await self._reason_to_go_on(answer.text)
            if self.accept is not None and not reason:
                return
            if number == self._most:
                break
            feedback = round_feedback(answer.text, spelling=self.planners.first.spelling, reason=reason)
            turns = (*turns, Turn(self._written(current, current.plan), feedback))
        if reason:
            told = f"no answer was accepted in {len(self.done)} round(s); the last was refused: {reason}"
            self.problem = Problem("not_accepted", told)

    @property
    def _most(self) -> int:
        """Rounds there can be; a plan given without its question leaves nothing to plan by."""
        return self.setting.limits.rounds if self.setting.query else 1

    async def _round(self, number: int, why: str, turns: tuple[Turn, ...], given: Plan | None) -> Round:
        setting = self.setting
        last = number == self._most and self.accept is None
        setting.tell(RoundStarted, round=number, why=why)
        execution = Execution(setting, number, last=last)
        proposals: list[Proposal] = []
        plan, refused = given, None
        try:
            async with execution:
                if plan is None:
                    # A later round may keep the answer or repeat itself: nothing starts before that is known.
                    on_step = execution.add if number == 1 else None
                    planning = Planning(setting, self.planners, number, turns, on_step, proposals)
                    try:
                        plan = await planning.make()
                    except PodiumError as error:  # raised below, outside of the task group
                        refused = error
                if plan is not None and plan.steps and plan in [earlier.plan for earlier in self.done]:
                    why, plan = f"{why}; it repeats an earlier plan, whose answer stands", Plan(())
                if plan is not None:
                    self._announce(number, plan, proposals, why)
                await execution.complete(plan or Plan(()))
        finally:
            self.answer_sent = execution.answer_sent
            self.done.append(
                Round(
                    number=number,
                    plan=plan,
                    proposals=tuple(proposals),
                    outcomes=execution.outcomes,
                    why=why,
                )
            )
        if refused is not None:
            if all(answer_of(earlier) is None for earlier in self.done):
                raise refused
            self.problem = Problem.of(refused)  # an earlier answer is paid for, and stands
        return self.done[-1]

    def _written(self, current: Round, plan: Plan) -> str:
        """Return the round's plan as the first planner wrote it, or would have."""
        first = self.planners.first
        if current.proposals and current.proposals[-1].planner == first.name:
            return current.proposals[-1].text
        order = list(first.order(len(self.setting.pool), self.setting.run_id))
        shown = plan.renumbered([order.index(number) for number in range(len(order))])
        return write_plan(shown, first.spelling)

    def _announce(self, number: int, plan: Plan, proposals: Sequence[Proposal], why: str) -> None:
        proposal = proposals[-1] if proposals else None
        self.setting.tell(
            PlanReady,
            round=number,
            plan=plan,
            planner=proposal.planner if proposal is not None else "user",
            why=(proposal.why if proposal is not None else "") or why,
        )

    async def _reason_to_go_on(self, answer: str) -> str:
        """Return why `accept` wants another round; empty when it does not, or is not there."""
        if self.accept is None:
            return ""
        question = self.setting.query[-1].text if self.setting.query else ""
        verdict: bool | str
        if isinstance(self.accept, Worker):
            verdict = await self._ask_judge(self.accept, answer)
        else:
            try:
                with Boundary("accept", WorkerFailed):
                    returned = self.accept(question, answer)
                    verdict = await returned if isawaitable(returned) else returned
            except PodiumError as error:
                self._not_judged(str(error))
                return ""
        if isinstance(verdict, str):
            return verdict
        return "" if verdict else "the answer was not accepted"

    async def _ask_judge(self, judge: Worker, answer: str) -> bool | str:
        """Have a worker judge, in a slot of its own; one that fails lets the answer pass."""
        current = self.done[-1]
        slots = [self.setting.pool.slot(n) for n, worker in enumerate(self.setting.pool) if worker is judge]
        setting = replace(self.setting, pool=Pool([judge]), show_question=False, stream=False)
        number = len(current.plan.steps) if current.plan is not None else 0
        step = Step(0, judge_prompt(setting.query, answer))
        attempt = Attempt(setting, current.number, number, step, (), _unread)
        deadline = min(setting.ledger.deadline, anyio.current_time() + setting.limits.step_seconds)
        check, held = None, list[anyio.Semaphore]()
        try:
            with anyio.CancelScope(deadline=deadline):
                held = await take(*slots)
                check = await attempt.run(deadline)
        finally:
            for slot in held:
                slot.release()
            if check is None:
                late = anyio.current_time() >= deadline
                check = attempt.timed_out() if late else attempt.stopped(STOPPED)
            tell_end(setting, check)
            self.done[-1] = replace(current, check=check)
        if check.problem is not None:
            self._not_judged(check.problem.message)
            return True
        reply = _THOUGHT.sub("", check.text)
        verdict = _VERDICT.match(reply)
        if verdict is None:
            self._not_judged(f"{check.worker} began with neither YES nor NO: {reply.strip()[:80]!r}")
            return True
        return verdict[1].lower() == "yes" or reply[verdict.end() :].strip() or False

    def _not_judged(self, why: str) -> None:
        """The answer is paid for: it stands, and the result tells that nobody judged it."""
        self.problem = Problem("not_judged", f"the answer could not be judged: {why}")


def _unread(attempt: Attempt, text: str) -> None:
    """Take a piece of a judge's reply, which nobody reads along."""


def answer_of(current: Round) -> Outcome | None:
    """Return the outcome of the round's last step, if it is an answer."""
    if current.plan is None or not current.plan.steps:
        return None
    last = current.outcomes[len(current.plan.steps) - 1]
    return last if last.status == "ok" else None


def conclusion(rounds: Sequence[Round]) -> tuple[str, RunStatus, Problem | None]:
    """Return the answer the rounds came to, how whole it is, and what is missing from it.

    The answer is the last step's output in the latest round that has one; else the latest
    output of any step.
    """
    answers = [answer for answer in map(answer_of, rounds) if answer is not None]
    if answers:
        return answers[-1].text, "ok" if answers[-1].problem is None else "partial", answers[-1].problem
    problem = _first_problem(rounds)
    parts = [
        outcome
        for current in rounds
        for outcome in current.outcomes[: None if current.plan is None else len(current.plan.steps)]
        if outcome.status == "ok"
    ]
    return (parts[-1].text, "partial", problem) if parts else ("", "failed", problem)


def _first_problem(rounds: Sequence[Round]) -> Problem | None:
    """Return what first went wrong in the latest round, with the step or planner it befell."""
    if not rounds:
        return None
    for outcome in rounds[-1].outcomes:
        if outcome.status == "failed" and outcome.problem is not None:
            told = f"step {outcome.step} ({outcome.worker}): {outcome.problem.message}"
            return Problem(outcome.problem.code, told)
    for proposal in reversed(rounds[-1].proposals):
        if proposal.problem is not None:
            told = f"planner {proposal.planner}: {proposal.problem.message}"
            return Problem(proposal.problem.code, told)
    return None
