"""What becomes of a plan on recorded answers: what its subtasks ask, how its steps end, and its score.

Plans are carried out without waiting, with what a run of a conductor reaches. A run takes about a millisecond
for each step, because it can be cancelled, paid, recorded and resumed. A test compares both on random plans.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from podium.errors import PlanInvalid, WorkerError
from podium.prompts.output import BadOutput, constraint_of, output_in
from podium.prompts.prompt import step_input
from podium.types import Completion, Message, Plan, Step
from podium.types.references import literal
from podium.usage import Usage
from podium.workers import Caller, Request, StepInput, VisibleStep, Worker
from podium_evals.arms import vote_plan
from podium_evals.errors import Unrecorded
from podium_evals.recorded import NO_ANSWER, Bundle, Part, Question, Recordings, normalised
from podium_train.environments.environment import EarlierRound
from podium_train.environments.episodes import Asks

_NAMED = re.compile(
    r"(?:please )?(?:answer|solve)(?: only)?(?: the question (?:in|of))? part (\d)(?: only| alone)?"
    r"(?: of the question)?\.?",
    re.IGNORECASE,
)


def asked_alone(plan: Plan, bundle: Bundle, models: int) -> Plan:
    """Return the plan in which each subtask that names a part has the text of the part.

    A subtask names a part if it is "Answer part 1." or says so in a few more words, such as "Solve only part
    1 of the question". The step has an empty access list, or if the part needs the answer to another part,
    one step on it. Other steps stay as they are, and are answered if they have the text of a part.
    """
    steps = tuple(_alone(step, bundle) if step.worker < models else step for step in plan.calls)
    return replace(plan, steps=steps)


def _alone(step: Step, bundle: Bundle) -> Step:
    found = _NAMED.fullmatch(" ".join(step.subtask.split()))
    number = int(found[1]) - 1 if found else -1
    if not 0 <= number < len(bundle.parts):
        return step
    part = bundle.parts[number]
    if len(step.access) != (part.needs is not None):
        return step
    return replace(step, subtask=_text_of(part, step.access))


def plan_by_part(
    query: Bundle | None, chosen: Sequence[Sequence[int]], *, vote: int, join: int, asks: Asks
) -> Plan:
    """Return the plan that asks each part of a query of some workers."""
    if query is None:
        (workers,) = chosen
        return vote_plan(list(workers), vote)
    steps: list[Step] = []
    ends: list[int] = []
    for number, (part, workers) in enumerate(zip(query.parts, chosen, strict=True), 1):
        access = () if part.needs is None else (ends[part.needs],)
        begin = len(steps)
        steps += [Step(worker, _subtask(part, number, access, asks), access) for worker in workers]
        if len(workers) > 1:
            steps.append(Step(vote, "Choose.", tuple(range(begin, len(steps)))))
        ends.append(len(steps) - 1)
    return Plan((*steps, Step(join, "Join the answers.", tuple(ends))))


def _subtask(part: Part, number: int, access: tuple[int, ...], asks: Asks) -> str:
    if asks == "shown":
        return f"Answer part {number}."
    return _text_of(part, access) if access else f"Answer this question: {{{{part_{number}}}}}"


def _text_of(part: Part, access: tuple[int, ...]) -> str:
    """Return the text of a part as a subtask, with a reference in place of a number that it needs."""
    if part.needs is None:
        return literal(part.question.text)
    before, after = map(literal, part.around)
    return f"{before}{{{{{access[0]}}}}}{after}"


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


class RecordedScores:
    """Scores answers that some worker gave."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._of_question: dict[str, dict[str, float]] = {}

    def of_plan(self, query: Question | Bundle, plan: Plan, ends: Mapping[int, StepEnd]) -> float | None:
        """Return the score of a plan; `None` if it asked something that was not recorded.

        In a bundle, a part that needs the answer to another part was not recorded with a wrong answer to it.
        Such a part scores 0.
        """
        answer = ends[len(plan.calls) - 1].text or ""
        allowed: Part | None = None
        if isinstance(query, Bundle):
            scores = query.score(answer, self._of_answer)
            score, allowed = scores.whole, query.follows_an_error(scores.parts)
        else:
            score = self._of_answer(query.text, answer)
        for number, end in ends.items():
            if end.is_unrecorded:
                asked = query.part_asked(plan.calls[number].subtask) if isinstance(query, Bundle) else None
                if asked is None or asked is not allowed:
                    return None
        return score

    def _of_answer(self, text: str, answer: str) -> float | None:
        """Return what `Recordings.score` returns; it reads all answers to a question once."""
        wanted = normalised(answer)
        if wanted in ("", NO_ANSWER):
            return 0.0
        question = self._recordings.find(text)
        if question is None:
            return None
        if question.key not in self._of_question:
            self._of_question[question.key] = self._read(question)
        return self._of_question[question.key].get(wanted)

    def _read(self, question: Question) -> dict[str, float]:
        found: dict[str, float] = {}
        for worker in self._recordings.workers:
            for sample in self._recordings.samples(question, worker):
                found.setdefault(normalised(sample.text), sample.score or 0.0)
        return found
