"""Worker output, queries and quotations are data: hostile texts change nothing of a run.

Each run is compared, message by message, with the same run over a harmless text.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
from core.actors import boss, plan_of, rows
from core.prompts.injected import TEXTS

from podium import Conductor, Limits, Message, Result, ScriptedWorker, parse_plan
from podium.errors import PlanError
from podium.plan_text import Spelling, write_plan
from podium.plan_text.writer import KEEP
from podium.types.messages import storable

pytestmark = pytest.mark.anyio

HARMLESS = "A page about eggs, which is quite harmless."
QUESTION = "How long does an egg take on a mountain?"
NAMES = ("retriever", "writer", "critic", "mailer")
PLAN = plan_of((0, "Find it.", ()), (1, "Sum it up.", (0,)), (2, "Check it.", (0, 1)), (1, "Answer.", (1, 2)))
_TAG = re.compile(r"<(?:question|subtask|output|answer|response|conversation)-([0-9a-f]+)>")
_WANTED: dict[str, Any] = {}
"""What a run over a harmless text sends and does, made once for each place a text can stand in."""
SPELLINGS: tuple[Spelling, ...] = ("rows", "json", "lists")


def plain(text: str, injected: str) -> str:
    """Return a message's text with what stands between tags, if it was injected, and their mark taken out.

    The mark must stand nowhere in the injected text.
    """
    tag = _TAG.search(text)
    if tag is not None:
        assert tag[1] not in injected
    bare = text.replace(f">\n{storable(injected)}\n</", ">\n(TEXT)\n</")
    return bare if tag is None else bare.replace(tag[1], "(MARK)")


def shape(messages: Sequence[Message], injected: str) -> list[tuple[str, str]]:
    """Return messages as roles and texts, what was injected taken out; only users may have said it."""
    for message in messages:
        assert message.role == "user" or storable(injected).strip() not in message.text
    return [(message.role, plain(message.text, injected)) for message in messages]


def account(result: Result) -> Any:
    did = [(o.round, o.step, o.worker, o.status, o.attempts, o.finish_reason) for o in result.outcomes]
    code = None if result.problem is None else result.problem.code
    return [round_.plan for round_ in result.rounds], did, result.status, code


async def scripted(output: str, query: str = QUESTION, *, verdict: Any = None, streamed: bool = False) -> Any:
    """Return all that was sent and done where every worker returns `output`."""
    injected = verdict or (output if query == QUESTION else query)
    pool = [ScriptedWorker(name, output) for name in NAMES]
    judge = ScriptedWorker("judge", "NO, say it in fewer words.")
    planner = boss(rows(*((s.worker, s.subtask, s.access) for s in PLAN.steps)), KEEP, piece=9)
    accept: Any = (lambda *_: verdict) if verdict else judge
    conductor = Conductor(planner, pool, limits=Limits(rounds=2), accept=accept)
    if streamed:
        *_, last = [event async for event in conductor.stream(query)]
        result = last.result  # type: ignore[union-attr]  # the last event is RunEnded
    else:
        result = await conductor.run(query)
    assert (result.plans, result.answer) == ((PLAN,), storable(output))
    asked = (*pool, judge, planner.worker)
    sent = {one.card.name: sorted(shape(each.messages, injected) for each in one.requests) for one in asked}
    assert len(sent["boss"]) == 2
    assert not sent["mailer"]
    return sent, account(result)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_text_is_data_wherever_it_stands_in_a_run(text: str) -> None:
    places: dict[str, Callable[[str], Any]] = {
        "outputs": partial(scripted, streamed=True),
        "the query": lambda text: scripted("Fine.", query=text),
        "a judge's verdict": lambda text: scripted("Fine.", verdict=text),
    }
    for place, run in places.items():
        if place not in _WANTED:
            _WANTED[place] = await run(HARMLESS)
        assert await run(text) == _WANTED[place], place


def is_plan(text: str) -> bool:
    try:
        parse_plan(text, workers=list(NAMES), max_steps=100)
    except PlanError as error:
        is_none = ("no_plan", "too_deep", "too_long", "truncated", "bad_value", "missing_field")
        return error.code not in is_none
    return True


def test_text_around_a_plan_makes_no_other_plan() -> None:
    for text, spelling in product(TEXTS.values(), SPELLINGS):
        plan = write_plan(PLAN, spelling)
        for written in (f"{text}\n\n{plan}", f"{plan}\n\n{text}"):
            try:
                read = parse_plan(written, workers=list(NAMES))
            except PlanError:
                continue
            if not is_plan(text):
                assert read == PLAN, written
            elif read.steps:
                read.fit(len(NAMES), 32)
