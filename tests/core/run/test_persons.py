"""Persons as workers: their questions wait, and their answers are the outputs of the steps."""

import json
from collections.abc import Sequence

import anyio
import pytest
from core.actors import problem_of

from podium import ChatPlanner, Conductor, Limits, Plan, Retry, ScriptedWorker, Step, parse_plan
from podium.errors import ConfigError, QueryError
from podium.journal import MemoryJournal, export
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.run_state import fold
from podium.types import ApprovalAsked
from podium.workers import PersonWorker, Worker, step_input_of

pytestmark = pytest.mark.anyio
PLAN = Plan((Step(0, "Find a date."), Step(1, "Is the date good?", (0,)), Step(0, "Answer.", (0, 1))))


def model() -> ScriptedWorker:
    said = {"Find": "3 May", "Answer.": "We meet.", "Send.": "sent", "List.": '["a", "b"]'}
    return ScriptedWorker("model", lambda asked: said[step_input_of(asked).subtask.split()[0]])


def office(*persons: Worker, plan: Plan = PLAN, journal: MemoryJournal | None = None) -> Conductor:
    return Conductor(FixedPlanner(plan), [model(), *persons], journal=journal, retry=Retry(attempts=1))


def planned(*steps: dict[str, object]) -> Plan:
    text = json.dumps({"steps": [{"access": [], **step} for step in steps]})
    return parse_plan(text, workers=("model", "ann"))


async def waiting(journal: MemoryJournal) -> Sequence[ApprovalAsked]:
    return fold(entry.event for entry in await journal.read("run")).waiting


async def test_a_question_waits_in_the_journal() -> None:
    async with MemoryJournal() as journal:
        conductor = office(PersonWorker("ann"), journal=journal)
        result = await conductor.run("When?", run_id="run")
        assert result.status == "waiting"
        assert problem_of(result).message.startswith("step 1 waits for an answer: Is the date good?")
        (asked,) = await waiting(journal)
        assert asked.asked == "Is the date good?\n\nStep 0: Find a date.\n3 May"
        with pytest.raises(ConfigError, match="step 1 asks a question"):
            await conductor.decide("run", approved=True)
        with pytest.raises(QueryError, match="is empty"):
            await conductor.decide("run", answer=" ")
        await conductor.decide("run", answer="Yes.", by="ann@office")
        result = await conductor.resume("run")
        assert (result.answer, result.status) == ("We meet.", "ok")
        told = result.outcomes[1]
        assert (told.text, told.worker, told.cost, told.attempts) == ("Yes.", "ann", 0.0, 0)
        assert "Yes." in conductor.pool[0].requests[-1].messages[-1].text  # type: ignore[attr-defined]
        assert await conductor.resume("run") == result
        lines = [json.loads(line) async for line in export(journal, ["run"])]
        (given,) = [line for line in lines if "approval_given" in json.dumps(line)]
        assert "ann@office" in json.dumps(given)
        assert given["at"] > 0


async def test_other_steps_go_on_and_items_ask_for_themselves() -> None:
    plan = planned(
        {"worker": "model", "subtask": "List.", "returns": ["string"]},
        {"worker": "ann", "subtask": "Is {{item}} good?", "each": "{{0}}", "returns": "yes|no"},
        {"worker": "model", "subtask": "Send.", "access": []},
        {"worker": "model", "subtask": "Answer.", "access": [1, 2]},
    )
    async with MemoryJournal() as journal:
        conductor = office(PersonWorker("ann"), plan=plan, journal=journal)
        result = await conductor.run("What?", run_id="run")
        assert (result.status, result.outcomes[2].text) == ("waiting", "sent")
        assert [asked.name for asked in await waiting(journal)] == ["1[0]", "1[1]"]
        with pytest.raises(ConfigError, match=r"steps 1\[0\], 1\[1\]"):
            await conductor.decide("run", answer="yes")
        with pytest.raises(QueryError, match="does not fit"):
            await conductor.decide("run", answer="perhaps", action="1[1]")
        await conductor.decide("run", answer="no", action="1[1]")
        assert (await conductor.resume("run")).status == "waiting"
        assert [asked.name for asked in await waiting(journal)] == ["1[0]"]
        await conductor.decide("run", answer="yes", action="1[0]")
        result = await conductor.resume("run")
        assert (result.status, result.outcomes[1].text) == ("ok", '["yes","no"]')


async def test_nobody_is_asked_before_the_plan_is_accepted() -> None:
    asked = list[str]()

    async def ask(question: ApprovalAsked) -> str:
        asked.append(question.asked)
        return "yes"

    planner = ScriptedWorker("planner", '{"worker": 1, "subtask": "Good?", "access": []}\n', piece=8)
    pool = [model(), PersonWorker("ann", ask=ask)]
    refused = Conductor(ChatPlanner(planner), pool, policy=Policy(approve=lambda _: "no"))
    assert (await refused.run("What?")).status == "failed"
    assert not asked
    result = await Conductor(ChatPlanner(planner), pool).run("What?")
    assert (result.answer, result.status, asked) == ("yes", "ok", ["Good?"])


async def test_the_deadline_of_a_question() -> None:
    for otherwise, status in (("no", "ok"), (None, "partial")):
        async with MemoryJournal() as journal:
            ann = PersonWorker("ann", choices=("yes", "no"), deadline=0.1, otherwise=otherwise)
            conductor = office(ann, journal=journal)
            assert (await conductor.run("When?", run_id="run")).status == "waiting"
            await anyio.sleep(0.15)
            with pytest.raises(QueryError, match="the time to answer step 1 is over"):
                await conductor.decide("run", answer="yes")
            result = await conductor.run("When?", run_id="run")  # as `resume`
            assert (result.status, result.outcomes[1].text) == (status, otherwise or "")
            problem = result.outcomes[1].problem
            assert otherwise or (problem is not None and problem.code == "unanswered")
            assert not await waiting(journal)


async def test_persons_need_no_calls() -> None:
    asks = {"worker": "ann", "subtask": "Is {{item}} good?"}
    plan = planned(
        {"worker": "model", "subtask": "List.", "returns": ["string"]},
        {**asks, "each": "{{0}}"},
        {"worker": "model", "subtask": "Answer.", "access": [1]},
    )
    async with MemoryJournal() as journal:
        conductor = office(PersonWorker("ann"), plan=plan, journal=journal)
        result = await conductor.run("What?", run_id="run", limits=Limits(calls=2))
        assert (result.status, conductor.forecast(plan).calls.low) == ("waiting", 2)
        for asked in await waiting(journal):
            await conductor.decide("run", answer="yes", action=asked.name)
        assert (await conductor.resume("run")).status == "ok"
        assert "ann" not in conductor.forecast(plan).guessed


async def test_a_person_needs_a_journal_or_a_way_to_ask() -> None:
    conductor = office(PersonWorker("ann"))
    with pytest.raises(ConfigError, match="no journal"):
        await conductor.run("When?")
    assert not conductor.pool[0].requests  # type: ignore[attr-defined]
    broken = ScriptedWorker("broken", RuntimeError("no"))
    retry = Retry(attempts=3, fallbacks={"broken": ["ann"]}, fallback_on={"worker_failed"})
    pool = [broken, PersonWorker("ann")]
    async with MemoryJournal() as journal:
        alone = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), pool, retry=retry, journal=journal)
        result = await alone.run("What?")
    assert (result.status, result.outcomes[0].worker) == ("failed", "broken")
    with pytest.raises(ConfigError, match="one of the choices"):
        PersonWorker("ann", choices=["yes"], deadline=1.0, otherwise="no")
