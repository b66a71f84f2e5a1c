"""Tables of the page of results, in Markdown. Nothing is rounded in an arm's favour."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import Measured
from podium_evals.results import rounding
from podium_evals.statistics import Interval

Cell = Callable[[ArmResult], str]

MEANING = {
    "best single": "the worker with the best mean score on the training questions answers each question",
    "random worker": "for each question, a worker is drawn at random and answers",
    "random plan": "one to five workers are drawn at random, and their most frequent answer wins",
    "kind rule": "the worker that is best at the question's kind answers; the kind is given",
    "learned router": "a small model reads the question and chooses the worker (TF-IDF, ridge)",
    "calibrated": "the worker with the best rate on a few graded questions of the kind answers; the "
    "kind is given",
    "calibrated, kind found": "like `calibrated`, but the kind is found from the text of the question",
    "calibrated router": "the learned router, whose predictions are combined with these rates",
    "vote of the best 3": "the three best workers answer, and the most frequent answer wins",
    "vote of the best 5": "the five best workers answer, and the most frequent answer wins",
    "best single 3 times": "the best single answers three times, and its most frequent answer wins",
    "best single, budget of vote of the best 3": "the best single answers several times, "
    "at most at the cost and calls of that vote",
    "mixture of agents": "three workers answer; then the best single reads their answers and writes one",
    "routing oracle": "bound: the best worker for each question answers; its other samples show that "
    "it is best",
    "any correct, not achievable": "bound: the best of all answers",
}
"""How each arm answers."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table.

    Args:
        head: the names of the columns.
        rows: the rows.
        texts: the number of text columns, which come first and are aligned to the left; other columns are
            aligned to the right.
    """
    lines = [head, ["---"] * texts + ["---:"] * (len(head) - texts), *rows]
    return "\n".join("| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines)


def grid(measured: Sequence[Measured], cell: Cell) -> str:
    """Return a table with a row for each arm and a column for each part.

    Args:
        measured: the parts.
        cell: returns the text for an arm in a part.
    """
    names = list(dict.fromkeys(arm.name for each in measured for arm in each.report.arms))
    rows = [[_marked(measured, name), *(_cell(each, name, cell) for each in measured)] for name in names]
    return table(["", *(each.part.title for each in measured)], rows)


def _cell(measured: Measured, name: str, cell: Cell) -> str:
    arm = measured.arm(name)
    return "" if arm is None else cell(arm)


def _marked(measured: Sequence[Measured], name: str) -> str:
    arms = (each.arm(name) for each in measured)
    return name if all(arm is None or arm.achievable for arm in arms) else f"{name} *"


def score_and_gain(arm: ArmResult) -> str:
    """Return the score, and the joint interval of the gain, which holds for all compared arms together."""
    if arm.score is None or arm.recorded < arm.questions:
        return "not recorded"
    told = rounding.score(arm.score.mean)
    return told if arm.difference is None else f"{told} ({between(arm.difference.together)})"


def between(interval: Interval) -> str:
    """Return an interval of a difference, with signs, rounded outwards."""
    low, high = rounding.interval(interval).split()
    return f"{low} to {high}".replace("-", "−")


def score_between(interval: Interval) -> str:
    """Return an interval of a score, rounded outwards."""
    low, high = rounding.interval(interval).replace("+", "").split()
    return f"{low} to {high}"


def cost(arm: ArmResult) -> str:
    """Return the USD of a thousand questions."""
    return "" if arm.recorded < arm.questions else rounding.per_thousand(arm.cost)


def details(measured: Measured) -> str:
    """Return all figures of a part."""
    head = ("arm", "score", "gain", "alone", "together", "calls", "tokens", "USD for 1,000")
    return table(head, _detailed(measured))


def _detailed(measured: Measured) -> Iterator[Sequence[str]]:
    for arm in (*measured.report.arms, *measured.workers):
        if arm.score is None or arm.recorded < arm.questions:
            yield [arm.name, "not recorded", *[""] * 6]
            continue
        name = arm.name if arm.achievable else f"{arm.name} *"
        gains = ["", "", ""]
        if arm.difference is not None:
            alone, together = arm.difference.alone, arm.difference.together
            is_worker = arm in measured.workers
            gain = rounding.gain(alone.mean).replace("-", "−")
            gains = [gain, between(alone), "" if is_worker else between(together)]
        yield [
            name,
            rounding.score(arm.score.mean),
            *gains,
            rounding.count(arm.calls),
            rounding.whole(arm.tokens),
            rounding.per_thousand(arm.cost),
        ]
