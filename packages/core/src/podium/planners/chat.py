"""A planner that calls a chat model."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from random import Random
from typing import Any, get_args

from podium.budget.spend import Spend
from podium.errors import ConfigError, WorkerBroken
from podium.plan_text.grammar import plan_grammar
from podium.plan_text.schema import plan_schema
from podium.plan_text.writer import Spelling
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.planners.planner_prompt import MAX_EXAMPLES, Show, planner_messages
from podium.types.messages import Completion, Constraint, Message, Sampling, usage_or_estimate
from podium.usage import Usage
from podium.workers.worker import Request, Worker

_EXAMPLES: Mapping[Spelling, int] = {"lists": MAX_EXAMPLES, "json": 2, "rows": 2}
"""Default number of examples. For `lists` it is the number with which the paper's conductors were trained."""


class ChatPlanner(Planner):
    """Calls a chat model for the plan.

    If the model's server supports constrained decoding, a grammar makes the model follow the spelling. If the
    server supports no grammars, a JSON schema does this for the spelling `json`.

    Args:
        worker: the worker that calls the model; the planner has the name and the price of this worker.
        spelling: the form of the plan's text. Only with `rows` can a step start while the
            planner writes the next step; the paper's conductors write `lists`.
        show: whether the prompt describes workers by their cards (`cards`), or only by their numbers
            (`ordinals`), for conductors that were trained with numbers.
        shuffle: show the workers in a different order in each run, to avoid a preference for the
            first. Do not use it with a conductor that was trained on a fixed order.
        examples: number of example plans in the prompt, from 0 to 4; `None` means 4 for
            `lists`, as in the training of the paper's conductors, else 2.
        reasons: ask for a line with the reason of each step before the step, or before the plan if its
            spelling is not `rows`. Decoding is then not constrained, because grammars of plans have no
            reasons.
        constrain: use constrained decoding if the server supports it.
        sampling: the sampling settings; `None` means the worker's.

    Raises:
        ConfigError: `spelling`, `show` or `examples` is invalid.
    """

    worker: Worker

    def __init__(  # noqa: PLR0913 - one for each choice of how to ask
        self,
        worker: Worker,
        *,
        spelling: Spelling = "rows",
        show: Show = "cards",
        shuffle: bool = False,
        examples: int | None = None,
        reasons: bool = False,
        constrain: bool = True,
        sampling: Sampling | None = None,
    ) -> None:
        _check("spelling", spelling, get_args(Spelling))
        _check("show", show, get_args(Show))
        if examples is not None and (type(examples) is not int or not 0 <= examples <= MAX_EXAMPLES):
            raise ConfigError(f"examples is {examples!r:.40}: use a whole number from 0 to {MAX_EXAMPLES}")
        self.name = worker.card.name
        self.worker = worker
        self.spelling = spelling
        self._show = show
        self._shuffle = shuffle
        self._examples = _EXAMPLES[spelling] if examples is None else examples
        self._reasons = reasons
        self._constrain = constrain and not reasons
        self._sampling = sampling or Sampling()

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the pool's order, or with `shuffle` a random order with the run's id as its seed."""
        order = list(range(workers))
        if self._shuffle:
            Random(run_id).shuffle(order)  # noqa: S311 - not for security, and repeatable on resume
        return order

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the model's call may spend."""
        return self.worker.worst_case(self._call(request), answer_tokens) or Spend()

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that are sent to the model."""
        return self._call(request).messages

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its text."""
        asked, middleware = self._call(request), request.middleware
        call = self.worker.call(asked) if middleware is None else middleware(self.worker, asked)
        async with aclosing(call) as pieces:
            async for piece in pieces:
                yield self._whole(piece, asked) if isinstance(piece, Completion) else piece

    def _call(self, request: PlanRequest) -> Request:
        sampling = self._constrained(request)
        if sampling.max_tokens is None and self.worker.max_tokens is None:
            sampling = replace(sampling, max_tokens=request.max_tokens)
        return Request(
            messages=planner_messages(
                request,
                spelling=self.spelling,
                show=self._show,
                examples=self._examples,
                reasons=self._reasons,
            ),
            sampling=sampling,
            deadline=request.deadline,
            stream=request.stream,
        )

    def _whole(self, completion: Completion, asked: Request) -> PlanText:
        price, usage, cost = self.worker.card.price, completion.usage, completion.cost
        if self.worker.uses_tokens and completion.uses_tokens and (cost is None or usage != Usage()):
            usage = usage_or_estimate(usage, asked.messages, completion.text, completion.tool_calls)
        if cost is None and price is not None:
            cost = price.cost(usage)
        if completion.missing is not None:
            told = f"the text of planner {self.name!r} is incomplete: {completion.missing}"
            raise WorkerBroken(told, maybe_paid=True, usage=usage, cost=cost)
        return PlanText(text=completion.text, finish_reason=completion.finish_reason, usage=usage, cost=cost)

    def _constrained(self, request: PlanRequest) -> Sampling:
        kinds = self.worker.constraint_kinds if self._constrain else frozenset()
        # `asked_steps`, not `max_steps`: a grammar is sent with each call and grows with the square of
        # its steps (rows with 20 workers: 1.5 kB at 5 steps, 29 kB at 32).
        size, steps, keep = len(request.cards), request.asked_steps, request.may_keep
        constraint = None
        if "grammar" in kinds:  # only a grammar can restrict access lists to earlier steps
            constraint = Constraint("grammar", plan_grammar(self.spelling, size, steps, keep=keep))
        elif self.spelling == "json" and "json" in kinds:
            constraint = Constraint("json", plan_schema(size, steps, keep=keep))
        return self._sampling if constraint is None else replace(self._sampling, constraint=constraint)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self.worker,)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}: use {' or '.join(map(repr, allowed))}")
