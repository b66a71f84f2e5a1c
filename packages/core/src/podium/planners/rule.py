"""A planner without a model: it splits the question and matches the parts to the workers' cards."""

from collections.abc import AsyncGenerator

from podium.errors import PlannerError
from podium.plan_text.writer import write_plan
from podium.planners.card_matcher import best_fit, gatherer
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.planners.planner_prompt import with_texts
from podium.planners.question_splitter import Part, split
from podium.types.plan import Plan, Step
from podium.types.references import literal

MAX_SUBTASK_CHARS = 8 * 1024
"""Longest subtask it writes, in characters; what is longer is cut, with a note."""

_CUT = " … (cut short here)"
_CUT_SHOWN = " … (cut short here: the rest is in the question)"
_GATHER = "Gather what the steps before returned into one answer to the question, and keep every source."


class RulePlanner(Planner):
    """Plans by rules: one step for each part of the question, then one that gathers.

    A question splits at list items, sentences, and an "and" before a question or an order.
    Each part goes to the worker whose card fits it best, arithmetic to one that calculates,
    and sees no other step; a part that goes on from the one before ("multiply that by 3")
    sees that one. A question of one part is one step. In languages other than English
    sentences are split, and little else.

    It plans the same for a repair or a further round, so a caller that asks again must
    look out for a plan it has had.
    """

    name = "rule"

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan, row by row.

        Raises:
            PlannerError: no worker of the pool can do what is asked, as where there is only a calculator
                and no arithmetic.
        """
        plan, why = _plan(request)
        text = write_plan(plan, "rows")
        if request.stream:
            for row in text.splitlines(keepends=True):
                yield row
        yield PlanText(text=text, why=why, cost=0.0)


def _plan(request: PlanRequest) -> tuple[Plan, str]:
    """Return the plan for a request, and in words why it is so.

    Raises:
        PlannerError: no worker can do a part of it.
    """
    question = request.query[-1].text.strip() or "Answer the question, going by what is attached to it."
    parts, last = split(question), gatherer(request.cards)
    most = max(request.asked_steps - 1, 1)  # one step is left for gathering
    if most == 1 or last is None:
        parts = [Part(question)]
    elif len(parts) > most:
        parts[most - 1 :] = [Part("\n".join(part.text for part in parts[most - 1 :]), parts[most - 1].back)]
    steps, reasons = [], []
    for number, part in enumerate(parts):
        fit = best_fit(part.text, request.cards, back=part.back)
        if fit is None:
            workers = ", ".join(card.name for card in request.cards)
            raise PlannerError(f"no worker can do {part.text[:200]!r}: there are {workers}")
        subtask = literal(_shortened(part.text, request)) + with_texts(request)
        steps.append(Step(fit.worker, subtask, (number - 1,) if part.back else ()))
        reasons.append(f"{request.cards[fit.worker].name} {_because(fit.why, 'fits better')}")
    if len(parts) == 1 or last is None:
        return Plan(tuple(steps)), f"the question is of one part: {reasons[0]}"
    steps.append(Step(last.worker, _GATHER, tuple(range(len(parts)))))
    reasons.append(f"and {request.cards[last.worker].name} {_because(last.why, 'speaks of gathering')}")
    return Plan(tuple(steps)), f"matched {len(parts)} parts: {', '.join(reasons)}"


def _shortened(text: str, request: PlanRequest) -> str:
    note = _CUT_SHOWN if request.shows_question else _CUT
    return text if len(text) <= MAX_SUBTASK_CHARS else text[: MAX_SUBTASK_CHARS - len(note)] + note


def _because(why: str, otherwise: str) -> str:
    return f"for {why}" if why else f"because no card {otherwise}"
