"""Texts for the warm start: random plans, and those of them that turned out right.

Each step has a line of reasoning, which ends with the pick of a worker beside the evidence for it. Operations
and access lists of random plans do not depend on the question, and picks hardly depend on the skills. Nothing
here knows which plan a question needs: right plans are found by carrying out random ones for questions of the
training split.
"""

from random import Random

from podium.types import Plan, Step
from podium_train.environments import Episode
from podium_train.environments.specialists import SKILLS, outcome_of, skills_of
from podium_train.tiny.prompt import evidence

INFORMED = 0.3
"""Share of the picks that are drawn from the workers that list the skill."""
TRIES = 200
"""Maximum number of random plans that are carried out to find a right one."""
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


def warm_text(episode: Episode, random: Random) -> str:
    """Return a text with reasoning and a random plan for an episode."""
    return _drawn(episode, random)[0]


def right_text(episode: Episode, random: Random) -> str:
    """Return the first text with a right plan among `TRIES` random ones, or the last one."""
    for _ in range(TRIES):
        text, plan = _drawn(episode, random)
        if outcome_of(episode, plan).score == 1:
            break
    return text


def _drawn(episode: Episode, random: Random) -> tuple[str, Plan]:
    lines, steps = [], []
    for number, operation in enumerate(random.choice(OPERATIONS)):
        skill = _SKILL.get(operation) or random.choice(SKILLS)
        worker = _pick(episode, skill, random)
        lines.append(f"{operation} {skill}:{evidence(episode, skill)} so {worker}")
        access = tuple(index for index in range(number) if random.random() < 0.5)
        steps.append(Step(worker, operation, access))
    plan = Plan(tuple(steps))
    return "\n".join((*lines, plan_lists(plan))), plan


def plan_lists(plan: Plan) -> str:
    """Return a plan as the three lists that the tiny model writes."""
    workers = ", ".join(str(step.worker) for step in plan.steps)
    subtasks = ", ".join(f'"{step.subtask}"' for step in plan.steps)
    access = ", ".join(str(list(step.access)) for step in plan.steps)
    return f"model_id = [{workers}]\nsubtasks = [{subtasks}]\naccess_list = [{access}]"


def _pick(episode: Episode, skill: str, random: Random) -> int:
    listed = [number for number, name in enumerate(episode.workers) if skill in skills_of(name)]
    if listed and random.random() < INFORMED:
        return random.choice(listed)
    return random.randrange(len(episode.workers))
