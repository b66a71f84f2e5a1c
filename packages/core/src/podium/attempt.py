"""One call of one worker for one step, and the outcome it comes to."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from podium.boundary import Boundary
from podium.errors import (
    LimitExceeded,
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
)
from podium.events import StepStarted
from podium.messages import Completion, estimate_usage, storable
from podium.outcome import Outcome, Problem, StepStatus
from podium.plan import Step
from podium.prompt import worker_messages
from podium.setting import Setting
from podium.usage import Usage
from podium.workers.worker import FREE, Brief, Caller, Request, Shown

_FAILED = partial(WorkerFailed, maybe_paid=True)


@dataclass(slots=True)
class Attempt:
    """A step's worker at work; what it wrote so far can be read at any time."""

    setting: Setting
    round: int
    index: int
    """Index of the step in its plan, from 0."""
    step: Step
    visible: tuple[Shown, ...]
    on_text: Callable[["Attempt", str], None]
    """Takes this attempt and each piece it writes."""
    number: int = 1
    """Number of the call among those of the step's place in its round."""
    pieces: list[str] = field(default_factory=list)
    started: float | None = None
    """Seconds since the run began; `None` until the worker is called."""
    _request: Request | None = None
    _whole: Completion | None = None

    async def run(self, deadline: float) -> Outcome:
        """Call the worker and return the step's outcome; it fails by outcome, not by exception."""
        try:
            self.setting.ledger.start_step()
            with Boundary(f"worker {self._name!r}", _FAILED):
                await self._call(deadline)
        except PodiumError as error:
            return self.failed(error)
        return self._ended("ok", None)

    async def _call(self, deadline: float) -> None:
        worker, request = self.setting.pool[self.step.worker], self._make_request(deadline)
        room = self.setting.limits.output_chars
        async with aclosing(worker.call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    self._whole = self._checked(piece)
                    return
                if not isinstance(piece, str):
                    raise self._broken(f"yielded a {type(piece).__name__}, not text")
                room -= len(piece)
                if room < 0:
                    raise self._too_long()
                self.pieces.append(storable(piece))
                self.on_text(self, self.pieces[-1])
        raise self._broken("ended without a completion")

    def _make_request(self, deadline: float) -> Request:
        setting, card = self.setting, self.setting.pool.cards[self.step.worker]
        self.started = setting.now()
        setting.tell(
            StepStarted,
            round=self.round,
            step=self.index,
            attempt=self.number,
            worker=card.name,
            subtask=self.step.subtask,
        )
        brief = Brief(self.step.subtask, self.visible, setting.query if setting.show_question else ())
        caller = Caller(
            run_id=setting.run_id,
            round=self.round,
            step=self.index,
            attempt=self.number,
            depth=setting.depth,
            ledger=setting.ledger,
            emit=setting.emit,
        )
        self._request = Request(
            messages=worker_messages(brief, card),
            brief=brief,
            deadline=deadline,
            stream=setting.stream,
            caller=caller,
        )
        return self._request

    def _checked(self, completion: Completion) -> Completion:
        if not completion.text.strip():
            raise self._broken("returned an empty answer")
        if len(completion.text) > self.setting.limits.output_chars:
            raise self._too_long()
        text = storable(completion.text)
        return completion if text is completion.text else replace(completion, text=text)

    def _too_long(self) -> WorkerBroken:
        most = self.setting.limits.output_chars
        return self._broken(f"wrote more than {most:,} characters: raise Limits.output_chars")

    def _broken(self, what: str) -> WorkerBroken:
        return WorkerBroken(f"worker {self._name!r} {what}", maybe_paid=True)

    def failed(self, error: PodiumError) -> Outcome:
        """Return the outcome of a call that ended in `error`."""
        refused = isinstance(error, WorkerError) and not error.maybe_paid
        paid = self.started is not None and not refused and not isinstance(error, LimitExceeded)
        outcome = self._ended("failed", Problem.of(error), paid=paid)
        if not isinstance(error, WorkerError) or error.usage is None or outcome.status == "ok":
            return outcome
        price, cost = self.setting.pool.cards[self.step.worker].price, error.cost
        if cost is None and price is not None:
            cost = price.cost(error.usage)
        return replace(outcome, usage=error.usage, cost=cost)

    def timed_out(self) -> Outcome:
        """Return the outcome of a call that was stopped at its deadline."""
        ledger, limit = self.setting.ledger, f"{self.setting.limits.step_seconds:g} s (Limits.step_seconds)"
        if self.setting.clock() >= ledger.deadline:
            limit = f"the run's {ledger.limits.seconds:g} s (Limits.seconds)"
        did = "had no free slot" if self.started is None else "did not answer"
        message = f"worker {self._name!r} {did} within {limit}"
        return self.failed(WorkerTimeout(message, maybe_paid=self.started is not None))

    def stopped(self, problem: Problem) -> Outcome:
        """Return the outcome of a call that was cancelled."""
        return self._ended("cancelled", problem, paid=self.started is not None)

    @property
    def _name(self) -> str:
        return self.setting.pool.names[self.step.worker]

    def _ended(self, status: StepStatus, problem: Problem | None, *, paid: bool = True) -> Outcome:
        completion = self._whole
        if completion is not None:
            # It was paid for and stands, even if its worker failed or hung in clearing up.
            status, problem = "ok", _shortfall(completion)
        usage, cost = self._bill(paid=paid)
        return Outcome(
            round=self.round,
            step=self.index,
            worker=self._name,
            status=status,
            text=completion.text if completion is not None else "".join(self.pieces),
            problem=problem,
            finish_reason=completion.finish_reason if completion is not None else None,
            usage=usage,
            cost=cost,
            attempts=0 if self.started is None else self.number,
            started=self.started,
            ended=None if self.started is None else self.setting.now(),
        )

    def _bill(self, *, paid: bool) -> tuple[Usage, float | None]:
        """Return tokens and USD; where money is due and nobody counted, tokens are estimated."""
        price = self.setting.pool.cards[self.step.worker].price
        if not paid or self._request is None:
            return Usage(), 0.0
        if self._whole is None:
            usage = estimate_usage(self._request.messages, "".join(self.pieces))
        elif self._whole.cost is not None:
            return self._whole.usage, self._whole.cost
        elif self._whole.usage == Usage() and price not in (None, FREE):
            usage = estimate_usage(self._request.messages, self._whole.text)
        else:
            usage = self._whole.usage
        return usage, None if price is None else price.cost(usage)


def _shortfall(completion: Completion) -> Problem | None:
    """Return what a whole answer lacks all the same."""
    if completion.missing is not None:
        return Problem("partial", completion.missing)
    if completion.finish_reason == "length":
        return Problem("cut", "the text was cut at its worker's token limit")
    return None
