"""Properties that hold for every plan and for every text, hunted for by hypothesis."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from hypothesis import given, strategies as st

from podium import Plan, PlanReader, Step, parse_plan
from podium.errors import PlanInvalid, PlanSyntaxError
from podium.plan_text import Spelling, write_plan
from podium.types.references import literal

WORKERS = 3
MAX_STEPS = 5
NAMES = ["searcher", "Coder 2", "批评者", "0", 'don\'t "panic"']
FRAGMENTS = [
    *"{}[]()\"'“”‘’«»「」,，、:：=#\\\n\r\t \0\ud800",
    *('"""', "'''", "```json\n", "\r\n", "- ", "Step 1: ", ', "b"', ", a:", '$1 ${2}")\n', '\n1. model("'),
    '\n{"worker": 0, "subtask": "a", "access": []}\n',
    *r"""
//  \n  \"  \ud83d  \ude00  {}  {"a": 1}  List[int]  \{{  {{0}}  {{1}}  {{step 1}}  {{a}}  -1  1.5  null
don't  <think>  </think>  {"steps": [  "all"  all  "previous"  [[], [0]]  [0]  model_id  model_id =
subtasks =  access_list =  access:  "worker":  "access":  , "enough": 1  "enough": null}  "enough": 9
{"id": 1,  {"step": "step 2",  , "index": 0  {"id": 3, "worker": 0, "subtask": "c", "access": [1]}
model_id=[0,1]  {"worker": 1, "subtask": "b", "access": [0]}  subtasks=["a","b"]  access_list=[[],["all"]]
3. join()  [{"id": "a", "agent": "0", "task": "t"  , "depends_on": ["a"]}  {"name": "1", "arguments": {
""".replace("\n", "  ")
    .strip()
    .split("  "),
]

spellings = st.sampled_from(get_args(Spelling))
subtasks = (
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40),
        st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=8).map(
            lambda parts: "".join(parts).replace("\0", "").replace("\ud800", "")
        ),
    )
    .filter(str.strip)
    .map(literal)
)


@st.composite
def plans(draw: st.DrawFn, workers: int = WORKERS) -> Plan:
    steps = []
    for index in range(draw(st.integers(0, MAX_STEPS))):
        seen = draw(st.sets(st.integers(0, index - 1))) if index else set()
        enough = draw(st.none() | st.integers(1, len(seen))) if seen else None
        worker, previous = draw(st.integers(0, workers - 1)), draw(st.booleans())
        steps.append(Step(worker, draw(subtasks), tuple(seen), enough, previous))
    return Plan(tuple(steps))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Plan texts in which slices were deleted, inserted, doubled, swapped or cut off."""
    drawn = draw(st.lists(plans(), min_size=1, max_size=2))
    text = "\n".join(write_plan(plan, draw(spellings)) for plan in drawn)
    for _ in range(draw(st.integers(1, 4))):
        first, second, third = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 3)))
        text = draw(
            st.sampled_from(
                [
                    text[:first] + text[second:],
                    text[:first] + draw(st.sampled_from(FRAGMENTS)) + text[first:],
                    text[:second] + text[first:second] + text[second:],
                    text[:first] + text[second:third] + text[first:second] + text[third:],
                    text[:third],
                ]
            )
        )
    return text


texts = st.one_of(
    mutated(),
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join),
    st.text(st.characters(exclude_categories=[]), max_size=60),
)


@dataclass(frozen=True)
class Read:
    """What came of reading a text: a plan, or the kind, code and position of an error."""

    plan: Plan | None = None
    error: tuple[type[Exception], str, int | None] | None = None
    early: tuple[Step, ...] = ()


def read(pieces: list[str]) -> Read:
    """Read a text that arrives in pieces; anything but a plan or our errors goes through."""
    reader, early = PlanReader(workers=WORKERS, max_steps=MAX_STEPS), list[Step]()
    try:
        for piece in pieces:
            early += reader.feed(piece)
        return Read(reader.close(), early=tuple(early))
    except (PlanSyntaxError, PlanInvalid) as error:
        return Read(error=(type(error), error.code, error.position))


def read_whole(text: str) -> Read:
    try:
        return Read(parse_plan(text, workers=WORKERS, max_steps=MAX_STEPS))
    except (PlanSyntaxError, PlanInvalid) as error:
        return Read(error=(type(error), error.code, error.position))


def cut(text: str, places: list[int]) -> list[str]:
    """Cut a text at these places, which are taken modulo its length."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@given(plans(len(NAMES)), subtasks, spellings, st.sampled_from([None, NAMES]))
def test_what_is_written_is_read(plan: Plan, text: str, spelling: Spelling, names: list[str] | None) -> None:
    """Also with names of workers, and with a reference beside braces that are none."""
    assert Step(0, text, (0,)).references == ()
    plan = Plan((*plan.steps, Step(0, f"{text} of {{{{0}}}}", (0,)))) if plan.steps else plan
    assert parse_plan(write_plan(plan, spelling, workers=names), workers=names or len(NAMES)) == plan
    assert Plan.from_json(plan.to_json()) == plan


@st.composite
def ids(draw: st.DrawFn, steps: int) -> list[int | str]:
    """Draw a different id for each of so many steps: any numbers, as numbers or as text."""
    numbers = draw(st.lists(st.integers(-99, 10**9 - 1), min_size=steps, max_size=steps, unique=True))
    write = draw(st.sampled_from([int, str, "step {}".format, "S{}".format]))
    return [write(number) if number >= 0 else number for number in numbers]


@st.composite
def numbered(draw: st.DrawFn, plan: Plan) -> str:
    """Write a plan whose steps carry ids, by which their access lists name them."""
    own = draw(ids(len(plan.steps)))
    key = draw(st.sampled_from(["id", "step", "index", "Step_ID"]))
    last = draw(st.booleans())
    rows = []
    for index, step in enumerate(plan.steps):
        enough = {} if step.enough is None else {"enough": step.enough}
        access = [own[seen] for seen in step.access] + ["Previous"] * step.previous
        row = {"worker": step.worker, "subtask": step.subtask, "access": access, **enough}
        rows.append({**row, key: own[index]} if last else {key: own[index], **row})
    as_rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    columns = {name: [row[name] for row in rows] for name in ("worker", "subtask", "access", key)}
    forms = [as_rows, json.dumps({"steps": rows})]
    if rows and all(step.enough is None for step in plan.steps):
        forms.append(json.dumps(columns))
    return draw(st.sampled_from(forms))


@given(st.data(), plans().filter(lambda plan: bool(plan.steps)), st.lists(st.integers(0, 10_000), max_size=8))
def test_ids_of_any_numbering_give_the_same_plan(data: st.DataObject, plan: Plan, places: list[int]) -> None:
    text = data.draw(numbered(plan))
    assert parse_plan(text, workers=WORKERS) == plan
    for pieces in (cut(text, places), list(text), text.splitlines(keepends=True)):
        found = read(pieces)
        assert (found.plan, plan.steps[: len(found.early)]) == (plan, found.early)


@given(texts, st.lists(st.integers(0, 10_000), max_size=8))
def test_any_chunking_gives_the_same(text: str, places: list[int]) -> None:
    whole = read_whole(text)
    for pieces in (cut(text, places), list(text), text.splitlines(keepends=True)):
        found = read(pieces)
        assert (found.plan, found.error) == (whole.plan, whole.error)
        if found.plan is not None:
            assert found.plan.steps[: len(found.early)] == found.early


@given(texts)
def test_a_parsed_plan_keeps_the_rules(text: str) -> None:
    plan = read_whole(text).plan
    if plan is not None:
        assert len(plan.steps) <= MAX_STEPS
        for index, step in enumerate(plan.steps):
            assert step.worker in range(WORKERS)
            assert set(step.access) <= set(range(index))
            assert step.subtask.encode().decode().strip()
            assert "\0" not in step.subtask
