"""Recorded plans: `podium evals record plans`, its file, and the arm `planner:FILE`."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from evals.results.two_specialists import SUMS, VERBS, two_specialists, written
from servers.chat_server import Call, ChatServer, Pause, Reply, says, whole
from typer.testing import Result

from podium import Plan, Step
from podium.usage import Usage
from podium_evals.errors import RecordingInvalid
from podium_evals.plans import PlanFile, PlansAbout, RecordedPlan, read_plans

Podium = Callable[..., Result]
ABOUT = PlansAbout(planner="small", workers=("a", "b", "vote"), source="mine")
VOTE = Plan((Step(0, "Answer the question."), Step(1, "Answer the question."), Step(2, "Choose.", (0, 1))))


def row(worker: int, subtask: str, access: list[int] | None = None) -> str:
    """Return a step of a plan text."""
    return json.dumps({"worker": worker, "subtask": subtask, "access": access or []}) + "\n"


def question_of(call: Call) -> str:
    """Return the question at the end of a planner's prompt."""
    asked: str = next(
        message["content"]
        for message in reversed(call.body["messages"])
        if "THE USER'S QUESTION" in message["content"]
    )
    return asked[asked.rindex("THE USER'S QUESTION") :]


def specialist(call: Call) -> str:
    """Return the plan with the worker that is right."""
    return row(int("sums" in question_of(call)), "Answer the question.")


