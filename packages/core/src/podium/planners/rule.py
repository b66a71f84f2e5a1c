"""A planner without a model: it splits the question and matches the parts to the workers' cards."""

from collections.abc import AsyncGenerator, Sequence

from podium.plan import Plan, Step
from podium.planners.fit import Fit, Matcher
from podium.planners.parts import Part, split
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.spelling import write_plan

MAX_SUBTASK_CHARS = 8 * 1024
"""Longest subtask it writes, in characters; what is longer is cut, with a note."""

_CUT = " … (cut short here)"
_CUT_SHOWN = " … (cut short here: the rest is in the question)"
_GATHER = (
    "Gather what the steps before returned into one answer to the question, part by part, "
    "and keep every source."
)


class RulePlanner(Planner):
    """Plans by rules: one step for each part of the question, then one that gathers.

    A question splits at list items, sentences and clauses that ask for something of their
    own. Each part goes to the worker whose card fits it best, arithmetic to one that
    calculates, and sees no other step; a part that goes on from the one before ("multiply
    that by 3") sees that one. A question of one part is one step. English is split best;
    in other languages whole sentences are.

    It plans the same for a repair or a further round, so a caller that asks again must
    look out for a plan it has had.
    """

    name = "rule"

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan, row by row."""
        plan, why = plan_by_rule(request)
        text = write_plan(plan, "rows")
        if request.stream:
            for row in text.splitlines(keepends=True):
                yield row
        yield PlanText(text=text, why=why)


def plan_by_rule(request: PlanRequest) -> tuple[Plan, str]:
    """Return the plan for a request, and in words why it is so."""
    question = request.query[-1].text.strip() or "Answer the question, going by what is attached to it."
    matcher = Matcher(request.cards)
    parts = _merged(split(question), request.max_steps)
    if len(parts) == 1:
        parts = [Part(question, back=False)]
    fits = [matcher.best(part.text) for part in parts]
    note = _CUT_SHOWN if request.shows_question else _CUT
    steps = [
        Step(fit.worker, _shortened(part.text, note), (index - 1,) if part.back else ())
        for index, (part, fit) in enumerate(zip(parts, fits, strict=True))
    ]
    matched = _matched(fits, [card.name for card in request.cards])
    if len(parts) == 1:
        return Plan(tuple(steps)), f"the question is of one part: {matched}"
    gatherer, said = matcher.gatherer()
    steps.append(Step(gatherer, _GATHER, tuple(range(len(steps)))))
    name = request.cards[gatherer].name
    joins = f"{name} to gather the results" + ("" if said else ", though no card speaks of gathering")
    return Plan(tuple(steps)), f"matched {len(parts)} parts: {matched}, and {joins}"


def _merged(parts: list[Part], max_steps: int) -> list[Part]:
    """Put the parts that have no step of their own to the last one; one step is left for gathering."""
    most = max(max_steps - 1, 1)
    if len(parts) <= most:
        return parts
    last = "\n".join(part.text for part in parts[most - 1 :])
    return [*parts[: most - 1], Part(last, parts[most - 1].back)]


def _shortened(text: str, note: str) -> str:
    return text if len(text) <= MAX_SUBTASK_CHARS else text[: MAX_SUBTASK_CHARS - len(note)] + note


def _matched(fits: Sequence[Fit], names: Sequence[str]) -> str:
    return ", ".join(
        f"{names[fit.worker]} for {fit.why}"
        if fit.why
        else f"{names[fit.worker]} because no card fits better"
        for fit in fits
    )
