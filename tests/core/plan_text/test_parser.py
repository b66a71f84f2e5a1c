"""The folder of plan texts, good and bad; rows in time, sentences of errors, ids, bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium import Plan, PlanReader, Step, parse_plan
from podium.errors import PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text import Spelling, write_plan
from podium.plan_text.parser import MAX_CHARS

ROW = '{{"worker": {0}, "subtask": "Do part {0}.", "access": []}}\n'
TEXTS = Path(__file__).parent / "texts"
VALID = sorted((TEXTS / "valid").glob("*.json"))
INVALID = sorted((TEXTS / "invalid").glob("*.json"))


def test_a_row_is_a_step_when_its_line_ends() -> None:
    reader = PlanReader(workers=3)
    assert reader.feed("Plan:\n" + ROW.format(0).rstrip()) == []
    assert (reader.feed("\n"), reader.feed(ROW.format(1)[:20])) == ([Step(0, "Do part 0.")], [])
    assert reader.feed(ROW.format(1)[20:]) == [Step(1, "Do part 1.")]
    assert reader.close().steps == (Step(0, "Do part 0."), Step(1, "Do part 1."))


def test_no_row_follows_a_wrong_one() -> None:
    """Its number would be wrong."""
    reader = PlanReader(workers=3)
    assert (len(reader.feed(ROW.format(0))), reader.feed(ROW.format(7) + ROW.format(1))) == (1, [])
    with pytest.raises(PlanInvalid) as caught:
        reader.close()
    assert (caught.value.code, caught.value.step) == ("unknown_worker", 1)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("model_id = [0, 5]\nsubtasks = ['a', 'b']\naccess_list = [[], []]", "write a number from 0 to 2"),
        ("model_id = [0]\nsubtasks = ['a", "write a complete, shorter plan"),
        (ROW.format(0) * 33, "the maximum is 32 (Limits.plan_steps or Policy.steps): merge steps"),
        ('{"worker": 0; "subtask": "a", "access": []}', "one pair of quotes, and commas between entries"),
        (
            "model_id = [0, 0]\nsubtasks = ['a', 'b']\naccess_list = [[], ['x']]",
            'step 1 lists \'x\': write [], "all", "previous" or numbers of earlier steps',
        ),
    ],
)
def test_an_error_says_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, workers=3)
    assert advice in str(caught.value)


def test_an_error_names_the_workers_of_a_small_pool() -> None:
    with pytest.raises(PlanInvalid, match=r"from 0 to 1, or a name \(coder, Critic\)"):
        parse_plan("model_id = [nobody]\nsubtasks = ['a']\naccess_list = [[]]", workers=["coder", "Critic"])


def test_too_long_a_text_is_refused_while_it_arrives() -> None:
    reader = PlanReader(workers=3)
    reader.feed("x" * MAX_CHARS)
    with pytest.raises(PlanSyntaxError) as caught:
        reader.feed("y")
    assert (caught.value.code, caught.value.position) == ("too_long", MAX_CHARS)


@pytest.mark.long
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "shape", ["{", "[", '{"a":', "{#", '"', "access ", "model_id=[", "\n", "\\", "<", "{}"]
)
def test_hostile_texts_end(shape: str) -> None:
    text = (shape * MAX_CHARS)[:MAX_CHARS]
    for step in (MAX_CHARS, 1):
        reader = PlanReader(workers=3)
        with pytest.raises(PlanSyntaxError):  # noqa: PT012 - which call raises depends on the pieces
            for start in range(0, len(text), step):
                reader.feed(text[start : start + step])
            reader.close()


def row(access: str, **ids: object) -> str:
    own = "".join(f'"{key}": {value}, ' for key, value in ids.items())
    return f'{{{own}"worker": 0, "subtask": "a", "access": {access}}}\n'


THIRD_SEES_FIRST: dict[str, str] = {
    "text with s": row("[]", id='"s1"') + row('["step 1"]', id='"s2"') + row("[1]", id='"S3"'),
    "names": row("[]", id='"Find it"') + row('["find it"]', step='"b"') + row('"Find it"', id='"b"'),
    "written freely": row("[]", id='"#1"') + row('["1."]', id='"2)"') + row('["1.0"]', id='"Task 3"'),
    "null is no id": row("[]", id="null") + row("[0]", id="null") + row("[0]"),
}


@pytest.mark.parametrize("text", THIRD_SEES_FIRST.values(), ids=THIRD_SEES_FIRST)
def test_access_lists_name_ids(text: str) -> None:
    plan = parse_plan(text, workers=1)
    assert [step.access for step in plan.steps] == [(), (0,), (0,)]
    spelling: Spelling
    for spelling in ("lists", "json", "rows"):
        assert parse_plan(write_plan(plan, spelling), workers=1) == plan


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (row("[]", id=1) + row("[1]"), "bad_id", "step 1 has no id, and earlier steps have one"),
        (row("[]", id=1) + row("[1]", step=2), "bad_id", "'step', and earlier steps have theirs under 'id'"),
        (row("[]", id=1) + row("[]", id=1), "bad_id", "step 1 has the id 1 of an earlier step"),
        (row("[]", id=1) + row("[]", id=2, ID=3), "bad_id", "step 1 has two ids, 2 and 3"),
        (row("[]", id="10**30"), "bad_id", "step 0 has the id '10**30', which is not a whole number"),
        (row("[]", phase_number=1), "bad_id", "step 0 has a number under 'phasenumber', which may be its id"),
        (row("[]", id=1) + row("[0]", id=2), "forward_access", "write [] or ids of earlier steps (1)"),
        (row("[]", id=1) + row("[2]", id=2), "forward_access", "lists 2, which is not the id of an earlier"),
        (row("[]", id='"a"') + row('["b"]', id='"b"'), "bad_access", ""),
    ],
)
def test_ids_that_mislead_are_refused(text: str, code: str, told: str) -> None:
    rows = ", ".join(text.splitlines())
    for spelled in (text, f'{{"steps": [{rows}]}}'):
        with pytest.raises(PlanInvalid) as caught:
            parse_plan(spelled, workers=1)
        assert caught.value.code == code
        assert told in str(caught.value)
        assert caught.value.position is not None
        assert caught.value.step is not None


def load(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a text and what is said about it; texts that UTF-8 cannot hold are in the JSON."""
    told = json.loads(path.read_bytes())
    if "text" in told:
        return told["text"] * told.get("repeat", 1), told
    return path.with_suffix(".txt").read_bytes().decode(), told


