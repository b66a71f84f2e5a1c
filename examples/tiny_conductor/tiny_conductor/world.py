"""A synthetic world in which a conductor must plan: the order of steps, cheap workers, workers that fail.

A question needs one act, code that is checked, or two acts in an order that the wording tells: "sort them,
then add 7" and "add 7 after you sort them" have the same words. No wording has the name of a skill. Workers
have one to three skills, or are generalists; some are dear, some fail often. Some questions allow cheap
workers only.

A call succeeds by a hash of the question, the worker and the act, so that everything can be repeated.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from random import Random
from typing import Literal

from podium.errors import ConfigError
from podium.types import Plan, Step
from podium.workers import Card, Price
from podium_train import EarlierRound, Environment, Episode, PlanOutcome
from podium_train.environments import Split

ACTS = ("arith", "string", "lookup", "sort")
SKILLS = (*ACTS, "code", "verify")
"""What a specialist can be good at, and what a step can ask for."""
GENERAL = "any"
IN_SKILL, GENERALLY, OUTSIDE = 0.95, 0.60, 0.15
"""How often a call succeeds: with the skill, of a generalist, and without the skill."""
FAILING = 0.3
"""What of this is left for a worker that fails often."""
UNTESTED = 0.6
"""The share of programs with an error, which a check mends."""
CHAINS, PROGRAMS = 0.55, 0.15
"""The share of questions that need two acts, and code."""
CHEAP_ONLY = 0.25
"""The share of questions that allow cheap workers only."""
SIZES = (4, 5, 7)
"""Numbers of workers in training; all other splits have `SIZE`."""
SIZE = 5

Wording = Literal["training", "held_out"]
PHRASES: Mapping[Wording, Mapping[str, Sequence[str]]] = {
    "training": {
        "arith": ("add 7 to it", "subtract 3", "double the number", "multiply it by 4", "take half of it"),
        "string": (
            "spell it backwards",
            "write it in capitals",
            "take the last letter",
            "reverse the letters",
        ),
        "lookup": (
            "find its price",
            "see on which shelf it is",
            "read its price off the list",
            "get its weight",
        ),
        "sort": (
            "put them in order",
            "arrange them from A to Z",
            "rank them by size",
            "order them from Z to A",
        ),
        "code": ("write a function for the mean", "write a script that prints primes", "program a queue"),
    },
    "held_out": {
        "arith": ("add 12 to the number", "multiply by 9", "subtract half of it"),
        "string": ("reverse it letter by letter", "spell it in capitals", "write the last letter"),
        "lookup": ("read off its weight", "find on which shelf it is", "see its price on the list"),
        "sort": ("rank them from Z to A", "put them in order by size", "arrange them in order"),
        "code": ("write a script for a queue", "program a function that prints the mean"),
    },
}
KEYWORDS: Mapping[str, Sequence[str]] = {
    "arith": ("add", "subtract", "double", "multiply", "half"),
    "string": ("backwards", "capitals", "letter"),
    "lookup": ("price", "shelf", "weight"),
    "sort": ("order", "arrange", "rank"),
    "code": ("function", "script", "program"),
}
"""The rows of the rule. They find each act of each wording, and not the order of two acts."""
FIRST_THEN = ("{a}, then {b}.", "{a} and after that {b}.", "After you {a}, {b}.", "First {a}, at last {b}.")
LATER_FIRST = ("{b} after you {a}.", "{b}, but first {a}.", "Before you {b}, {a}.", "{b} once you {a}.")
"""How two acts are said: `a` is the first to do. Half of the questions name it second."""
CHEAP = ("Keep it cheap.", "Use cheap workers.", "It must be cheap.")


@dataclass(frozen=True, slots=True)
class Task:
    """A question, and what is needed to answer it."""

    question: str
    needs: tuple[str, ...]
    """The acts, in order."""
    cheap: bool
    """Whether only cheap workers may be asked."""
    draw: int
    """A random number, so that the same call for another drawing of the question may end otherwise."""

    @property
    def kind(self) -> str:
        """The kind of the question, by which results are clustered."""
        return " then ".join(self.needs)


@dataclass(frozen=True, slots=True)
class Member:
    """A worker."""

    skills: tuple[str, ...]
    dear: bool = False
    fails: bool = False

    @property
    def name(self) -> str:
        """The environment's name of it, which tells all: `arith+sort dear fails`."""
        return " ".join(["+".join(self.skills), *["dear"] * self.dear, *["fails"] * self.fails])

    @classmethod
    def named(cls, name: str) -> "Member":
        """Return the worker of a name; an empty name is of a place without a worker."""
        skills, *others = name.split() or [""]
        return cls(tuple(skills.split("+")), "dear" in others, "fails" in others)

    def chance(self, act: str) -> float:
        """Return how often a call for an act succeeds."""
        found = IN_SKILL if act in self.skills else GENERALLY if GENERAL in self.skills else OUTSIDE
        return found * (FAILING if self.fails else 1)


