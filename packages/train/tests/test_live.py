"""Episodes of live workers, over loopback servers."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from servers.chat_server import RESET, STALL, Call, ChatServer, Reply, says, whole

from podium.errors import ConfigError
from podium.types import Plan, Step
from podium_evals.errors import RecordingInvalid
from podium_train import EarlierRound, LivePool, PlanOutcome, PromptStyle, messages

CONFIG = """
[endpoints.local]
base_url = "{url}"

[workers.small]
endpoint = "local"
model = "small"
price = {{ input = 1.0, output = 2.0 }}

[workers.large]
endpoint = "local"
model = "large"
price = {{ input = 10.0, output = 20.0 }}

[workers.gather]
type = "gather"

[planner]
worker = "large"

[limits]
attempt_seconds = 0.5
step_seconds = 2.0

[retry]
attempts = 2
first_wait = 0.01
"""
ROWS = [
    {"question": f"What is {number} + 1?", "answer": str(number + 1), "kind": "sums", "grader": "number"}
    for number in range(30)
] + [{"question": "Which colour is the sky?", "answer": "blue", "kind": "colours", "grader": "exact"}]
ONE = Plan((Step(0, "Answer the question."),))


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Return a function that writes a config for a server, and a file of questions."""

    def write(url: str) -> tuple[Path, Path]:
        config, questions = tmp_path / "podium.toml", tmp_path / "questions.jsonl"
        config.write_text(CONFIG.format(url=url))
        questions.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        return config, questions

    return write


def right(call: Call) -> Reply:
    number = int(call.body["messages"][-1]["content"].split("What is ")[1].split(" ")[0])
    return says(call, f"It is {number + (call.body['model'] == 'large')}.")


def carried_out(
    files: Callable[[str], tuple[Path, Path]], reply: Callable[[Call], Reply], worker: str
) -> tuple[PlanOutcome | None, int]:
    """Return the outcome of a plan with one step for a worker, and the number of calls."""

    async def carry_out() -> tuple[PlanOutcome | None, int]:
        async with ChatServer(reply) as server:
            environment = LivePool(*files(server.url))
            async with environment:
                episodes = environment.episodes("train", 10, seed=1)
                episode = next(each for each in episodes if each.kind == "sums")
                plan = Plan((Step(episode.workers.index(worker), "Answer the question."),))
                return await environment.carry_out(episode, plan), len(server.calls)

    return anyio.run(carry_out)


@pytest.mark.parametrize(("worker", "score", "cost"), [("large", 1.0, 2250e-6), ("small", 0.0, 225e-6)])
def test_a_plan_is_run_and_its_answer_graded(
    files: Callable[[str], tuple[Path, Path]], worker: str, score: float, cost: float
) -> None:
    """By the grader that the question names; the cost is that of the calls."""
    outcome, _ = carried_out(files, right, worker)
    assert outcome is not None
    assert outcome.answer.startswith("It is ")
    assert outcome == PlanOutcome(
        score=score, cost=pytest.approx(cost), calls=1, tokens=218, outputs=outcome.outputs
    )


def test_a_second_round_calls_only_its_own_workers(files: Callable[[str], tuple[Path, Path]]) -> None:
    """A step with "previous" sees the outputs of the first round; a failed step of it is left out."""

    async def carry_out() -> tuple[PlanOutcome | None, list[str]]:
        async with ChatServer(right) as server, LivePool(*files(server.url)) as environment:
            episodes = environment.episodes("train", 10, seed=1)
            episode = next(each for each in episodes if each.kind == "sums")
            small, large = (episode.workers.index(name) for name in ("small", "large"))
            first = Plan((Step(large, "Fail."), Step(small, "Answer."), Step(small, "Again.", (1,))))
            earlier = EarlierRound(plan=first, outputs=(None, "It is 7.", "It is 8."))
            plan = Plan((Step(large, "Correct the answer.", previous=True),))
            outcome = await environment.carry_out(episode, plan, earlier)
            return outcome, [call.body["messages"][-1]["content"] for call in server.calls]

    outcome, (shown,) = anyio.run(carry_out)
    assert outcome is not None
    assert (outcome.score, outcome.calls, len(outcome.outputs)) == (1.0, 1, 1)
    assert outcome.cost == pytest.approx(2250e-6)
    assert outcome.tokens == 218
    assert "It is 7." in shown
    assert "It is 8." in shown
    assert "Fail." not in shown


