"""Draws questions of six kinds, with their right answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Literal, get_args

from podium_train.environments.specialists import templates
from podium_train.environments.specialists.templates import Wording

Kind = Literal["arith", "string", "lookup", "sort", "code", "multi"]
"""The kinds: four need one skill; `code` needs a solver and a verifier; `multi` needs a retriever and then a
calculator."""
KINDS: tuple[Kind, ...] = get_args(Kind)

ITEMS = (
    "apples",
    "bread",
    "cheese",
    "dates",
    "eggs",
    "figs",
    "grapes",
    "honey",
    "juice",
    "kale",
    "lemons",
    "milk",
)
PRICES: Mapping[str, int] = {item: 3 + 7 * number % 29 for number, item in enumerate(ITEMS)}
SHELVES: Mapping[str, int] = {item: 1 + 5 * number % 12 for number, item in enumerate(ITEMS)}
WORDS = (
    "lamp",
    "stone",
    "river",
    "cloud",
    "tiger",
    "piano",
    "chair",
    "garden",
    "window",
    "button",
    "silver",
    "marble",
)
PROGRAMS = ("primes", "squares", "the mean", "the median", "a maze", "a queue", "a calendar", "prime factors")


@dataclass(frozen=True, slots=True)
class Task:
    """A question and what is needed to answer it."""

    kind: Kind
    question: str
    answer: str
    """The right answer."""
    found: str = ""
    """What a retriever finds for a question of the kind `multi`."""
    draw: int = 0
    """A random number, so that the same call for another drawing of the same question may fail."""

    @property
    def key(self) -> str:
        """The text by whose hash a call for this task succeeds or fails."""
        return f"{self.draw} {self.question}"

    def reference(self) -> str:
        """Return the task as the reference of an episode."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_task(reference: str) -> Task:
    """Return the task of an episode's reference."""
    return Task(**json.loads(reference))


def draw_task(kind: Kind, wording: Wording, random: Random) -> Task:
    """Draw a question of a kind."""
    operation, text = random.choice(_TEMPLATES[kind][wording])
    return replace(_DRAWERS[kind](operation, text, random), draw=random.getrandbits(32))


def _arith(operation: str, text: str, random: Random) -> Task:
    a, b = random.randint(20, 99), random.randint(2, 19)
    return Task("arith", text.format(a=a, b=b), str(calculated(operation, a, b)))


def calculated(operation: str, a: int, b: int) -> int:
    """Return the result of `plus`, `minus` or `times`."""
    return {"plus": a + b, "minus": a - b, "times": a * b}[operation]


def _string(operation: str, text: str, random: Random) -> Task:
    word = random.choice(WORDS)
    answer = {"reverse": word[::-1], "upper": word.upper(), "first": word[0], "last": word[-1]}[operation]
    return Task("string", text.format(w=word), answer)


def _lookup(operation: str, text: str, random: Random) -> Task:
    item = random.choice(ITEMS)
    table = PRICES if operation == "price" else SHELVES
    return Task("lookup", text.format(a=item), str(table[item]))


def _sort(operation: str, text: str, random: Random) -> Task:
    words = random.sample(WORDS, 3)
    answer = ", ".join(sorted(words, reverse=operation == "down"))
    return Task("sort", text.format(l=", ".join(words)), answer)


def _code(operation: str, text: str, random: Random) -> Task:
    program = random.choice(PROGRAMS)
    return Task("code", text.format(w=program), f"tested {operation} for {program}")


def _multi(operation: str, text: str, random: Random) -> Task:
    b, a = sorted(random.sample(ITEMS, 2), key=PRICES.__getitem__)
    answer = str(calculated(operation, PRICES[a], PRICES[b]))
    return Task("multi", text.format(a=a, b=b), answer, f"{a} {PRICES[a]}, {b} {PRICES[b]}")


_TEMPLATES: Mapping[Kind, Mapping[Wording, Sequence[templates.Template]]] = {
    "arith": templates.ARITH,
    "string": templates.STRING,
    "lookup": templates.LOOKUP,
    "sort": templates.SORT,
    "code": templates.CODE,
    "multi": templates.MULTI,
}
_DRAWERS: Mapping[Kind, Callable[[str, str, Random], Task]] = {
    "arith": _arith,
    "string": _string,
    "lookup": _lookup,
    "sort": _sort,
    "code": _code,
    "multi": _multi,
}
