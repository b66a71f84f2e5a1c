"""The workers of the world: their skills, their prices, and whether a call succeeds."""

import hashlib
from itertools import combinations
from typing import Literal, get_args

from podium.workers import Card, Price

Skill = Literal["arith", "string", "lookup", "sort", "code", "verify"]
"""What a specialist can be good at."""
Skills = frozenset[str]
"""The skills of a worker; `GENERAL` for a generalist."""

SKILLS: tuple[Skill, ...] = get_args(Skill)
GENERAL: Skills = frozenset({"any"})
UNSEEN_PAIRS: tuple[Skills, ...] = (
    frozenset({"string", "verify"}),
    frozenset({"arith", "code"}),
    frozenset({"lookup", "sort"}),
)
"""Pairs of skills that no worker of a training pool has together."""
IN_SKILL, GENERALLY, OUTSIDE = 0.95, 0.60, 0.15
"""How often a call succeeds: with the skill, as a generalist, and without the skill."""


def universe() -> tuple[Skills, ...]:
    """Return the skills of all specialists: each has one to three skills."""
    return tuple(frozenset(skills) for size in (1, 2, 3) for skills in combinations(SKILLS, size))


def is_unseen(skills: Skills) -> bool:
    """Return whether a specialist has a pair of skills that training pools do not have."""
    return any(pair <= skills for pair in UNSEEN_PAIRS)


def worker_name(skills: Skills) -> str:
    """Return the environment's name of a worker, which tells its skills: `arith+sort`."""
    return "+".join(sorted(skills, key=(*SKILLS, "any").index))


def skills_of(name: str) -> Skills:
    """Return the skills of the worker with this name; a worker without skills has an empty name."""
    return frozenset(name.split("+")) if name else frozenset()


def cost_of(skills: Skills) -> int:
    """Return the price of a call: 1 to 3 for a specialist, 4 or 5 for a generalist."""
    lowest, choices = (4, 2) if skills == GENERAL else (1, 3)
    return lowest + int(chance("price", worker_name(skills)) * choices)


def card_of(skills: Skills, number: int) -> Card:
    """Return the card that the conductor reads. Its name tells the worker's number in the pool only."""
    told = (
        "Skills: any, less reliable." if skills == GENERAL else f"Skills: {', '.join(told_skills(skills))}."
    )
    cost = cost_of(skills)
    return Card(name=f"worker-{number}", description=told, price=Price(input=float(cost), output=float(cost)))


def told_skills(skills: Skills) -> list[str]:
    """Return a specialist's skills in the order of `SKILLS`."""
    return [skill for skill in SKILLS if skill in skills]


def probability(skills: Skills, needed: str) -> float:
    """Return how often a worker succeeds with a call that needs a skill."""
    if needed in skills:
        return IN_SKILL
    return GENERALLY if skills == GENERAL else OUTSIDE


def succeeds(task: str, skills: Skills, operation: str, needed: str) -> bool:
    """Return whether a call succeeds. The same call has the same result each time."""
    return chance(task, worker_name(skills), operation) < probability(skills, needed)


def chance(*parts: str) -> float:
    """Return a number from 0 to 1 that is a hash of the texts."""
    digest = hashlib.sha256("\x00".join(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
