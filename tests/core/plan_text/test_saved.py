"""Saved plans: parameters, arguments, plans in plans, files and their errors."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podium import ChatPlanner, Conductor, FunctionWorker, Plan, Result, ScriptedWorker, load_plan, parse_plan
from podium.config import load_config
from podium.config.plans import plan_to_toml
from podium.errors import ConfigError, PlanInvalid, PlannerError
from podium.plan_text import Parameter, SavedPlan
from podium.planners import FixedPlanner
from podium.workers import FREE, StepInput

WORKERS = ["lister", "echo"]
LIST = {"worker": "lister", "subtask": "List.", "access": [], "returns": {"files": ["string"]}}
REVIEW = SavedPlan(
    name="review",
    description="Reviews files.",
    parameters={
        "repo": Parameter(),
        "files": Parameter(["string"], ["x", "y"]),
        "mode": Parameter("fast|deep", "fast"),
    },
    steps=(
        {"worker": "echo", "subtask": "See {{item}} of {{repo}}.", "access": [], "each": "{{files}}"},
        {"worker": "echo", "subtask": "All {{0}}", "access": [0], "when": {"ref": "{{mode}}", "is": "deep"}},
        {"worker": "echo", "subtask": "Sum {{0}}", "access": [0, 1]},
    ),
)
SUM = '<Sum ["<See x of R.>","<See y of R.>"]>'
CIRCLE = SavedPlan(name="circle", steps=({"plan": "circle", "args": {}, "access": []},))
NAMING = SavedPlan(name="naming", steps=({"worker": "echo", "subtask": "{{doc}}", "access": []},))
STEP = '[[steps]]\nworker = "echo"\nsubtask = "See {{repo}}."\naccess = []\n'
HEAD = f'name = "review"\n[parameters.repo]\n{STEP}'
CONFIG = '[workers.calc]\ntype = "calculator"\n[planner]\ntype = "rule"\n[plans]\n'


def lister(_: StepInput) -> dict[str, list[str]]:
    return {"files": ["a", "b"]}


def conductor(planner: Any = "unused", plans: Any = (REVIEW,), **options: Any) -> Conductor:
    def echo(step: StepInput) -> str:
        return f"<{step.subtask}>"

    workers = [FunctionWorker(each, price=FREE) for each in (lister, echo)]
    planner = FixedPlanner(planner) if isinstance(planner, str) else planner
    return Conductor(planner, workers, plans=plans, **options)


def use(**args: Any) -> dict[str, Any]:
    return {"plan": "review", "args": args, "access": []}


def run(*steps: Mapping[str, Any], **options: Any) -> Result:
    plan = parse_plan(json.dumps({"steps": steps}), workers=WORKERS, strict=True)
    return conductor(**options).run_sync(plan)


def test_a_saved_plan_is_run_with_arguments() -> None:
    result = conductor().run_sync(REVIEW, args={"repo": "R {{0}}", "mode": "deep"})
    assert (result.status, [each.status for each in result.outcomes[:3]]) == ("ok", ["ok", "ok", "ok"])
    assert result.outcomes[3].text == "<See x of R {{0}}.>"
    plan = result.plans[0]
    assert (plan.name, plan.args) == ("review", {"repo": "R {{0}}", "files": ["x", "y"], "mode": "deep"})
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, 'needs a value for repo ("string")'),
        ({"repo": 3}, 'wrong value for repo: the argument 3 does not fit {"type": "string"}'),
        ({"rep": "R"}, "has no parameter 'rep': did you mean 'repo'?"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_paid(args: dict[str, Any], told: str) -> None:
    with pytest.raises(PlanInvalid, match="plan review") as error:
        conductor().run_sync(REVIEW, args=args)
    assert told in str(error.value)
    assert error.value.code == "bad_args"
    with pytest.raises(PlanInvalid) as error:
        run(use(**args))
    assert told in str(error.value)


def test_a_plan_names_saved_plans() -> None:
    """With values of references, and for each item of a list."""
    each = '["<Sum [\\"<See x of a.>\\"]>","<Sum [\\"<See x of b.>\\"]>"]'
    for step, answer in (
        (use(repo="R", files="{{0.files}}"), SUM.replace("x", "a").replace("y", "b")),
        (use(repo="{{item}}", files=["x"]) | {"each": "{{0.files}}"}, each),
    ):
        result = run(LIST, step)
        assert (result.status, result.answer) == ("ok", answer)


def test_values_are_checked_when_they_are_known() -> None:
    """A reference may lead to a value of another type; the step fails, and nothing else is called."""
    result = run(LIST, use(repo="{{0.files}}"))
    assert result.status == "failed"
    problem = result.outcomes[1].problem
    assert (problem.code, len([each for each in result.outcomes if each.attempts])) == ("bad_args", 1)


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("reviews", "unknown_plan", "there is no saved plan 'reviews': did you mean 'review'?"),
        ("circle", "bad_block", "Limits.depth allows 2"),
        ("naming", "bad_reference", "plan naming has no parameter {{doc}}: it has none"),
    ],
)
def test_what_a_plan_cannot_name(name: str, code: str, told: str) -> None:
    plans = [REVIEW, CIRCLE, NAMING]
    first = {"worker": "echo", "subtask": "Go.", "access": []}
    text = json.dumps({"steps": [first, {"plan": name, "args": {}, "access": []}]})
    with pytest.raises(PlanInvalid) as error:
        conductor(plans=plans).run_sync(parse_plan(text, workers=WORKERS))
    assert error.value.code == code
    assert told in str(error.value)
    with pytest.raises(PlannerError) as unplanned:
        conductor(text, plans=plans).run_sync("Go?")
    assert told in str(unplanned.value)


SEEING = SavedPlan(
    name="seeing",
    parameters={"repo": Parameter()},
    steps=(
        {"worker": "echo", "subtask": "Of {{repo}}.", "access": ["outer"]},
        {"worker": "echo", "subtask": "Sum.", "access": [0]},
    ),
)


def seen(*steps: Mapping[str, Any], plans: Any) -> dict[str, list[str]]:
    """Run a plan, and return the subtasks that each step was shown, by its own."""
    found = dict[str, list[str]]()

    def echo(step: StepInput) -> str:
        found[step.subtask] = [each.subtask for each in step.visible]
        return step.subtask

    workers = [FunctionWorker(each, price=FREE) for each in (lister, echo)]
    of = Conductor(FixedPlanner("unused"), workers, plans=plans)
    result = of.run_sync(parse_plan(json.dumps({"steps": steps}), workers=WORKERS, strict=True))
    assert result.status == "ok", result.problem
    return found


def test_a_saved_plan_sees_what_its_step_shows() -> None:
    call = {"plan": "seeing", "args": {"repo": "R"}, "access": [0]}
    assert seen(LIST, call, plans=[SEEING]) == {"Of R.": ["List."], "Sum.": ["Of R."]}
    assert seen(call | {"access": []}, plans=[SEEING])["Of R."] == []
    with pytest.raises(PlanInvalid, match='plan seeing: step 0 lists "outer", and no plan is around it') as e:
        conductor().run_sync(SEEING, args={"repo": "R"})
    assert e.value.code == "bad_access"
    with pytest.raises(PlanInvalid, match=r"{{outer\.0}}"):
        SavedPlan(name="p", steps=({"worker": "echo", "subtask": "{{outer.0}}", "access": ["outer"]},))


def test_a_planner_names_saved_plans() -> None:
    boss = ScriptedWorker("boss", json.dumps(use(repo="R")) + "\n")
    result = conductor(ChatPlanner(boss, workflows=True)).run_sync("Review R.")
    assert (result.status, result.answer) == ("ok", SUM)
    told = boss.requests[0].messages[-1].text
    assert '- review(repo: "string", files: ["string"] = ["x", "y"], mode: "fast|deep" = "fast"): Rev' in told


@pytest.mark.parametrize("question", ["R", '{"repo": "R"}'])
def test_a_question_is_the_arguments(question: str) -> None:
    of = conductor(FixedPlanner(REVIEW), plans=())
    assert (of.run_sync(question).answer, of.run_sync("unused", args={"repo": "R"}).answer) == (SUM, SUM)
    with pytest.raises(PlanInvalid, match="needs a value for repo"):
        of.run_sync("{}")
    with pytest.raises(ConfigError, match="args are given, and no saved plan"):
        conductor().run_sync("Why?", args={"repo": "R"})


def test_a_plan_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "review.toml"
    lines = REVIEW.steps[0] | {"subtask": 'Two\nlines of {{repo}} "quoted" \\ {{item}}'}
    block = {"steps": [{"worker": "echo", "subtask": "In.", "access": []}], "access": []}
    steps = (lines, REVIEW.steps[1], block)
    plan = SavedPlan(name="review", parameters=REVIEW.parameters, steps=steps, when_to_use="Often.")
    path.write_text(plan_to_toml(plan), encoding="utf-8")
    assert load_plan(path) == plan


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (HEAD + '[[steps]]\nworker = "echo"\nsubtask = "x"\naccess = [3]\n', 7, "step 1 lists step 3"),
        (HEAD.replace("subtask", "subtsk"), 3, "did you mean 'subtask'?"),
        (HEAD + '[parameters.n]\ntype = "integer"\ndefault = "x"\n', 7, "wrong value for n: the default"),
    ],
)
def test_errors_of_files_have_their_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    path = tmp_path / "review.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_plan(path)
    assert all(text in str(error.value) for text in (f"{path}:{line}: ", told))


def test_plans_of_a_config(tmp_path: Path) -> None:
    (tmp_path / "review.toml").write_text(HEAD, encoding="utf-8")
    for name, other in (("one", "two"), ("two", "one")):
        steps = f'name = "{name}"\n[[steps]]\nplan = "{other}"\naccess = []\n'
        (tmp_path / f"{name}.toml").write_text(steps, encoding="utf-8")
    path = tmp_path / "podium.toml"
    for lines, told in (
        ('other = "review.toml"\n', ":6: other is the file review.toml, whose name is 'review'"),
        ('gone = "gone.toml"\n', "gone.toml cannot be read: the file does not exist"),
        ('one = "one.toml"\ntwo = "two.toml"\n', "remove one of these"),
    ):
        path.write_text(CONFIG + lines, encoding="utf-8")
        with pytest.raises(ConfigError) as error:
            load_config(path)
        assert told in str(error.value)
