"""Examples of plans to learn from."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from small_recording import small_recording

from podium import ChatPlanner, Message, Plan, ScriptedWorker, Step, parse_plan
from podium.errors import ConfigError
from podium_train import PromptStyle, RecordedAnswers, RecordedSettings, messages
from podium_train.evaluation import plan_arm, planner_arm, reasoned_arm
from podium_train.warm_start import Example, best_of, read_examples, write_examples

SINGLE = RecordedAnswers(small_recording(), RecordedSettings(sizes=(3,), held_workers=1))
STYLE = PromptStyle(examples=0)
SAID = Message("user", "hi\u2028 \x00 ü")
HI = Example(messages=(SAID,), completion="plan", source="a", reward=1.0, kind="k")


def best(arm: object, **options: Any) -> list[Example]:
    async def run() -> list[Example]:
        return await best_of(SINGLE, SINGLE.episodes("train", 40, seed=1), arm, STYLE, **options)

    return anyio.run(run)


def text(worker: int, thought: str = "") -> str:
    return f'{thought}model_id = [{worker}]\nsubtasks = ["Answer the question."]\naccess_list = [[]]'


def test_the_best_plan_of_several_is_an_example() -> None:
    """A planner that writes each worker once finds one that is right; its reasoning is kept."""
    replies = [text(0, "Hm. "), text(1, "Well. "), text(2, "So. "), "no plan"]
    number = iter(range(10_000))
    model = ScriptedWorker("model", lambda _request: replies[next(number) % 4])
    arm = planner_arm("model", ChatPlanner(model, spelling="lists"), max_steps=5, samples=4)
    found = best(arm, at_once=1)
    assert 20 < len(found) <= 40
    assert {example.source for example in found} == {"best of 4 of model"}
    assert {example.completion.split(".")[0] for example in found} == {"Hm", "Well", "So"}
    assert all(example.reward == 1.0 for example in found)
    by_key = {episode.question: episode for episode in SINGLE.episodes("train", 40, seed=1)}
    for example in found:
        question = next(each for each in by_key if each in example.messages[1].text)
        assert example.messages == messages(by_key[question], STYLE)


def test_of_equal_plans_the_cheapest_is_taken() -> None:
    """Three calls and a vote that are right cost more than one call."""
    three = Plan((*[Step(0, "Answer the question.")] * 3, Step(3, "Choose.", (0, 1, 2))))
    one = Plan((Step(0, "Answer the question."),))
    replies = iter([three, one] * 40)
    both = best(replace(plan_arm("both", lambda _episode: next(replies)), samples=2), at_once=1)
    steps = [len(parse_plan(example.completion, workers=4).steps) for example in both]
    assert steps.count(1) == len(best(plan_arm("one", lambda _episode: one)))


def test_any_valid_plan_teaches_the_form() -> None:
    """With the lowest reward of 0.5, wrong answers are examples too, written in the style's spelling."""
    arm, lost = (
        plan_arm(name, lambda _episode, text=text: Plan((Step(0, text),)))
        for name, text in (("first", "Answer the question."), ("lost", "Think."))
    )
    assert len(best(arm, least=0.5)) == 40 > len(best(arm))
    assert best(arm)[0].completion.startswith("model_id = [0]")
    assert best(lost, least=0.5) == []


def test_reasons_stand_beside_the_choice() -> None:
    """The line has the rates that the prompt shows, and the worker that the plan has."""
    for example in best(reasoned_arm(SINGLE), least=0.5):
        line = example.completion.splitlines()[0]
        (step,) = parse_plan(example.completion, workers=6).calls
        assert line.endswith(f"So {step.worker}.")
        kind, rates = line.split(" is ")[1].split(": ")
        rate = rates.split(f"{step.worker} ")[1].split("%")[0]
        assert f"{kind} {rate}% (3)" in example.messages[1].text


def test_examples_are_written_once_and_read_back(tmp_path: Path) -> None:
    """Any text survives."""
    others = [replace(HI, kind="other", completion=f"{number}") for number in range(3)]
    path = tmp_path / "examples.jsonl"
    assert write_examples(path, [HI, *others, replace(HI, source="b")]) == 4
    assert read_examples(path) == [HI, *others]
    row = json.loads(path.read_text().split("\n")[0])
    assert row["messages"] == [{"role": "user", "content": "hi\u2028 \x00 ü"}]
    assert [entry.name for entry in tmp_path.iterdir()] == ["examples.jsonl"]


def test_files_that_are_not_examples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    for content in (b"", b"{", b'{"messages": []}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"examples\.jsonl"):
            read_examples(path)


def test_no_examples_are_an_error_and_leave_the_old_file(tmp_path: Path) -> None:
    """So does a folder that does not exist."""
    path = tmp_path / "examples.jsonl"
    write_examples(path, [HI])
    with pytest.raises(ConfigError, match="no plan was good enough"):
        write_examples(path, [])
    assert read_examples(path) == [HI]
    with pytest.raises(ConfigError, match="cannot be written"):
        write_examples(tmp_path / "missing" / "examples.jsonl", [HI])
