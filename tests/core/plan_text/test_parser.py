"""What a reader does beyond reading one text: rows in time, positions, sentences, bounds."""

import pytest

from podium.errors import PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text import PlanReader, parse_plan
from podium.plan_text.parser import MAX_CHARS
from podium.types import Step

ROW = '{{"worker": {0}, "subtask": "Do part {0}.", "access": []}}\n'


def test_a_row_is_a_step_when_its_line_ends() -> None:
    """The first row is handed out while the second has not been written."""
    reader = PlanReader(workers=3)
    assert reader.feed("Plan:\n" + ROW.format(0).rstrip()) == []
    assert reader.feed("\n") == [Step(0, "Do part 0.")]
    assert reader.feed(ROW.format(1)[:20]) == []
    assert reader.feed(ROW.format(1)[20:]) == [Step(1, "Do part 1.")]
    assert reader.close().steps == (Step(0, "Do part 0."), Step(1, "Do part 1."))


def test_no_row_follows_a_wrong_one() -> None:
    """What comes after a row that breaks a rule is not handed out: its numbers would be wrong."""
    reader = PlanReader(workers=3)
    assert len(reader.feed(ROW.format(0))) == 1
    assert reader.feed(ROW.format(7) + ROW.format(1)) == []
    with pytest.raises(PlanInvalid) as caught:
        reader.close()
    assert (caught.value.code, caught.value.step) == ("unknown_worker", 1)


def test_a_step_error_names_step_and_position() -> None:
    """Whoever repairs a plan learns where to look."""
    text = "Sure.\nmodel_id = [0, 9]\nsubtasks = ['a', 'b']\naccess_list = [[], []]"
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, workers=3)
    assert caught.value.step == 1
    assert caught.value.position == text.index("9")
    text = ROW.format(0) + '{"worker": 1, "subtask": "b", "access": [0, "previous"]}\n'
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, workers=3, previous=False)
    assert (caught.value.step, caught.value.position) == (1, text.index('"previous"'))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("model_id = [0, 5]\nsubtasks = ['a', 'b']\naccess_list = [[], []]", "write a number from 0 to 2"),
        ("model_id = [0, 0]\nsubtasks = ['a']\naccess_list = [[], []]", "write one entry per step in each"),
        ("model_id = [0]\nsubtasks = ['a", "write a complete, shorter plan"),
        ("<think>model_id = [0]", "write </think>"),
        (ROW.format(0) * 33, "the maximum is 32 (Limits.plan_steps or Policy.steps): merge steps"),
        ('{"worker": 0; "subtask": "a", "access": []}', "one pair of quotes, and commas between entries"),
        (
            "model_id = [0, 0]\nsubtasks = ['a', 'b']\naccess_list = [[], ['x']]",
            'step 1 lists \'x\': write [], "all", "previous" or numbers of earlier steps',
        ),
    ],
)
def test_an_error_says_what_to_write(text: str, advice: str) -> None:
    """Each sentence ends in something a small model can do."""
    with pytest.raises(PlanError) as caught:
        parse_plan(text, workers=3)
    assert advice in str(caught.value)


def test_an_error_names_the_workers_of_a_small_pool() -> None:
    """Where workers have names, the names to choose from are told."""
    with pytest.raises(PlanInvalid, match=r"from 0 to 1, or a name \(coder, Critic\)"):
        parse_plan("model_id = [nobody]\nsubtasks = ['a']\naccess_list = [[]]", workers=["coder", "Critic"])


def test_a_name_of_two_workers_is_nobodys() -> None:
    """Where only case tells workers apart, a name in neither's case is refused, not guessed."""
    with pytest.raises(PlanInvalid, match=r"may mean any of 2 workers: .* a name \(GPT, Gpt, Coder\)"):
        parse_plan("model_id = [gpt]\nsubtasks = ['a']\naccess_list = [[]]", workers=["GPT", "Gpt", "Coder"])


def test_too_long_a_text_is_refused_while_it_arrives() -> None:
    """A planner that never stops writing is noticed at the limit, not at its end."""
    reader = PlanReader(workers=3)
    reader.feed("x" * MAX_CHARS)
    with pytest.raises(PlanSyntaxError) as caught:
        reader.feed("y")
    assert (caught.value.code, caught.value.position) == ("too_long", MAX_CHARS)


def test_a_subtask_may_be_as_long_as_the_limit_says() -> None:
    """The limit itself is allowed, and one character more is not."""
    row = '{{"worker": 0, "subtask": "{}", "access": []}}\n'
    assert len(parse_plan(row.format("x" * 16_384), workers=3).steps[0].subtask) == 16_384
    with pytest.raises(PlanInvalid, match="write at most 16,384"):
        parse_plan(row.format("x" * 16_385), workers=3)


@pytest.mark.long
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "shape", ["{", "[", '{"a":', "{#", '"', "access ", "model_id=[", "\n", "\\", "<", "{}"]
)
def test_hostile_texts_end(shape: str) -> None:
    """Shapes that defeat readers with back-tracking or recursion end in one of our errors."""
    text = (shape * MAX_CHARS)[:MAX_CHARS]
    for step in (MAX_CHARS, 1):
        reader = PlanReader(workers=3)
        with pytest.raises(PlanSyntaxError):  # noqa: PT012 - which call raises depends on the pieces
            for start in range(0, len(text), step):
                reader.feed(text[start : start + step])
            reader.close()
