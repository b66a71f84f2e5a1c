"""The planner without a model, the gate that uses its rules, and planners that use measured rates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Message, Plan, RulePlanner, ScriptedWorker, parse_plan
from podium.errors import PlannerError
from podium.planners import DirectPlanner, FixedPlanner, Planner, PlanRequest, PlanText, Turn
from podium.types import Query
from podium.types.messages import read_query
from podium.workers import Calculator, Documents, Gather, Kind, MeasuredRate, Vote

pytestmark = pytest.mark.anyio

OFFLINE = (Calculator().card, Documents(Path(__file__).parent).card, Gather().card)
_PIECES = (
    *("what is ", "who wrote ", "3 + 4", "17% of 80", " and ", ", ", "then ", "it ", "? ", ". ", "\n", "- "),
    *("1) ", "2. ", '"', "`", "(", ")", "“", "calculate ", "list ", "the docs ", "when ", "？", "\ud800"),
)
CHAT = (
    Card(name="math", description="Good at mathematics and arithmetic."),
    Card(name="chatty", description="A general assistant for anything."),
    Card(name="scribe", description="Writes, summarises and edits texts."),
    Card(name="finder", description="Retrieves passages from the legal corpus."),
)

GENERAL = Card(name="chat", description="A general assistant.")
BEHIND = FixedPlanner('{"worker": 0, "subtask": "behind", "access": []}\n')
DAY = date(2026, 11, 22)
RIDDLES = Kind("riddles", ("Solve the riddle: what has keys?", "Solve the riddle: what has hands?"))
VERBS = Kind("verbs", ("Conjugate the verb swim.", "Conjugate the verb run."))


@dataclass(frozen=True)
class Written:
    plan: Plan
    whole: PlanText

    def steps(self, cards: Sequence[Card]) -> list[tuple[str, str, tuple[int, ...]]]:
        return [(cards[step.worker].name, step.subtask, step.access) for step in self.plan.steps]


async def written(planner: Planner, request: PlanRequest) -> Written:
    *_, whole = [piece async for piece in planner.plan(request)]
    names = [card.name for card in request.cards]
    return Written(parse_plan(whole.text, workers=names, max_steps=request.max_steps), whole)


def asked(query: Query, cards: Sequence[Card] = OFFLINE, *, max_steps: int = 5) -> PlanRequest:
    return PlanRequest(query=read_query(query), cards=tuple(cards), max_steps=max_steps)


async def parts_of(question: str) -> list[tuple[str, str]]:
    """Return the workers and subtasks of the parts a question is split into."""
    steps = (await written(RulePlanner(), asked(question, max_steps=20))).steps(OFFLINE)
    return [(worker, subtask) for worker, subtask, _ in (steps[:-1] if len(steps) > 1 else steps)]


async def test_a_compound_question() -> None:
    question = "What is 17 * 23 + 4 and what do the docs say about access lists?"
    plan = await written(RulePlanner(), asked(question))
    *parts, last = plan.steps(OFFLINE)
    sums = ("calculator", "What is 17 * 23 + 4", ())
    assert parts == [sums, ("documents", "What do the docs say about access lists?", ())]
    assert (last[0], last[2]) == ("gather", (0, 1))
    told = (
        "matched 2 parts: calculator for its arithmetic, documents for its question, and gather for gathering"
    )
    assert (plan.whole.why, plan.whole.cost) == (told, 0.0)


ONE_PART = {
    "What is bread and butter pudding?": "documents",
    "When a step fails, what happens and who pays?": "documents",
    'What is "access and calculate 3 + 4" and why is it useful?': "calculator",
    "What is the sum of 3, 4 and 5?": "documents",
    "Who was Dr. A. Smith vs. Mr. Jones, e.g. in the U.S. Army?": "documents",
    "什么是预算和限制？": "documents",
    "What is 31 - 15?": "calculator",
}


async def test_one_thing_is_one_step() -> None:
    """What only looks compound, or like arithmetic, is a single step with the question as it was asked."""
    for question, worker in ONE_PART.items():
        assert await parts_of(question) == [(worker, question)]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "1. What is a ledger?\n2) What is 3 + 4?\n(3) How does a step get cancelled\n   when it runs?",
            [
                ("documents", "What is a ledger?"),
                ("calculator", "What is 3 + 4?"),
                ("documents", "How does a step get cancelled\n   when it runs?"),
            ],
        ),
        ("什么是预算？17 * 3 是多少？", [("documents", "什么是预算？"), ("calculator", "17 * 3 是多少？")]),
    ],
)
async def test_where_questions_split(question: str, parts: list[tuple[str, str]]) -> None:
    assert await parts_of(question) == parts


async def test_a_part_that_goes_on_from_the_one_before_sees_it() -> None:
    plan = await written(RulePlanner(), asked("What is 17*23? Then add 4 to that. Who pays for a timeout?"))
    assert [step.access for step in plan.plan.steps] == [(), (0,), (), (0, 1, 2)]


async def test_workers_are_matched_by_their_cards() -> None:
    for question, cards, workers in (
        ("What is 3 * 4?", CHAT, ["math"]),
        ("Why is the sky blue?", CHAT, ["finder"]),
        ("Good morning", CHAT, ["chatty"]),
        ("What is theft? What is 3+4?", CHAT, ["finder", "math", "scribe"]),
        ("What is x? What is 3+4?", (Card(name="a"), Card(name="b")), ["a", "a", "a"]),
        ("What is 2026-03-31 minus 2026-01-15?", (*OFFLINE, GENERAL), ["chat"]),
    ):
        plan = await written(RulePlanner(), asked(question, cards))
        assert [name for name, *_ in plan.steps(cards)] == workers


@given(
    question=st.lists(st.sampled_from(_PIECES) | st.text(max_size=8), min_size=1).map("".join),
    most=st.integers(1, 6),
)
def test_any_question_has_a_plan(question: str, most: int) -> None:
    """Whatever the question, the text that is written is a plan within the limit.

    The pool has a worker for all that others cannot do, such as "3 + 4 V".
    """
    if question.replace("\0", "?").strip():
        plan = anyio.run(written, RulePlanner(), asked(question, (*OFFLINE, GENERAL), max_steps=most))
        assert 1 <= len(plan.plan.steps) <= most


async def test_a_short_question_goes_straight_to_a_worker() -> None:
    cards = (*CHAT[:2], CHAT[3])
    why = "one short question without parts; sent to {!r}, whose description fits it best"
    for question, worker in (("What is 3 * 4?", "math"), ("Hi there", "chatty")):
        plan = await written(DirectPlanner(BEHIND), asked(question, cards))
        assert plan.steps(cards) == [(worker, f"Answer this question: {question}", ())]
        assert plan.whole.why == why.format(worker)
    plan = await written(DirectPlanner(BEHIND), asked("anything", CHAT[:1]))
    assert plan.whole.why == "one short question without parts; sent to 'math', the only worker"


async def test_all_else_goes_to_the_planner_behind() -> None:
    """Long questions, several parts or lines, attachments, repairs, and cards that fit as well."""
    image = ({"type": "text", "text": "why?"}, {"type": "image_url", "image_url": {"url": ""}})
    twins = (Card(name="a", description="A general assistant."), Card(name="b", description="General chat."))
    for request in (
        asked("What is 3 * 4? Who wrote it?", CHAT),
        asked("x" * 201, CHAT),
        asked("why?\nwhy?", CHAT),
        asked([Message("user", image)], CHAT),
        replace(asked("why?", CHAT), turns=(Turn("bad", "mend it"),)),
        asked("Hello", twins),
    ):
        assert (await written(DirectPlanner(BEHIND), request)).plan.steps[0].subtask == "behind"


@pytest.mark.parametrize(
    ("question", "cards"),
    [
        ("Who wrote the journal?", (OFFLINE[0], OFFLINE[2])),
        ("Which output is the most frequent?", (Vote().card,)),
        ("What is 2026-03-31 minus 2026-01-15?", OFFLINE),
    ],
)
async def test_what_no_worker_can_do_is_not_planned(question: str, cards: tuple[Card, ...]) -> None:
    with pytest.raises(PlannerError, match="no worker can do"):
        await written(RulePlanner(), asked(question, cards))


@pytest.mark.parametrize("planner", [RulePlanner(), DirectPlanner(RulePlanner(), "water")])
async def test_no_rule_chooses_an_action(planner: Planner) -> None:
    acting = Card(name="water", description="Waters a plant, and answers anything.")
    request = asked("Why is the plant dry?", (acting, CHAT[1]))
    plan = await written(planner, replace(request, acts=(0,)))
    assert [name for name, *_ in plan.steps(request.cards)] == ["chatty"]
    alone = replace(asked("Why is the plant dry?", (acting,)), acts=(0,))
    with pytest.raises(PlannerError, match=r"rules choose no worker that acts \(water\)"):
        await written(planner, alone)


def measured(kind: Kind, rate: float, answers: int = 5) -> MeasuredRate:
    rates: Any = {"rate": rate, "low": 0.1, "high": 0.9, "right": rate * answers, "answers": answers}
    return MeasuredRate(kind=kind, measured_on=DAY, **rates)


def rated(name: str, riddles: float | None, verbs: float | None, description: str = "") -> Card:
    given = ((RIDDLES, riddles), (VERBS, verbs))
    rates = tuple(measured(kind, rate) for kind, rate in given if rate is not None)
    return Card(name=name, description=description, measured=rates)


POOL = (rated("alpha", 0.2, 0.9), rated("beta", 0.7, 0.1), rated("gamma", None, None))


async def test_parts_go_to_the_worker_with_the_best_rate_on_their_kind() -> None:
    planned = await written(RulePlanner(), asked("Solve the riddle: what has teeth?", POOL))
    assert planned.plan.steps[0].worker == 1
    assert planned.whole.why == "the question has one part: beta for its kind 'riddles'"
    assert (await written(RulePlanner(), asked("Conjugate the verb sing.", POOL))).plan.steps[0].worker == 0


def _told(cards: tuple[Card, ...], question: str = "Why?", show: str = "cards") -> str:
    request = PlanRequest(query=read_query(question), cards=cards, max_steps=5)
    planner = ChatPlanner(ScriptedWorker("boss", ""), show=show)  # type: ignore[arg-type]
    messages = planner.messages(request)
    return "\n".join(message.text for message in messages)


def test_the_prompt_shows_what_was_measured() -> None:
    told = _told(POOL)
    assert "Worker 0: alpha. no description; right on riddles 20% (5), verbs 90% (5)\n" in told
    assert "Worker 2: gamma. no description\n" in told
    assert "measured on so many answers (2026-11-22)." in told
    bare = tuple(replace(each, measured=()) for each in POOL)
    for silent in (_told(bare), _told(POOL, show="ordinals")):
        assert all(text not in silent for text in ("right on", "ercentages"))
