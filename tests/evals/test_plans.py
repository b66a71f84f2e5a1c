"""Recorded plans: their file, and the arm `planner:FILE`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from evals.results.two_specialists import SUMS, VERBS, two_specialists, written
from typer.testing import Result

from podium import Plan, Step
from podium.usage import Usage
from podium_evals.errors import RecordingInvalid
from podium_evals.plans import PlanFile, PlansAbout, RecordedPlan, read_plans

Podium = Callable[..., Result]
ABOUT = PlansAbout(planner="small", workers=("a", "b", "vote"), source="mine")
VOTE = Plan((Step(0, "Answer the question."), Step(1, "Answer the question."), Step(2, "Choose.", (0, 1))))


def write(path: Path, about: PlansAbout, plans: Sequence[RecordedPlan]) -> None:
    async def append() -> None:
        with PlanFile(path, about) as file:
            for plan in plans:
                await file.append(plan)

    anyio.run(append)


def compare(podium: Podium, recording: str, *options: str) -> dict[str, Any]:
    result = podium("evals", "run", recording, "--json", *options)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["arms"][-1]
    return found


def test_an_arm_runs_recorded_plans(podium: Podium, tmp_path: Path) -> None:
    """With the planner's calls, tokens and cost; what is unusable scores 0, what is refused has no score."""
    recordings = two_specialists()
    recording = written(tmp_path, recordings)
    about = PlansAbout(planner="small", workers=(VERBS, SUMS, "vote"))
    facts: dict[str, Any] = {"usage": Usage(200, 10), "seconds": 1.0, "cost": 0.5}
    right = [
        RecordedPlan(
            query=each.key, plan=Plan((Step(int(each.kind.startswith("sums")), each.text),)), **facts
        )
        for each in recordings.questions
    ]
    write(tmp_path / "right.jsonl", about, right)
    found = compare(podium, recording, "--arms", f"best,planner:{tmp_path}/right.jsonl")
    assert (found["name"], found["score"]["mean"], found["recorded"]) == ("plans of right", 1.0, 40)
    assert (found["calls"], found["tokens"] > 210) == (2, True)
    unusable = [
        RecordedPlan(query=each.query, plan=None, problem=("planner_unusable", "no plan")) for each in right
    ]
    write(tmp_path / "some.jsonl", about, unusable)
    some = compare(podium, recording, "--arms", f"best,planner:{tmp_path}/some.jsonl")
    assert (some["score"]["mean"], some["recorded"]) == (0.0, 40)
    refused = RecordedPlan(query=right[0].query, plan=None, problem=("planner_refused", "no"))
    write(tmp_path / "less.jsonl", about, [refused, *right[1:]])
    less = compare(podium, recording, "--arms", f"best,planner:{tmp_path}/less.jsonl")
    assert less["recorded"] == 39
    strange = tmp_path / "strange.jsonl"
    write(strange, ABOUT, [RecordedPlan(query=each.query, plan=VOTE) for each in right])
    lacking = compare(podium, recording, "--arms", f"best,planner:{strange}")
    assert "the plan needs the worker 'a', which is not in this pool" in lacking["unrecorded"]
    for name, told in (("none.jsonl", "none.jsonl cannot be read"), ("", "name a file after planner:")):
        missing = podium("evals", "run", recording, "--arms", f"planner:{name}")
        assert (missing.exit_code, told in missing.stderr) == (2, True)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """With votes, problems, and the usage; the first plan of a query counts, and a cut line does not."""
    path = tmp_path / "p.jsonl"
    made = (
        RecordedPlan(query="q0", plan=VOTE, text="…", usage=Usage(5, 6), cost=0.5, seconds=1.5),
        RecordedPlan(query="q1", plan=None, text="no", problem=("planner_unusable", "no plan"), calls=2),
        RecordedPlan(query="q0", plan=None, problem=("planner_refused", "no"), cost=None),
    )
    write(path, ABOUT, made[:2])
    path.write_bytes(path.read_bytes() + b'{"type": "plan", "que')  # as if its writer was killed
    write(path, ABOUT, made[2:])
    read = read_plans(path)
    assert (read.about, list(read.of_query.values())) == (ABOUT, list(made[:2]))
    for changed in ({"planner": "large"}, {"workers": ("a",)}, {"is_told": False}):
        other = PlansAbout(**{"planner": "small", "workers": ABOUT.workers, **changed})  # type: ignore[arg-type]
        with pytest.raises(RecordingInvalid, match=f"has plans whose {next(iter(changed))} is"):
            write(path, other, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty"),
        ("plans\n", "does not begin with"),
        ('{"type": "plans", "version": 2}\n', "version"),
        ('HEAD{"type": "plan", "query": "q", "steps": null, "problem": null}\n', "line 2"),
        ('HEAD{"steps": [{"worker": "z"}], "problem": null, "query": "q"}\n', "line 2"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p.jsonl"
    head = (
        '{"type": "plans", "version": 1, "planner": "p", "workers": ["a"], "is_told": true, "source": ""}\n'
    )
    path.write_text(text.replace("HEAD", head))
    with pytest.raises(RecordingInvalid, match=told):
        read_plans(path)