Call = tuple[str, int, bool]
"""A step: its act, its worker, and whether it sees the step before it."""


def outputs_of(task: Task, pool: Sequence[Member], calls: Sequence[Call], before: int = 0) -> list[int]:
    """Return for each call how many of the needed acts are done after it; -1 after a failure.

    Args:
        task: the question.
        pool: the workers.
        calls: the steps.
        before: what the first call sees, if it sees something.
    """
    done: list[int] = []
    for act, worker, sees in calls:
        seen = (done[-1] if done else before) if sees else 0
        member = pool[worker]
        fits = 0 <= seen < len(task.needs) and task.needs[seen] == act and not (task.cheap and member.dear)
        draft = act == "code" and _hash(task, "draft", "") >= UNTESTED  # needs no check
        step = (2 if draft else 1) if fits and _hash(task, act, member.name) < member.chance(act) else -1
        done.append(seen + step if step > 0 else -1)
        if act == "verify" and seen == len(task.needs):
            done[-1] = seen if _hash(task, act, member.name) < member.chance(act) else -1
    return done


def _hash(task: Task, act: str, worker: str) -> float:
    text = f"{task.draw} {task.question} {act} {worker}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


class Workshop(Environment):
    """The world as an environment, which a recipe names as `tiny_conductor.world:Workshop`.

    Splits: `train`; `validation` and `mixes` have combinations of workers that no other split has, and
    `questions` has wordings that were never trained.

    Args:
        sizes: possible numbers of workers in a pool; by default `SIZES` for `train`, and `SIZE` for others.

    Raises:
        ConfigError: a size is not from 3 to 9.
    """

    name = "workshop"
    splits = ("train", "validation", "mixes", "questions")

    def __init__(self, *, sizes: Sequence[int] | None = None) -> None:
        if sizes is not None and (not sizes or not 3 <= min(sizes) <= max(sizes) <= 9):
            raise ConfigError(f"sizes is {sizes!r}: write numbers of workers from 3 to 9")
        self._sizes = sizes

    @cached_property
    def version(self) -> str:  # type: ignore[override]  # computed once, read like an attribute
        """A hash of the constants of the world."""
        constants = [IN_SKILL, GENERALLY, OUTSIDE, FAILING, UNTESTED, CHAINS, PROGRAMS, CHEAP_ONLY, SIZES]
        texts = [PHRASES, FIRST_THEN, LATER_FIRST, CHEAP]
        return hashlib.sha256(json.dumps([constants, texts]).encode()).hexdigest()[:12]

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return `count` episodes of a split; the first ones are the same for each `count`."""
        if split not in self.splits:
            raise ConfigError(f"there is no split {split!r}: {self.name} has {', '.join(self.splits)}")
        random = Random(f"{split}/{seed}")
        return [self._episode(split, random) for _ in range(count)]

    def _episode(self, split: Split, random: Random) -> Episode:
        sizes = self._sizes or (SIZES if split == "train" else (SIZE,))
        pool = _pool(split, random.choice(sizes), random)
        task = _task("held_out" if split == "questions" else "training", random)
        return Episode(
            question=task.question,
            cards=tuple(_card(member, number) for number, member in enumerate(pool)),
            workers=tuple(member.name for member in pool),
            kind=task.kind,
            reference=json.dumps(asdict(task)),
        )

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome:
        """Let the workers act step by step; a subtask is the name of an act."""
        return outcome_of(episode, plan, earlier)

    def message(self, episode: Episode) -> str:
        """Return what the tiny model reads: the question, and the workers by skill."""
        rows = " ".join(f"{skill}:{evidence(episode, skill)}" for skill in SKILLS)
        return f"{episode.question}\n{rows}"

    def baselines(self) -> Mapping[str, Callable[[Episode], Plan]]:
        """Return the policies that need no training, from weak to strong."""
        return BASELINES


def outcome_of(episode: Episode, plan: Plan, earlier: EarlierRound | None = None) -> PlanOutcome:
    """Return the outcome of a plan. A step uses the answer of the last step that it sees."""
    task, pool = read(episode)
    before = 0
    if earlier is not None and earlier.outputs[-1] is not None:
        before = int(earlier.outputs[-1].rpartition(" ")[2])
    calls: list[Call] = []
    for at, step in enumerate(plan.calls):
        sees = (step.access[-1] == at - 1) if step.access else step.previous and at == 0
        calls.append((step.subtask.strip().lower(), step.worker, sees))
    done = outputs_of(task, pool, calls, before)
    outputs = tuple(f"acts done: {each}" for each in done)
    cost = float(sum(3 if pool[step.worker].dear else 1 for step in plan.calls))
    score = float(done[-1] == len(task.needs))
    return PlanOutcome(score=score, cost=cost, calls=len(done), outputs=outputs)


def read(episode: Episode) -> tuple[Task, list[Member]]:
    """Return the task and the workers of an episode."""
    facts = json.loads(episode.reference)
    task = Task(facts["question"], tuple(facts["needs"]), facts["cheap"], facts["draw"])
    return task, [Member.named(name) for name in episode.workers]


def evidence(episode: Episode, skill: str) -> str:
    """Return the row of a skill: cheap workers, `/` dear ones, `~` generalists, `!` those that fail often."""
    groups: dict[str, list[int]] = {"": [], "/": [], "~": [], "!": []}
    for number, name in enumerate(episode.workers):
        member = Member.named(name)
        if skill in member.skills or GENERAL in member.skills:
            mark = "!" if member.fails else "~" if GENERAL in member.skills else "/" if member.dear else ""
            groups[mark].append(number)
    return "".join(
        (f" {mark}" if mark else "") + "".join(f" {number}" for number in numbers)
        for mark, numbers in groups.items()
        if numbers
    )


def _task(wording: Wording, random: Random) -> Task:
    phrases, place = PHRASES[wording], random.random()
    needs: tuple[str, ...]
    if place < PROGRAMS:
        needs, text = ("code", "verify"), f"{random.choice(phrases['code'])}."
    elif place < PROGRAMS + CHAINS:
        needs = tuple(random.sample(ACTS, 2))
        a, b = (random.choice(phrases[act]) for act in needs)
        text = random.choice(random.choice((FIRST_THEN, LATER_FIRST))).format(a=a, b=b)
    else:
        needs = (random.choice(ACTS),)
        text = f"{random.choice(phrases[needs[0]])}."
    cheap = random.random() < CHEAP_ONLY
    question = text[0].upper() + text[1:] + (f" {random.choice(CHEAP)}" if cheap else "")
    return Task(question, needs, cheap, random.getrandbits(32))


def _pool(split: Split, size: int, random: Random) -> list[Member]:
    """Draw workers with all acts among the skills of those that do not fail."""
    everyone = [skills for count in (1, 2, 3) for skills in combinations(SKILLS, count)]
    tenths = {"mixes": range(2), "validation": range(2, 4)}.get(split, range(4, 10))
    while True:
        general = [Member((GENERAL,), dear=True)] if random.random() < 0.6 else []
        failing = [Member(random.choice(everyone), fails=True)] if random.random() < 0.5 else []
        good = [
            Member(random.choice(everyone), dear=random.random() < 0.4)
            for _ in range(size - len(general) - len(failing))
        ]
        pool = [*good, *general, *failing]
        mix = " ".join(sorted(member.name for member in pool))
        tenth = hashlib.sha256(mix.encode()).digest()[0] * 10 // 256
        if len({skill for member in good for skill in member.skills}) >= 4 and tenth in tenths:
            random.shuffle(pool)
            return pool


def _card(member: Member, number: int) -> Card:
    good = "anything, moderately well" if GENERAL in member.skills else ", ".join(member.skills)
    told = f"Good at {good}." + (" It fails often." if member.fails else "")
    price = 3.0 if member.dear else 1.0
    return Card(name=f"worker-{number}", description=told, price=Price(input=price, output=price))


def plan_of(calls: Sequence[Call]) -> Plan:
    """Return steps as a plan."""
    return Plan(
        tuple(Step(worker, act, (at - 1,) if sees else ()) for at, (act, worker, sees) in enumerate(calls))
    )


def _best(needs: Sequence[str], pool: Sequence[Member], *, cheap: bool) -> Plan:
    """Return the plan by the cards for some acts: of each, the allowed worker that succeeds most often."""
    numbers = [number for number, member in enumerate(pool) if not (cheap and member.dear)]
    numbers = numbers or list(range(len(pool)))
    return plan_of(
        [
            (act, max(numbers, key=lambda number: pool[number].chance(act)), at > 0)
            for at, act in enumerate(needs)
        ]
    )


def random_plan(episode: Episode) -> Plan:
    """Return a plan of one or two random steps."""
    random = Random(episode.key)
    workers = range(len(episode.workers))
    return plan_of(
        [
            (random.choice(SKILLS), random.choice(workers), at > 0 and random.random() < 0.5)
            for at in range(random.choice((1, 2)))
        ]
    )


def fair_rule(episode: Episode) -> Plan:
    """Return the best plan by the cards for the acts that keywords tell, in the order of the text."""
    _, pool = read(episode)
    text = episode.question.casefold()
    places = {act: [text.find(word) for word in words if word in text] for act, words in KEYWORDS.items()}
    acts = sorted((act for act in places if places[act]), key=lambda act: min(places[act]))
    needs = ("code", "verify") if "code" in acts else acts[:2] or ["arith"]
    return _best(needs, pool, cheap="cheap" in text)


def oracle(episode: Episode) -> Plan:
    """Return the best plan by the cards for the acts that the question needs."""
    task, pool = read(episode)
    return _best(task.needs, pool, cheap=task.cheap)


BASELINES: Mapping[str, Callable[[Episode], Plan]] = {
    "random plan": random_plan,
    "fair rule": fair_rule,
    "oracle": oracle,
}