def settings(told: dict[str, Any]) -> dict[str, Any]:
    return {"workers": told["workers"], "max_steps": told.get("max_steps", 5)}


def expected(told: dict[str, Any]) -> Plan:
    return Plan(tuple(Step(s["worker"], s["subtask"], tuple(s["access"])) for s in told["plan"]["steps"]))


def test_readable_texts_give_their_plans() -> None:
    wrong = []
    for path in VALID:
        text, told = load(path)
        reader, plan = PlanReader(**settings(told)), expected(told)
        early = tuple(step for char in text for step in reader.feed(char))
        whole = parse_plan(text, **settings(told))
        if not whole == reader.close() == plan or plan.steps[: len(early)] != early:
            wrong.append(path.stem)
    assert wrong == []


def test_bad_texts_give_their_errors() -> None:
    """What is ambiguous, broken or against the rules is an error of the expected kind, at its place."""
    wrong = {}
    for path in INVALID:
        text, told = load(path)
        with pytest.raises(PlanError) as caught:
            parse_plan(text, **settings(told))
        error = caught.value
        assert error.position is not None, path.stem
        step = error.step if isinstance(error, PlanInvalid) else None
        found = {"type": type(error).__name__, "code": error.code, "step": step}
        found["at"] = text[error.position :][:12]
        if found != told["error"]:
            wrong[path.stem] = str(error)
    assert wrong == {}