def plans(call: Call) -> Reply:
    """Answer with that plan."""
    return says(call, specialist(call))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve a model that plans."""
    with ChatServer(plans).in_thread() as serving:
        yield serving


@pytest.fixture
def recording(config: Path) -> str:
    """Write a recording beside the config."""
    return written(config.parent, two_specialists())


def arm(podium: Podium, recording: str, *options: str) -> dict[str, Any]:
    """Return the last arm of a comparison."""
    result = podium("evals", "run", recording, "--json", *options)
    assert result.exit_code == 0, result.stderr
    (*_, last) = json.loads(result.stdout)["arms"]
    assert isinstance(last, dict)
    return last


def test_recorded_plans_are_the_planner(podium: Podium, recording: str, server: ChatServer) -> None:
    """The arm is what the same planner is live; a second command asks nothing."""
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--questions", "10")
    result = podium(*asking)
    assert result.exit_code == 0, result.stderr
    told = " ".join(result.stderr.split())
    assert "recorded 10 plans in p.jsonl, with 10 calls at an unknown cost; 0 were recorded before" in told
    assert "of these 10, 10 have recorded answers, and 0 are not usable plans" in told
    again = podium(*asking, "--json")
    assert (again.exit_code, json.loads(again.stdout)["already"], len(server.calls)) == (0, 10, 10)
    kept = arm(podium, recording, "--questions", "10", "--arms", "best,planner:p.jsonl")
    assert len(server.calls) == 10
    live = arm(podium, recording, "--questions", "10", "--arms", "best", "--planner", "podium.toml")
    assert (kept["name"], kept["score"]["mean"], kept["recorded"]) == ("plans of p", 1.0, 10)
    for figure in ("score", "difference", "calls", "tokens", "cost", "kinds"):
        assert kept[figure] == live[figure], figure
    assert (kept["calls"], kept["tokens"]) == (2, 218 + 110)


@pytest.mark.long
def test_unrecorded_plans_are_counted_and_not_scored(
    podium: Podium, recording: str, server: ChatServer
) -> None:
    """A text without a plan scores 0; a rephrased subtask and a refusal are not scored."""

    def reply(call: Call) -> Reply:
        number = int(re.findall(r"(\d+)\?", question_of(call))[0])
        if number % 4 == 0:
            return says(call, "I would rather not plan.")
        if number % 4 == 1:
            return says(call, row(0, "Think about it in detail."))
        if number % 4 == 2:
            return says(call, "", finish_reason="content_filter")
        return says(call, specialist(call))

    server.reply = reply
    result = podium("evals", "record", "plans", recording, "--out", "p.jsonl", "--trained", "--json")
    assert result.exit_code == 0, result.stderr
    read = read_plans("p.jsonl")
    problems = [plan.problem[0] if plan.problem else "" for plan in read.of_query.values()]
    told = json.loads(result.stdout)
    unusable, refused = problems.count("planner_unusable"), problems.count("planner_refused")
    assert unusable > 0
    assert refused > 0
    assert (told["recorded"], told["unusable"]) == (40, unusable + refused)
    found = arm(podium, recording, "--arms", "best,planner:p.jsonl")
    assert found["recorded"] == told["answerable"] + unusable
    assert found["score"]["mean"] == pytest.approx(told["answerable"] / found["recorded"])
    assert (found["difference"], found["questions"]) == (None, 40)
    shown = podium("evals", "run", recording, "--arms", "best,planner:p.jsonl")
    told = " ".join(shown.stdout.split())
    assert f"plans of p: {40 - found['recorded']} of 40 are not recorded, the first because " in told
    assert f"On the other {found['recorded']}, the best single has ." in told


def test_bundles_are_split_by_plans(podium: Podium, recording: str, server: ChatServer) -> None:
    """Each part alone to its specialist, and the answers joined."""

    def split(call: Call) -> Reply:
        parts = re.findall(r"Part (\d+):\n(\w+)", question_of(call))
        steps = [row(int(kind == "sums"), f"{{{{part_{number}}}}}") for number, kind in parts]
        return says(call, "".join(steps) + row(6, "Join the answers.", list(range(len(steps)))))

    server.reply = split
    same = ("--bundles", "6", "--seed", "3")
    result = podium("evals", "record", "plans", recording, "--out", "p.jsonl", *same)
    assert result.exit_code == 0, result.stderr
    assert "of these 6, 6 have recorded answers" in " ".join(result.stderr.split())
    assert "each part in a step of its own" in server.calls[0].body["messages"][-1]["content"]
    found = arm(podium, recording, *same, "--arms", "best,planner:p.jsonl")
    assert (found["recorded"], found["score"]["mean"]) == (6, 1.0)
    other = podium("evals", "run", recording, "--arms", "best,planner:p.jsonl")
    assert "none of its 6 plans is for a question of this comparison" in " ".join(other.stdout.split())


def test_a_budget_stops_it_and_the_next_command_goes_on(podium: Podium, recording: str) -> None:
    """With the exit code of a partial answer."""
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--questions", "9")
    result = podium(*asking, "--calls", "4", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["recorded"], told["left"], told["calls"]) == (3, 4, 5, 4)
    shown = podium(*asking, "--calls", "1")
    assert (shown.exit_code, "podium: 4 plans were not asked for: " in shown.stderr) == (3, True)
    assert podium(*asking).exit_code == 0
    assert len(read_plans("p.jsonl").of_query) == 9


def test_a_limit_of_the_cost(podium: Podium, recording: str, config: Path, server: ChatServer) -> None:
    """It needs the price of the model; a call is made only if its worst case fits."""
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--cost", "0.03", "--json")
    result = podium(*asking)
    assert (result.exit_code, server.calls) == (3, [])
    assert "price" in json.loads(result.stdout)["stopped"]
    text = config.read_text().replace('model = "small"', 'model = "small"\nprice = { input = 1, output = 5 }')
    config.write_text(text)
    told = json.loads(podium(*asking).stdout)
    assert 0 < told["recorded"] < 40
    assert told["cost"] <= 0.03
    assert server.calls[0].body["max_tokens"] == 4096
    assert len(server.calls) == told["recorded"]


def test_a_server_that_is_down_is_not_asked_for_each_question(
    podium: Podium, recording: str, server: ChatServer
) -> None:
    """It ends after as many failures in a row as calls at the same time; nothing is recorded of them."""
    server.reply = lambda _call: whole({"error": {"message": "no such model"}}, status=404)
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--at-once", "3")
    result = podium(*asking)
    assert result.exit_code == 3
    asked = len(server.calls)
    assert 3 <= asked <= 5  # two calls begin before the third failure is known
    told = " ".join(result.stderr.split())
    assert f"{asked} failed: " in told
    assert re.search(rf"{40 - asked} plans were not asked for: the last [345] calls failed", told)
    assert read_plans("p.jsonl").of_query == {}


def slowly(call: Call) -> Reply:
    """Plan after a while."""
    return Reply([Pause(0.15), *plans(call).parts])


@pytest.mark.long
def test_a_killed_command_goes_on(
    podium: Podium, recording: str, server: ChatServer, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """What was recorded is not paid for again: only calls in flight at the kill are."""
    server.reply = slowly
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--at-once", "2")
    process = spawn(*asking)
    out, until = Path("p.jsonl"), time.monotonic() + 60
    while not (out.exists() and out.read_text().count('"type": "plan"') >= 5):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.wait()
    out.write_bytes(out.read_bytes() + b'{"type": "plan", "que')  # as if it died while it wrote
    kept = len(read_plans(out).of_query)
    server.reply = plans
    result = podium(*asking, "--json")
    assert (result.exit_code, json.loads(result.stdout)["already"]) == (0, kept)
    assert len(read_plans(out).of_query) == 40
    assert len(server.calls) <= 40 + 2


def test_plans_of_different_planners_are_not_mixed(podium: Podium, recording: str, config: Path) -> None:
    """Nor those for another pool, nor those with another prompt."""
    asking = ("evals", "record", "plans", recording, "--out", "p.jsonl", "--questions", "4")
    assert podium(*asking).exit_code == 0
    before = Path("p.jsonl").read_bytes()
    for option, told in (
        (("--trained",), "that was told which plans have recorded answers, but this planner is not told"),
        (("--pool", f"{VERBS},{SUMS}"), f"but this pool has {VERBS}, {SUMS}, vote"),
    ):
        result = podium(*asking, *option)
        assert (result.exit_code, told in " ".join(result.stderr.split())) == (2, True), result.stderr
    config.write_text(config.read_text().replace('worker = "thinker"', 'worker = "speaker"'))
    assert "of the planner 'thinker', but this planner is 'speaker'" in " ".join(
        podium(*asking).stderr.split()
    )
    Path("notes.txt").write_text("not mine")
    wrong = podium("evals", "record", "plans", recording, "--out", "notes.txt")
    assert (wrong.exit_code, "notes.txt is not a file of plans" in wrong.stderr) == (2, True)
    assert (Path("p.jsonl").read_bytes(), Path("notes.txt").read_text()) == (before, "not mine")


def test_a_planner_without_a_model_is_not_told(podium: Podium, recording: str, config: Path) -> None:
    """It would read the text as a part of the question; its plans cost nothing."""
    config.write_text(config.read_text().replace('worker = "thinker"', 'type = "rule"'))
    result = podium("evals", "record", "plans", recording, "--out", "p.jsonl", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["recorded"], told["answerable"], told["calls"], told["cost"]) == (40, 40, 0, 0)
    assert not read_plans("p.jsonl").about.is_told


@pytest.mark.long
def test_a_worker_that_the_pool_lacks_is_unrecorded(podium: Podium, recording: str) -> None:
    """The plan needs it; other plans are scored, whatever the order of the pool."""
    assert podium("evals", "record", "plans", recording, "--out", "p.jsonl").exit_code == 0
    found = arm(podium, recording, "--pool", f"nobody,{SUMS}", "--arms", "best,planner:p.jsonl")
    assert 0 < found["recorded"] < 40
    assert found["score"]["mean"] == 1.0
    assert found["base_score"] == 1.0  # on these questions; it has half of all
    assert f"the plan needs the worker {VERBS!r}, which is not in this pool" in found["unrecorded"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """With votes, problems, and the usage; the first plan of a query counts."""
    made = (
        RecordedPlan(query="q0", plan=VOTE, text="…", usage=Usage(5, 6), cost=0.5, seconds=1.5),
        RecordedPlan(query="q1", plan=None, text="no", problem=("planner_unusable", "no plan"), calls=2),
        RecordedPlan(query="q0", plan=None, problem=("planner_refused", "no"), cost=None),
    )

    async def write() -> None:
        with PlanFile(tmp_path / "p.jsonl", ABOUT) as file:
            for plan in made:
                await file.append(plan)

    anyio.run(write)
    read = read_plans(tmp_path / "p.jsonl")
    assert (read.about, list(read.of_query.values())) == (ABOUT, list(made[:2]))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no complete line"),
        ("plans\n", "line 1 is not a line of a file of plans"),
        ('{"type": "recording", "version": 1}\n', "not a file of plans"),
        ('{"type": "plans", "version": 2}\n', "version"),
        ('{"type": "plans", "version": 1, "planner": "p"}\n', "'workers'"),
        ("HEAD[]\n", "line 2 cannot be read"),
        ('HEAD{"type": "plan", "query": "q", "steps": null, "problem": null}\n', "line 2"),
        ('HEAD{"steps": [{"worker": "z"}], "problem": null, "asked_on": null, "query": "q"}\n', "line 2"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    """With the place."""
    path = tmp_path / "p.jsonl"
    head = (
        '{"type": "plans", "version": 1, "planner": "p", "workers": ["a"], "is_told": true, "source": ""}\n'
    )
    path.write_text(text.replace("HEAD", head))
    with pytest.raises(RecordingInvalid, match=told):
        read_plans(path)


def test_wrong_options_are_told(podium: Podium, recording: str) -> None:
    """Before anything is asked."""
    for options, told in (
        (("--split", "days"), "--split 'days'"),
        (("--pool", "nobody,else"), "the recording has no worker 'else'"),
        (("--bundles", "90"), "too few questions or kinds left"),
        (("--config", "missing.toml"), "missing.toml"),
    ):
        result = podium("evals", "record", "plans", recording, "--out", "p.jsonl", *options)
        assert result.exit_code in (1, 2)
        assert told in result.stderr, result.stderr
    assert not Path("p.jsonl").exists()
    for name, told in (("none.jsonl", "none.jsonl cannot be read"), ("", "name a file after planner:")):
        missing = podium("evals", "run", recording, "--arms", f"planner:{name}")
        assert (missing.exit_code, told in missing.stderr) == (2, True)
    device = podium("evals", "record", "plans", recording, "--out", "/dev/full")
    assert (device.exit_code, "it is not a regular file" in device.stderr) == (2, True)
