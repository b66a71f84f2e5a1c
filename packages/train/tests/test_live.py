"""Episodes of live workers, over loopback servers; tests of code in a sandbox, and a cassette of calls."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.chat_server import RESET, STALL, Call, ChatServer, Reply, says, whole

from podium.config import load_config
from podium.errors import ConfigError
from podium.types import Message, Plan, Step
from podium_evals.errors import RecordingInvalid
from podium_evals.recording import Cassette
from podium_train import EarlierRound, Episode, LivePool, PlanOutcome, PromptStyle, messages, reward_of
from podium_train.recipe import environment_of, load_recipe

CONFIG = """
endpoints.local.base_url = "{url}"
workers.small = {{ endpoint = "local", model = "small", price = {{ input = 1.0, output = 2.0 }} }}
workers.large = {{ endpoint = "local", model = "large", price = {{ input = 10.0, output = 20.0 }} }}
workers.gather.type = "gather"
planner.worker = "large"
limits = {{ attempt_seconds = 0.5, step_seconds = 2.0 }}
retry = {{ attempts = 2, first_wait = 0.01 }}
"""
ROWS = [
    {"question": f"What is {number} + 1?", "answer": str(number + 1), "kind": "sums", "grader": "number"}
    for number in range(30)
] + [{"question": "Which colour is the sky?", "answer": "blue", "kind": "colours", "grader": "exact"}]
ONE = Plan((Step(0, "Answer the question."),))


Files = Callable[[str], tuple[Path, Path]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return a function that writes a config for a server, and a file of questions."""

    def write(url: str) -> tuple[Path, Path]:
        config, questions = tmp_path / "podium.toml", tmp_path / "questions.jsonl"
        config.write_text(CONFIG.format(url=url))
        questions.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        return config, questions

    return write


def first_sum(environment: LivePool) -> Episode:
    return next(each for each in environment.episodes("train", 10, seed=1) if each.kind == "sums")


def right(call: Call) -> Reply:
    number = int(call.body["messages"][-1]["content"].split("What is ")[1].split(" ")[0])
    return says(call, f"It is {number + (call.body['model'] == 'large')}.")


def carried_out(files: Files, reply: Callable[[Call], Reply], worker: str) -> tuple[PlanOutcome | None, int]:
    """Return the outcome of a plan with one step for a worker, and the number of calls."""

    async def carry_out() -> tuple[PlanOutcome | None, int]:
        async with ChatServer(reply) as server, LivePool(*files(server.url)) as environment:
            episode = first_sum(environment)
            plan = Plan((Step(episode.workers.index(worker), "Answer the question."),))
            return await environment.carry_out(episode, plan), len(server.calls)

    return anyio.run(carry_out)


@pytest.mark.parametrize(("worker", "score", "cost"), [("large", 1.0, 2250e-6), ("small", 0.0, 225e-6)])
def test_a_plan_is_run_and_its_answer_graded(files: Files, worker: str, score: float, cost: float) -> None:
    """By the grader that the question names; the cost is that of the calls."""
    outcome, _ = carried_out(files, right, worker)
    assert outcome.answer.startswith("It is ")
    facts: Any = {"score": score, "cost": pytest.approx(cost), "calls": 1, "tokens": 218}
    assert outcome == PlanOutcome(outputs=outcome.outputs, **facts)


def test_a_second_round_calls_only_its_own_workers(files: Files) -> None:
    """A step with "previous" sees the outputs of the first round; a failed step of it is left out."""

    async def carry_out() -> tuple[PlanOutcome | None, list[str]]:
        async with ChatServer(right) as server, LivePool(*files(server.url)) as environment:
            episode = first_sum(environment)
            small, large = (episode.workers.index(name) for name in ("small", "large"))
            first = Plan((Step(large, "Fail."), Step(small, "Answer."), Step(small, "Again.", (1,))))
            earlier = EarlierRound(plan=first, outputs=(None, "It is 7.", "It is 8."))
            plan = Plan((Step(large, "Correct the answer.", previous=True),))
            outcome = await environment.carry_out(episode, plan, earlier)
            return outcome, [call.body["messages"][-1]["content"] for call in server.calls]

    outcome, (shown,) = anyio.run(carry_out)
    assert (outcome.score, outcome.calls, len(outcome.outputs)) == (1.0, 1, 1)
    assert (outcome.cost, outcome.tokens) == (pytest.approx(2250e-6), 218)
    assert [text in shown for text in ("It is 7.", "It is 8.", "Fail.")] == [True, True, False]


def test_each_question_has_its_own_grader(files: Files) -> None:
    """A colour is compared as text, a number as a number."""

    async def scores() -> list[float]:
        async with ChatServer(lambda call: says(call, "blue")) as server:
            environment = LivePool(*files(server.url))
            everything = [e for split in environment.splits for e in environment.episodes(split, 40, seed=1)]
            asked = [next(e for e in everything if e.kind == kind) for kind in ("colours", "sums")]
            return [(await environment.carry_out(each, ONE)).score for each in asked]

    assert anyio.run(scores) == [1.0, 0.0]


