"""A chat model as the conductor."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from random import Random
from typing import Any, get_args

from podium.budget.spend import Spend
from podium.errors import ConfigError
from podium.plan_text.grammar import plan_grammar
from podium.plan_text.schema import plan_schema
from podium.plan_text.writer import Spelling
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.planners.planner_prompt import MAX_EXAMPLES, Show, planner_messages
from podium.types.messages import Completion, Constraint, Message, Sampling, usage_or_estimate
from podium.usage import Usage
from podium.workers.worker import Request, Worker

_EXAMPLES: Mapping[Spelling, int] = {"lists": MAX_EXAMPLES, "json": 2, "rows": 2}
"""How many examples are shown by default: as many as the paper's conductors were trained with, or few."""


class ChatPlanner(Planner):
    """Asks a chat model for the plan.

    Where the model's server can hold a text to a form while decoding it, the plan is
    held to its spelling: to a grammar, or for `json` at least to a JSON schema.

    Args:
        worker: the model, as any worker; its card names and prices the planner.
        spelling: how the plan is to be written. Only `rows` lets a step start while the
            next is still being written; `lists` is what the paper's conductors write.
        show: whether workers are shown with their cards, or as bare ordinals to a
            conductor that was trained so.
        shuffle: show the workers in another order in every run, against a bias for the
            first. Not for a conductor that has learned who stands where.
        examples: how many example plans the prompt shows, from 0 to 4, none of one step; `None`
            shows four where plans are `lists`, as the paper's conductors are trained, else two.
        constrain: hold the text to its spelling where the server can.
        sampling: how to write; `None` leaves it to the worker.

    Raises:
        ConfigError: the spelling, the way to show workers or the number of examples is none
            there is.
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
        self._constrain = constrain
        self._sampling = sampling or Sampling()

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the pool's order, or with `shuffle` one that the run's id decides."""
        order = list(range(workers))
        if self._shuffle:
            Random(run_id).shuffle(order)  # noqa: S311 - a shuffle that can be repeated, no secret
        return order

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the most that asking the model may spend."""
        return self.worker.worst_case(self._call(request), answer_tokens) or Spend()

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the model is sent."""
        return self._call(request).messages

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Ask the model."""
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
                request, spelling=self.spelling, show=self._show, examples=self._examples
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
        return PlanText(text=completion.text, finish_reason=completion.finish_reason, usage=usage, cost=cost)

    def _constrained(self, request: PlanRequest) -> Sampling:
        kinds = self.worker.constraint_kinds if self._constrain else frozenset()
        # Not `max_steps`: a grammar grows with the square of its steps (rows with 20 workers: 1.5 kB
        # at 5 steps, 29 kB at 32), is sent with each call, and should say what the prompt says.
        size, steps, keep = len(request.cards), request.asked_steps, request.may_keep
        constraint = None
        if "grammar" in kinds:  # says more than a schema can: who may see whom
            constraint = Constraint("grammar", plan_grammar(self.spelling, size, steps, keep=keep))
        elif self.spelling == "json" and "json" in kinds:
            constraint = Constraint("json", plan_schema(size, steps, keep=keep))
        return self._sampling if constraint is None else replace(self._sampling, constraint=constraint)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self.worker,)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}: use {' or '.join(map(repr, allowed))}")
