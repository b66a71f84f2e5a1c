"""Carries out a plan without waiting: what a run of a conductor reaches with workers that answer at once.

A run takes about a millisecond for each step, because it can be cancelled, paid, recorded and resumed. A test
compares both on random plans.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from podium.errors import PlanInvalid, WorkerError
from podium.prompts.output import BadOutput, constraint_of, output_in
from podium.prompts.prompt import step_input
from podium.types import Completion, Message, Plan
from podium.usage import Usage
from podium.workers import Caller, Request, StepInput, VisibleStep, Worker
from podium_evals.errors import Unrecorded
from podium_train.environments.episode import EarlierRound


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended."""

    text: str | None
    """The output; `None` if the step failed or was skipped."""
    usage: Usage = Usage()
    is_unrecorded: bool = False
    """Whether it failed because the worker was asked something that was not recorded."""

    @property
    def is_called(self) -> bool:
        """Whether the worker was called."""
        return self.text is not None or self.is_unrecorded


async def run_steps(
    plan: Plan,
    query: Sequence[Message],
    texts: Mapping[str, str],
    pool: Sequence[Worker],
    earlier: EarlierRound | None = None,
) -> dict[int, StepEnd]:
    """Return how the needed steps of a plan end; the output of the last step is the answer.

    A step with a missing input runs with a note about it, as by `on_failure="note"`. No call is retried.

    Args:
        plan: a valid plan without `enough`: which steps end first is not recorded.
        query: what workers see besides their subtask; empty if they see nothing.
        texts: the named texts.
        pool: the workers, which answer at once.
        earlier: the first round, if this is the plan of the second.
    """
    ends: dict[int, StepEnd] = {}
    before = () if earlier is None else earlier.visible(texts)
    for number in sorted(plan.needed):
        step = plan.calls[number]
        good = [seen for seen in step.access if ends[seen].text is not None]
        previous = before if step.previous else ()
        if (step.access and not good and not previous) or any(
            ends[seen].text is None for seen in step.references
        ):
            ends[number] = StepEnd(None)
            continue
        visible = previous + tuple(_shown(plan, seen, ends[seen]) for seen in step.access)
        worker = pool[step.worker]
        try:
            shown = step_input(worker, step, visible, query, texts=texts)
            caller = Caller(run_id="", round=1 if earlier is None else 2, step=number, attempt=1)
            completion = await _answer(worker, shown, caller)
            text = completion.text
            if step.returns is not None:
                text = output_in(text, step.returns, constraint_of(worker, step))
        except (BadOutput, PlanInvalid, WorkerError) as error:
            ends[number] = StepEnd(None, is_unrecorded=isinstance(error, Unrecorded))
        else:
            ends[number] = StepEnd(text, completion.usage)
    return ends


def _shown(plan: Plan, number: int, end: StepEnd) -> VisibleStep:
    step = plan.calls[number]
    gap = "" if end.text is not None else "it failed"
    return VisibleStep(number, step.subtask, end.text or "", gap, label=step.label)


async def _answer(worker: Worker, shown: StepInput, caller: Caller) -> Completion:
    async with aclosing(worker.call(Request(messages=(), step_input=shown, caller=caller))) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                return piece
    raise AssertionError(f"{worker.card.name!r} ended without a completion")
