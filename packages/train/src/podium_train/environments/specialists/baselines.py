"""Plans of policies that need no training: random, one worker, one step, keyword rules, oracle."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from random import Random

from podium.types import Plan, Step
from podium_train.environments.episode import Episode
from podium_train.environments.specialists.calls import FROM_MEMORY, UNTESTED
from podium_train.environments.specialists.questions import KINDS
from podium_train.environments.specialists.workers import Skills, probability, skills_of

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "multi": ("together", "total", "more", "cheaper"),
    "code": ("function", "program", "script", "code", "implement"),
    "sort": ("sort", "order", "arrange"),
    "lookup": ("price", "shelf", "list", "where"),
    "string": ("letter", "backwards", "capitals", "reverse"),
    "arith": ("plus", "minus", "times", "sum", "difference", "product", "add", "subtract", "multiply"),
}
"""Words that tell the kind of a question; the first kind with one of its words counts."""


def random_plan(episode: Episode) -> Plan:
    """Return a plan with random operations, workers and access lists, of one or two steps."""
    random = Random(episode.key)
    steps = []
    for number in range(random.choice((1, 2))):
        subtask = random.choice(
            ("Solve", "Verify", "Retrieve", "Compute") if number else ("Solve", "Retrieve")
        )
        access = tuple(index for index in range(number) if random.random() < 0.5)
        steps.append(Step(random.randrange(len(episode.workers)), subtask, access))
    return Plan(tuple(steps))


def best_single(episode: Episode) -> Plan:
    """Return one step for the worker that is best on all kinds together."""
    pool = _skills(episode)
    scores = [sum(_alone(kind, skills) for kind in KINDS) for skills in pool]
    return Plan((Step(scores.index(max(scores)), "Solve"),))


def best_step(episode: Episode) -> Plan:
    """Return the one step that is best for the kind of the question."""
    scores = [_alone(episode.kind, skills) for skills in _skills(episode)]
    return Plan((Step(scores.index(max(scores)), "Solve"),))


def keyword_rule(episode: Episode) -> Plan:
    """Return the plan for the kind that keywords tell, with the first workers that list the skills.

    If no worker lists the skill, the first worker of the pool answers.
    """
    kind = _kind_told(episode)
    pool = _skills(episode)

    def first(skill: str) -> int:
        return next((number for number, skills in enumerate(pool) if skill in skills), 0)

    if kind == "multi":
        return _two("Retrieve", first("lookup"), "Compute", first("arith"))
    if kind == "code":
        return _two("Solve", first("code"), "Verify", first("verify"))
    return Plan((Step(first(kind) if kind else 0, "Solve"),))


def fair_keyword_rule(episode: Episode) -> Plan:
    """Return the best plan by the cards for the kind that keywords tell, also if no card lists the skill."""
    return oracle(replace(episode, kind=_kind_told(episode) or next(iter(KEYWORDS))))


def _kind_told(episode: Episode) -> str | None:
    """Return the kind that the words of a question tell; `None` if they tell none."""
    text = episode.question.casefold()
    return next((kind for kind, words in KEYWORDS.items() if any(word in text for word in words)), None)


def oracle(episode: Episode) -> Plan:
    """Return the best of all plans with one step, a solver and a verifier, or a retriever and a calculator.

    It knows the kind of the question and how often each worker succeeds, but not which calls succeed.
    """
    numbers = range(len(episode.workers))
    plans = [Plan((Step(number, "Solve"),)) for number in numbers]
    for first, second in product(numbers, numbers):
        plans += [_two("Solve", first, "Verify", second), _two("Retrieve", first, "Compute", second)]
    return max(plans, key=lambda plan: expected_score(episode, plan))


def expected_score(episode: Episode, plan: Plan) -> float:
    """Return how often a plan of the oracle's three forms is right, over all questions of the kind."""
    pool = _skills(episode)
    first = pool[plan.calls[0].worker]
    if len(plan.calls) == 1:
        return _alone(episode.kind, first)
    second = pool[plan.calls[1].worker]
    if plan.calls[0].subtask == "Retrieve":
        both = probability(first, "lookup") * probability(second, "arith")
        return both if episode.kind == "multi" else 0.0
    solved = _alone(episode.kind, first) / ((1 - UNTESTED) if episode.kind == "code" else 1)
    return solved * probability(second, "verify")


def _alone(kind: str, skills: Skills) -> float:
    if kind == "multi":
        return FROM_MEMORY * probability(skills, "lookup") * probability(skills, "arith")
    return probability(skills, kind) * ((1 - UNTESTED) if kind == "code" else 1)


def _two(first: str, worker: int, second: str, other: int) -> Plan:
    return Plan((Step(worker, first), Step(other, second, (0,))))


def _skills(episode: Episode) -> list[Skills]:
    return [skills_of(name) for name in episode.workers]


BASELINES: Mapping[str, Callable[[Episode], Plan]] = {
    "random plan": random_plan,
    "best single": best_single,
    "best step": best_step,
    "keyword rule": keyword_rule,
    "fair keyword rule": fair_keyword_rule,
    "oracle": oracle,
}
"""The baselines by name, from weak to strong."""