def test_each_question_has_its_own_grader(files: Callable[[str], tuple[Path, Path]]) -> None:
    """A colour is compared as text, a number as a number."""

    async def carry_out() -> None:
        async with ChatServer(lambda call: says(call, "blue")) as server:
            environment = LivePool(*files(server.url))
            everything = [e for split in environment.splits for e in environment.episodes(split, 40, seed=1)]
            colours = next(each for each in everything if each.kind == "colours")
            sums = next(each for each in everything if each.kind == "sums")
            assert (await environment.carry_out(colours, ONE)) is not None
            assert [(await environment.carry_out(each, ONE)).score for each in (colours, sums)] == [1.0, 0.0]  # type: ignore[union-attr]

    anyio.run(carry_out)


OUTAGES = {
    "429": lambda _call: whole({"error": {"message": "slow down"}}, status=429),
    "500": lambda _call: whole({"error": {"message": "down"}}, status=500),
    "401": lambda _call: whole({"error": {"message": "no such key"}}, status=401),
    "hang": lambda _call: Reply((STALL,)),
    "reset": lambda _call: Reply((RESET,)),
    "garbage": lambda _call: whole("<html>"),
    "empty": lambda call: says(call, ""),
}


@pytest.mark.parametrize("outage", ["429", "401", "hang", "reset", "empty"])
def test_an_outage_is_never_punished(files: Callable[[str], tuple[Path, Path]], outage: str) -> None:
    """The outcome is unknown, after the retries of the config."""
    outcome, calls = carried_out(files, OUTAGES[outage], "large")
    assert outcome is None
    assert calls >= 1


def test_what_the_plan_is_to_blame_for_scores_0(files: Callable[[str], tuple[Path, Path]]) -> None:
    """A refusal of the model, and a tool that is given nothing to join."""
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "choices": [choice]}
    outcome, _ = carried_out(files, lambda _call: whole(body), "large")
    assert outcome is not None
    assert outcome.score == 0.0
    outcome, calls = carried_out(files, right, "gather")
    assert outcome is not None
    assert (outcome.score, calls) == (0.0, 0)


def test_episodes_are_those_of_the_config(files: Callable[[str], tuple[Path, Path]]) -> None:
    """Tools come last, named as workers that read no prose; splits share no question; pools are drawn."""
    environment = LivePool(*files("http://127.0.0.1:9/v1"), sizes=(1, 2))
    drawn = environment.episodes("train", 60, seed=1)
    assert {each.workers for each in drawn} == {
        ("small", "gather"),
        ("large", "gather"),
        ("small", "large", "gather"),
        ("large", "small", "gather"),
    }
    assert all(each.fills == (len(each.workers) - 1,) for each in drawn)
    large = next(each for each in drawn if "large" in each.workers)
    assert "$10 in, $20 out" in messages(large, PromptStyle())[1].text
    asked = {
        split: {each.question for each in environment.episodes(split, 60, seed=1)}
        for split in environment.splits
    }
    assert not asked["train"] & asked["questions"]
    assert not asked["train"] & asked["validation"]
    assert [each.key for each in drawn] == [each.key for each in environment.episodes("train", 60, seed=1)]


def test_a_changed_grader_is_another_version(
    files: Callable[[str], tuple[Path, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is another worker: rewards of before are not found in the database."""
    config, questions = files("http://127.0.0.1:9/v1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    versions = {LivePool(config, questions).version for _ in range(2)}
    config.write_text(config.read_text().replace('model = "small"', 'model = "smaller"'))
    versions.add(LivePool(config, questions).version)
    for score in (0.0, 1.0):
        monkeypatch.delitem(sys.modules, "my_grader", raising=False)
        (tmp_path / "my_grader.py").write_text(f"def mine(row, text):\n    return {score}\n")
        versions.add(LivePool(config, questions, grader="my_grader:mine").version)
    assert len(versions) == 4, versions


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (lambda row: row | {"grader": "none"}, ConfigError, "names no grader"),
        (lambda row: {"question": row["question"], "grader": "number"}, ConfigError, "no right answer"),
        (lambda row: {"answer": "1"}, RecordingInvalid, "no text under `question`"),
    ],
)
def test_questions_that_cannot_be_graded_are_refused_before_anything_is_paid(
    files: Callable[[str], tuple[Path, Path]],
    change: Callable[[dict[str, str]], dict[str, str]],
    error: type[Exception],
    told: str,
) -> None:
    """The message says which question, or which line."""
    config, questions = files("http://127.0.0.1:9/v1")
    questions.write_text(json.dumps(change(dict(ROWS[0]))) + "\n")
    with pytest.raises(error, match=told):
        LivePool(config, questions)
