"""How plans ask the parts of a bundle: reading what a subtask asks, and writing plans part by part."""

import re
from collections.abc import Sequence
from dataclasses import replace

from podium.types import Plan, Step
from podium.types.references import literal
from podium_evals.arms import vote_plan
from podium_evals.recorded import Bundle, Part
from podium_train.environments.recorded.settings import Asks

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

    Args:
        plan: a plan whose workers see the bundle.
        bundle: the bundle.
        models: number of workers that answer questions; they come first in the pool.
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
    """Return the plan that asks each part of a query of some workers.

    Args:
        query: the bundle; `None` for a single question.
        chosen: the workers of each part, by their places in the pool. If a part has several workers, a vote
            chooses among their answers.
        vote: the place of the worker that votes.
        join: the place of the worker that joins the parts of a bundle.
        asks: how a part is asked.
    """
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
