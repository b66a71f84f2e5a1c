"""Texts for the warm start: random plans, and those of them that turned out right.

Each step has a line of reasoning, which ends with the pick of a worker beside the evidence for it. The rows
that are read, operations and access lists of random plans do not depend on the question; most picks are
numbers of the row that was read. Nothing here knows which plan a question needs: right plans are found by
carrying out random ones for questions of the training split.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from random import Random

from podium.types import Plan, Step
from podium_train.environments import Episode
from podium_train.environments.specialists import SKILLS, outcome_of
from podium_train.tiny.prompt import evidence

INFORMED = 0.9
"""Share of the picks that are drawn from the numbers of the row; the others are drawn from all workers."""
TRIES = 96
"""Number of random plans that are carried out to find the right ones for a question."""
SHARPNESS = 4
"""How much more often texts are drawn from strategies that were right more often."""
OPERATIONS = (
    ("solve",),
    ("solve", "verify"),
    ("solve", "compute"),
    ("retrieve", "compute"),
    ("retrieve", "verify"),
)
"""The operations of a plan; each sequence is as probable as the others."""
_SKILL = {"verify": "verify", "retrieve": "lookup", "compute": "arith"}
"""The skill that the line of reasoning looks for; `solve` looks for a random one."""


@dataclass(frozen=True)
class Draft:
    """A random plan with its reasoning."""

    episode: Episode
    skills: tuple[str, ...]
    """The skill that each step looks for."""
    plan: Plan

    @property
    def strategy(self) -> tuple[object, ...]:
        """What remains of the draft without its workers."""
        return (self.skills, *((step.subtask, step.access) for step in self.plan.calls))

    @property
    def text(self) -> str:
        """The lines of reasoning and the plan."""
        lines = [
            f"{step.subtask} {skill}:{evidence(self.episode, skill)} so {step.worker}"
            for step, skill in zip(self.plan.calls, self.skills, strict=True)
        ]
        return "\n".join((*lines, plan_lists(self.plan)))

    @cached_property
    def is_right(self) -> bool:
        """Whether the answer of the plan is right."""
        return outcome_of(self.episode, self.plan).score == 1


def warm_text(episode: Episode, random: Random) -> str:
    """Return a text with reasoning and a random plan for an episode."""
    return _drawn(episode, random).text


def right_texts(episode: Episode, random: Random, count: int) -> list[str]:
    """Return texts of right ones of `TRIES` random plans; of any plans if none is right.

    The plans are grouped by their strategy, and most texts are from the strategies whose plans were right
    most often.
    """
    drafts = [_drawn(episode, random) for _ in range(TRIES)]
    groups = defaultdict[tuple[object, ...], list[Draft]](list)
    for draft in drafts:
        groups[draft.strategy].append(draft)
    right = [draft for draft in drafts if draft.is_right] or drafts
    weights = []
    for draft in right:
        group = groups[draft.strategy]
        share = sum(each.is_right for each in group) / (len(group) + 1)
        steps = len(draft.plan.calls)
        weights.append(share**SHARPNESS / steps**2 / max(1, sum(each.is_right for each in group)))
    if not any(weights):
        weights = [1.0] * len(right)
    return [draft.text for draft in random.choices(right, weights, k=count)]


def _drawn(episode: Episode, random: Random) -> Draft:
    skills, steps = [], []
    for number, operation in enumerate(random.choice(OPERATIONS)):
        skill = _SKILL.get(operation) or random.choice(SKILLS)
        skills.append(skill)
        access = tuple(index for index in range(number) if random.random() < 0.5)
        steps.append(Step(_pick(episode, skill, random), operation, access))
    return Draft(episode, tuple(skills), Plan(tuple(steps)))


def plan_lists(plan: Plan) -> str:
    """Return a plan as the three lists that the tiny model writes."""
    workers = ", ".join(str(step.worker) for step in plan.calls)
    subtasks = ", ".join(f'"{step.subtask}"' for step in plan.calls)
    access = ", ".join(str(list(step.access)) for step in plan.calls)
    return f"model_id = [{workers}]\nsubtasks = [{subtasks}]\naccess_list = [{access}]"


def _pick(episode: Episode, skill: str, random: Random) -> int:
    row = evidence(episode, skill).replace("~", " ").split()
    if row and random.random() < INFORMED:
        return int(random.choice(row))
    return random.randrange(len(episode.workers))