OUTAGES = {
    "429": lambda _call: whole({"error": {"message": "slow down"}}, status=429),
    "401": lambda _call: whole({"error": {"message": "no such key"}}, status=401),
    "hang": lambda _call: Reply((STALL,)),
    "reset": lambda _call: Reply((RESET,)),
    "empty": lambda call: says(call, ""),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_never_punished(files: Files, outage: str) -> None:
    """The outcome is unknown, after the retries of the config."""
    outcome, calls = carried_out(files, OUTAGES[outage], "large")
    assert (outcome, calls >= 1) == (None, True)


def test_what_the_plan_is_to_blame_for_scores_0(files: Files) -> None:
    """A refusal of the model, and a tool that is given nothing to join."""
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "choices": [choice]}
    assert carried_out(files, lambda _call: whole(body), "large")[0].score == 0.0
    outcome, calls = carried_out(files, right, "gather")
    assert (outcome.score, calls) == (0.0, 0)


def test_episodes_are_those_of_the_config(files: Files) -> None:
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
    splits = environment.splits
    asked = {split: {e.question for e in environment.episodes(split, 60, seed=1)} for split in splits}
    assert not asked["train"] & (asked["questions"] | asked["validation"])
    assert [each.key for each in drawn] == [each.key for each in environment.episodes("train", 60, seed=1)]


def test_a_changed_grader_is_another_version(files: Files, tmp_path: Path, monkeypatch: Any) -> None:
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
    files: Files, change: Callable[[dict[str, str]], dict[str, str]], error: type[Exception], told: str
) -> None:
    """The message says which question, or which line."""
    config, questions = files("http://127.0.0.1:9/v1")
    questions.write_text(json.dumps(change(dict(ROWS[0]))) + "\n")
    with pytest.raises(error, match=told):
        LivePool(config, questions)


ONE_WORKER = """
endpoints.local.base_url = "{url}"
workers.large = {{ endpoint = "local", model = "large", price = {{ input = 10.0, output = 20.0 }} }}
planner.worker = "large"
retry.attempts = 1
"""
DOUBLE = {
    "question": "Write a program that doubles a number.",
    "grader": "code",
    "tests": {"type": "stdin", "cases": [{"input": "4", "output": "8"}]},
}
SUM = {"question": "What is 20 + 22?", "answer": "42", "grader": "number"}
RECIPE = """
environment.type = "live"
environment.config = "podium.toml"
environment.questions = "questions.jsonl"
{more}
model.base = "base"
[grpo]
"""


def write(folder: Path, url: str, row: dict[str, Any], more: str = "") -> None:
    """Write the config, a question in two forms, and a recipe with more keys of the environment."""
    (folder / "podium.toml").write_text(ONE_WORKER.format(url=url))
    rows = [row, {**row, "question": f"{row['question']} Please."}]
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (folder / "recipe.toml").write_text(RECIPE.format(more=more))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: make sandbox")
@pytest.mark.parametrize(  # the sandbox has no such file
    ("program", "score"), [("print(2 * int(input()))", 1.0), ("print(8)\nopen('/etc/passwd')", 0.0)]
)
def test_code_is_graded_in_a_sandbox(program: str, score: float, tmp_path: Path) -> None:
    """A live pool runs the programs of its workers only if the recipe names an interpreter."""

    async def carry_out() -> PlanOutcome | None:
        async with ChatServer(lambda call: says(call, f"```python\n{program}\n```")) as server:
            write(tmp_path, server.url, DOUBLE, f'environment.python = "{sys.executable}"')
            environment = environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)
            (episode,) = environment.episodes("train", 1, seed=1)
            return await environment.carry_out(episode, Plan((Step(0, "Write it."),)))

    assert anyio.run(carry_out).score == score
    write(tmp_path, "http://127.0.0.1:9/v1", DOUBLE)
    with pytest.raises(ConfigError, match=r"`python` in \[environment\]"):
        environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)


def test_a_recorded_subtask_has_a_reward(tmp_path: Path) -> None:
    """A plan with subtasks of its own words, whose second step reads the first; no worker is called again."""
    text = 'model_id = [0, 0]\nsubtasks = ["Think of 20.", "Check it, and add."]\naccess_list = [[], [0]]'
    plan = Plan((Step(0, "Think of 20."), Step(0, "Check it, and add.", (0,))))
    second = Plan((Step(0, "Once more.", previous=True),))

    def reply(call: Call) -> Reply:
        return says(call, "42" if "add" in call.body["messages"][-1]["content"] else "20")

    async def record() -> None:
        async with ChatServer(reply) as server:
            write(tmp_path, server.url, SUM, 'environment.cassette = "calls.jsonl"')
            live = LivePool(tmp_path / "podium.toml", tmp_path / "questions.jsonl")
            (episode,) = live.episodes("train", 1, seed=1)
            with Cassette(tmp_path / "calls.jsonl", mode="record") as cassette:
                conductor = load_config(tmp_path / "podium.toml").conductor(journaled=False)
                asked = Plan(plan.steps, query=(Message("user", episode.question),))
                await conductor.run(asked, middleware=cassette)
                assert cassette.recorded == 2

    anyio.run(record)
    environment = environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)
    assert environment.version != LivePool(tmp_path / "podium.toml", tmp_path / "questions.jsonl").version
    (episode,) = environment.episodes("train", 1, seed=1)
    for _ in range(2):
        reward = anyio.run(reward_of, text, episode, environment)
        assert (reward.value, reward.outcome.outputs) == (1.0, ("20", "42"))
        assert reward.outcome.cost
    assert anyio.run(reward_of, text.replace("Check", "Doubt"), episode, environment).value is None
    earlier = EarlierRound(plan=plan, outputs=("20", "42"))
    assert anyio.run(environment.carry_out, episode, second, earlier) is None
