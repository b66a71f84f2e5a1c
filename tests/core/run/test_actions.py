"""Actions: steps whose worker may change something. They happen once, and when the accepted plan says so."""

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from core.actors import Shop, boss, plan_of, problem_of, rows, told
from core.run_state.test_resume import prefix, recorded

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, Result, Retry, Step
from podium.errors import ConfigError, QueryError, ToolFailed, WorkerActs, WorkerTimeout, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import ApprovalRequest, Policy
from podium.run import decide
from podium.run_state import fold
from podium.types import Completion, Event, Problem, StepEnded, StepStarted
from podium.workers import FREE, Request, ScriptedWorker, StepInput, Worker

pytestmark = pytest.mark.anyio
ONCE = Retry(attempts=1)


def writer(name: str = "writer", text: str | Exception = "text") -> ScriptedWorker:
    return ScriptedWorker(name, text)


def refund(order: object = 1017, *access: int) -> tuple[int, str, tuple[int, ...]]:
    return (1, json.dumps({"order": order}), access)


async def run(
    planner: ChatPlanner | Plan, *workers: Worker, events: list[Event] | None = None, **options: Any
) -> Result:
    options.setdefault("retry", ONCE)
    if isinstance(planner, Plan):
        conductor = Conductor(FixedPlanner(planner), workers, **options)
    else:
        conductor = Conductor(planner, workers, **options)
    return await conductor.run("What?", on_event=None if events is None else events.append)


def ends(result: Result) -> list[tuple[str, str]]:
    return [(action.worker, action.end) for action in result.actions]


class TestNoActionBeforeThePlanIsAccepted:
    """Models still start early."""

    async def test_a_repaired_plan_without_the_action_does_not_act(self) -> None:
        shop, model = Shop(), writer()
        started = rows((0, "Write.", ()), refund()) + '{"worker": 9, "subtask": "x", "access": []}\n'
        result = await run(boss(started, rows((0, "Write.", ())), piece=8), model, shop.worker)
        assert (result.status, shop.refunds, len(model.requests)) == ("ok", [], 1)


class TestEachActionIsCarriedOut:
    """Or the run says which was not."""

    async def test_an_unseen_action_that_fails(self) -> None:
        shop = Shop(ToolFailed("no such order", maybe_paid=True))
        result = await run(plan_of(refund(), (0, "Write.", ())), writer(), shop.worker)
        assert (result.status, result.answer, ends(result)) == ("partial", "text", [("refund", "failed")])
        assert "step 0 (refund)" in problem_of(result).message
        assert "no such order" in problem_of(result).message

    async def test_the_failure_of_another_step_does_not_stop_an_action(self) -> None:
        shop = Shop(seconds=0.05)
        plan = plan_of(refund(), (2, "Break.", ()), (0, "Write.", (1,)))
        broken = ScriptedWorker("broken", WorkerUnavailable("down"), latency=0.01)
        result = await run(plan, writer(), shop.worker, broken, on_failure="fail")
        assert (result.status, ends(result)) == ("failed", [("refund", "done")])


FROM_WHOLE = "an action is carried out only from complete inputs"
GAPS: dict[str, Callable[[], tuple[Worker, Plan]]] = {
    "step 0 failed": lambda: (
        writer("reader", WorkerUnavailable("down")),
        plan_of((2, "Read.", ()), (0, "Draft.", ()), refund(1, 0, 1), (0, "Write.", (1,))),
    ),
    "step 1 is incomplete": lambda: (
        writer("reader", Completion("half", finish_reason="length")),  # type: ignore[arg-type]
        plan_of((2, "Read.", ()), (0, "Draft.", (0,)), refund(1, 1), (0, "Write.", ())),
    ),
}


class TestNeverFromAGap:
    """An action with an incomplete input is skipped, and the run is partial."""

    @pytest.mark.parametrize("gap", GAPS)
    async def test_gaps(self, gap: str) -> None:
        shop, (reader, plan) = Shop(), GAPS[gap]()
        result = await run(plan, writer(), shop.worker, reader)
        assert (result.status, shop.refunds, result.actions) == ("partial", [], ())
        assert "refund" in problem_of(result).message
        assert problem_of(result).message.count("step 0 (reader)") == 1
        (skipped,) = [outcome.problem for outcome in result.outcomes if outcome.worker == "refund"]
        assert skipped == Problem("dependency", f"{FROM_WHOLE}: {gap}")

    @pytest.mark.parametrize("reader", ["the action", "its input", "no step"])
    async def test_the_previous_round(self, reader: str) -> None:
        shop, first = Shop(), rows((2, "Read.", ()))
        found = writer("reader", Completion("half", finish_reason="length"))  # type: ignore[arg-type]
        draft = Step(0, "Draft.", previous=reader == "its input")
        action = Step(1, '{"order": 1}', (0,), previous=reader == "the action")
        second = write_plan(Plan((draft, action, Step(0, "Write."))), "rows")
        result = await run(boss(first, second), writer(), shop.worker, found, limits=Limits(rounds=2))
        acts = reader == "no step"
        assert (shop.refunds, len(result.rounds)) == ([1] if acts else [], 2)
        lacks = {"the action": "the previous round is incomplete", "its input": "step 0 is incomplete"}
        problem = None if acts else Problem("dependency", f"{FROM_WHOLE}: {lacks[reader]}")
        assert result.rounds[1].outcomes[1].problem == problem

    async def test_tools_of_the_caller_are_not_offered_from_a_gap(self) -> None:
        reader, model = writer("reader", WorkerUnavailable("down")), writer()
        model.takes_tools = True
        plan = plan_of((1, "Read.", ()), (0, "Draft.", ()), (0, "Write.", (0, 1)))
        conductor = Conductor(FixedPlanner(plan), [model, reader], retry=ONCE)
        tool = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}
        await conductor.run("What?", tools=[tool])
        assert [request.tools is not None for request in model.requests] == [True, False]


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_worker_that_turns_out_to_act(*, is_whole: bool) -> None:
    class Served(Worker):
        acts, card, calls = False, Card(name="served", price=FREE), 0

        async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
            self.calls += 1
            if not self.acts:
                self.acts = True
                raise WorkerActs("the step is an action")
            yield Completion("done")

    served, found = Served(), "read" if is_whole else Completion("half", finish_reason="length")
    plan = plan_of((2, "Read.", ()), (1, "Act.", (0,)), (0, "Write.", (1,)), (0, "Check.", (2, 0)))
    result = await run(plan, writer(), served, writer("reader", found))  # type: ignore[arg-type]
    assert (served.calls, ends(result)) == ((2, [("served", "done")]) if is_whole else (1, []))
    *outcomes, refused = result.outcomes
    assert (refused.step, refused.status, refused.attempts) == (1, "cancelled", 1)
    assert [one.status for one in outcomes] == ["ok", *(["ok", "ok"] if is_whole else ["skipped"] * 2), "ok"]
    if is_whole:
        assert (result.status, outcomes[1].attempts) == ("ok", 2)


class TestAsOftenAsOnePlanAsks:
    """Equal actions of later plans are the same actions."""

    async def test_another_plan_after_a_failure(self) -> None:
        shop, broken = Shop(), writer("broken", WorkerUnavailable("down"))
        first = rows(refund(), refund(), (2, "Break.", ()), (0, "Write.", (2,)))
        again = ['{"order": "1017"}', '{ "order" : 1017.0 }', '{"order": 1017}']
        second = rows(*[(1, each, ()) for each in again], (0, "Write.", (0,)))
        planner, events = boss(first, second), list[Event]()
        result = await run(planner, writer(), shop.worker, broken, on_failure="replan", events=events)
        assert (result.status, shop.refunds) == ("ok", [1017, 1017, 1017])
        later = [event.outcome for event in events if isinstance(event, StepEnded) and event.round == 2]
        assert [outcome.reused for outcome in later if outcome.action] == [True, True, False]
        assert 'refund {"order": 1017}: done' in told(planner)

    async def test_an_agent_is_asked_in_other_words(self) -> None:
        agent = writer("agent", "done")
        agent.acts = True
        texts = [
            rows((1, words, ()), (0, "Write.", (0,))) for words in ("Refund 1017.", "Please refund 1017.")
        ]
        planner = boss(*texts)
        result = await run(planner, writer(), agent, limits=Limits(rounds=2))
        assert (result.status, len(agent.requests)) == ("partial", 2)
        assert problem_of(result).code == "acted_again"
        assert "'Refund 1017.'" in problem_of(result).message
        assert "'Please refund 1017.'" in problem_of(result).message
        assert "agent Refund 1017.: done" in told(planner)


class TestRetries:
    """An attempt that certainly did not reach the worker may be repeated, and no other."""

    @pytest.mark.parametrize(
        ("error", "calls", "end"),
        [
            (WorkerUnavailable("refused"), 2, "done"),
            (WorkerUnavailable("lost", maybe_paid=True), 1, "unknown"),
            (ToolFailed("no such order", maybe_paid=True), 1, "failed"),
            (ValueError("no such order"), 1, "failed"),
            (WorkerUnavailable("of order", status=503), 1, "unknown"),
            (WorkerUnavailable("busy", status=429), 2, "done"),
            (TimeoutError("late"), 1, "unknown"),
        ],
    )
    async def test_errors(self, error: Exception, calls: int, end: str) -> None:
        shop = Shop(error)
        retry = Retry(
            attempts=3,
            first_wait=0.001,
            retry_on=frozenset({"worker_unavailable", "worker_timeout", "worker_failed", "tool_failed"}),
        )
        result = await run(plan_of(refund(), (0, "Write.", ())), writer(), shop.worker, retry=retry)
        assert (len(shop.refunds), ends(result)) == (calls, [("refund", end)])
        assert result.status == ("ok" if end == "done" else "partial")

    async def test_a_call_that_has_sent_a_piece(self) -> None:
        class Streaming(Worker):
            acts, card, calls = True, Card(name="refund", price=FREE), 0

            async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
                self.calls += 1
                yield "I refund "
                raise WorkerUnavailable("busy")

        worker, retry = Streaming(), Retry(attempts=3, first_wait=0.001)
        result = await run(plan_of((1, "Refund it.", ()), (0, "Write.", ())), writer(), worker, retry=retry)
        assert (worker.calls, ends(result)) == (1, [("refund", "unknown")])

    async def test_an_action_that_takes_too_long(self) -> None:
        shop, model = Shop(seconds=5), writer()
        plan = plan_of(refund(), (0, "Draft.", ()), (0, "Write.", (0, 1)))
        limits = Limits(step_seconds=0.3, rounds=2)
        planner = boss(
            rows(*[(s.worker, s.subtask, s.access) for s in plan.steps]), rows(refund(), (0, "W.", ()))
        )
        result = await run(planner, model, shop.worker, limits=limits)
        assert (result.status, shop.refunds, ends(result)) == ("partial", [1017], [("refund", "unknown")])
        assert "it is not known whether it was done" in model.requests[1].messages[-1].text
        assert "not known whether it is done" in told(planner)
        assert f"{result.run_id} --action 0 --round 2 done|not-done" in problem_of(result).message


async def test_a_decision_names_the_round() -> None:
    late = [WorkerTimeout("late", maybe_paid=True) for _ in range(2)]
    shop, journal = Shop(*late), MemoryJournal()
    planner = boss(*[rows(refund(order), (0, "Write.", (0,))) for order in (1, 2)])
    conductor = Conductor(planner, [writer(), shop.worker], journal=journal, retry=ONCE, on_failure="replan")
    result = await conductor.run("What?")
    assert ends(result) == [("refund", "unknown")] * 2
    said = problem_of(result).message
    assert said.count(f"podium decide {result.run_id} --action 0 --round 1 done|not-done") == 1
    assert said.endswith("; decide in the same way on step 0 of round 2")
    with pytest.raises(ConfigError, match=r"in the rounds \[1, 2\]: name the round"):
        await conductor.decide(result.run_id, action=0, done=False)
    await conductor.decide(result.run_id, action=0, round=1, done=True)
    await conductor.decide(result.run_id, action=0, done=False)
    result = await conductor.resume(result.run_id)
    assert (shop.refunds, ends(result)) == ([1, 2], [("refund", "done")])


@pytest.mark.parametrize("done", [True, False])
async def test_a_person_decides_on_an_unknown_end(*, done: bool) -> None:
    shop, journal = Shop(WorkerTimeout("late", maybe_paid=True)), MemoryJournal()
    plan = FixedPlanner(plan_of(refund(), (0, "Write.", (0,))))
    conductor = Conductor(plan, [writer(), shop.worker], journal=journal, retry=ONCE)
    result = await conductor.run("What?")
    assert (result.status, ends(result)) == ("failed", [("refund", "unknown")])
    again = await conductor.resume(result.run_id)
    assert (again.status, shop.refunds) == ("failed", [1017])
    assert "not known whether" in problem_of(again).message
    await conductor.decide(result.run_id, action=0, done=done, by="ann")
    resumed = await conductor.resume(result.run_id)
    assert (resumed.status, resumed.answer) == ("ok", "text")
    assert shop.refunds == ([1017] if done else [1017, 1017])
    assert ends(resumed) == [("refund", "done")]
    with pytest.raises(ConfigError, match="no action whose end a person can decide: its end is 'done'"):
        await conductor.decide(result.run_id, action=0, done=True)


@pytest.mark.parametrize(("done", "count"), [(True, 1), (False, 2)])
async def test_a_process_that_died_in_an_action(*, done: bool, count: int) -> None:
    shop, journal = Shop(), MemoryJournal()
    planner = FixedPlanner(plan_of(refund(), (0, "Write.", (0,))))
    conductor = Conductor(planner, [writer(), shop.worker])
    await conductor.run("What?", run_id="died", journal=journal)
    events = await recorded(journal, "died")
    begun = next(at for at, event in enumerate(events) if isinstance(event, StepStarted))
    left = await prefix(events[: begun + 1], "died")
    result = await conductor.run("What?", run_id="died", journal=left)
    assert (result.status, ends(result), shop.refunds) == ("failed", [("refund", "unknown")], [1017])
    await conductor.decide("died", action=0, done=done, journal=left)
    result = await conductor.resume("died", journal=left)
    assert (result.status, ends(result), len(shop.refunds)) == ("ok", [("refund", "done")], count)


def nested(shop: Shop, planner: Any, *others: Worker, **options: Any) -> Conductor:
    card = Card(name="team", description="Handles refunds.")
    return Conductor(planner, [writer(), shop.worker, *others], card=card, retry=ONCE, **options)


class TestNestedConductors:
    """A conductor whose pool holds a worker that acts is one that acts, too."""

    async def test_it_starts_only_after_the_plan_is_complete(self) -> None:
        shop = Shop()
        team = nested(shop, FixedPlanner(plan_of(refund(), (0, "Write.", (0,)))))
        assert team.acts
        assert not Conductor(FixedPlanner(plan_of((0, "x", ()))), [writer()]).acts
        broken = writer("broken", WorkerUnavailable("down"))
        plan = plan_of((2, "Break.", ()), (0, "Draft.", ()), (1, "Refund.", (0, 1)), (0, "Write.", (1,)))
        result = await run(plan, writer(), team, broken)
        assert (result.status, shop.refunds) == ("partial", [])

    async def test_a_resumed_run_with_an_unknown_end_inside(self) -> None:
        shop, journal = Shop(WorkerTimeout("late", maybe_paid=True)), MemoryJournal()
        team = nested(shop, FixedPlanner(plan_of(refund(), (0, "Write.", (0,)))))
        plan = FixedPlanner(plan_of((1, "Refund 1017.", ()), (0, "Write.", ())))
        conductor = Conductor(plan, [writer(), team], journal=journal, retry=ONCE)
        result = await conductor.run("What?")
        assert result.status == "partial"
        inner = next(action for action in result.actions if action.end == "unknown")
        assert (await conductor.resume(result.run_id)).status == "partial"
        assert shop.refunds == [1017]
        await conductor.decide(inner.run_id, action=inner.step, done=True)
        resumed = await conductor.resume(result.run_id)
        assert (resumed.status, shop.refunds) == ("ok", [1017])

    @pytest.mark.parametrize("done", [True, False])
    async def test_a_run_whose_nested_run_is_incomplete_is_resumed_after_a_decision(
        self, *, done: bool
    ) -> None:
        shop, journal = Shop(ToolFailed("no", maybe_paid=True)), MemoryJournal()
        team = nested(shop, FixedPlanner(plan_of(refund(), (0, "Write.", ()))))
        plan = FixedPlanner(plan_of((1, "Refund 1017.", ()), (0, "Write.", (0,))))
        conductor = Conductor(plan, [writer(), team], journal=journal, retry=ONCE)
        result = await conductor.run("What?")
        assert (result.status, shop.refunds) == ("partial", [1017])
        inner = next(action for action in result.actions if action.end == "failed")
        await conductor.decide(inner.run_id, action=inner.step, done=done)
        for _ in range(2):
            resumed = await conductor.resume(result.run_id, refresh=True)
            assert (resumed.status, len(shop.refunds)) == ("ok", 1 if done else 2)
            assert sorted(ends(resumed)) == [("refund", "done"), ("team", "done")]


class TestApprovalOfActions:
    """`Policy.ask = "actions"`: the other steps run, and an action waits at its arguments."""

    async def test_a_function_decides(self) -> None:
        shop, asked = Shop(), list[ApprovalRequest]()

        def decide(request: ApprovalRequest) -> bool | str:
            asked.append(request)
            return request.action is not None and "1017" in request.action.asked

        plan = plan_of(refund(), refund(1018), (0, "Write.", ()))
        result = await run(plan, writer(), shop.worker, policy=Policy(approve=decide, ask="actions"))
        assert (result.status, shop.refunds, len(asked)) == ("partial", [1017], 2)
        assert asked[0].actions == (0, 1)
        assert "the action of step 1 was refused" in problem_of(result).message

    async def test_later(self) -> None:
        shop, model, journal = Shop(), writer(), MemoryJournal()
        plan = FixedPlanner(plan_of((0, "Read.", ()), refund(), refund(1018), (0, "Write.", (0, 1, 2))))
        policy = Policy(approve="later", ask="actions")
        conductor = Conductor(plan, [model, shop.worker], journal=journal, policy=policy)
        result = await conductor.run("What?")
        assert (result.status, shop.refunds, len(model.requests)) == ("waiting", [], 1)
        waits = [f'step {step} waits for approval: refund {{"order": {1016 + step}}}' for step in (1, 2)]
        assert result.problem == Problem("waiting", "; ".join(waits))
        told = [outcome.problem and outcome.problem.message for outcome in result.outcomes]
        assert told == [None, *waits, waits[0]]
        await conductor.decide(result.run_id, action=1, approved=True)
        result = await conductor.resume(result.run_id)
        assert (result.status, shop.refunds) == ("waiting", [1017])
        await conductor.decide(result.run_id, approved=True)
        result = await conductor.resume(result.run_id)
        assert (result.status, shop.refunds, len(model.requests)) == ("ok", [1017, 1018], 2)

    @pytest.mark.parametrize(
        ("decisions", "status", "refunds"),
        [({0: True, 1: False}, "partial", 1), ({1: True}, "waiting", 1), ({0: True, 1: True}, "ok", 2)],
    )
    async def test_equal_actions_are_decided_one_by_one(
        self, decisions: dict[int, bool], status: str, refunds: int
    ) -> None:
        shop, journal = Shop(), MemoryJournal()
        plan = FixedPlanner(plan_of(refund(), refund(), (0, "Write.", ())))
        policy = Policy(approve="later", ask="actions")
        conductor = Conductor(plan, [writer(), shop.worker], journal=journal, policy=policy)
        run_id = (await conductor.run("What?")).run_id
        for step, approved in decisions.items():
            await conductor.decide(run_id, action=step, approved=approved, why="seen")
        for _ in range(2):  # the second time changes nothing
            result = await conductor.resume(run_id)
            assert (result.status, shop.refunds) == (status, [1017] * refunds)

    async def test_a_person_changes_the_arguments(self) -> None:
        shop, agent, journal = (
            Shop(WorkerTimeout("late", maybe_paid=True)),
            ScriptedWorker("mailer", "sent"),
            MemoryJournal(),
        )
        agent.acts = True
        plan = FixedPlanner(plan_of(refund(), (2, "Mail {{0}} to all.", (0,)), (0, "Write.", ())))
        policy = Policy(approve="later", ask="actions")
        workers = [writer(), shop.worker, agent]
        conductor = Conductor(plan, workers, journal=journal, policy=policy, retry=ONCE)
        run_id = (await conductor.run("What?")).run_id
        await conductor.decide(run_id, action=0, approved=True, arguments='{"order": 1020}')
        for _ in range(2):
            result = await conductor.resume(run_id)
            assert shop.refunds == [1020]
        assert result.actions[0].end == "unknown"
        await conductor.decide(run_id, action=0, done=True)
        result = await conductor.resume(run_id)
        assert (result.status, shop.refunds) == ("waiting", [1020])
        assert result.actions[0].asked == '{"order": 1020}'
        await conductor.decide(run_id, action=1, approved=True, arguments="Mail {{Ann}} alone.")
        result = await conductor.resume(run_id)
        assert (result.status, shop.refunds) == ("ok", [1020])
        assert [request.step_input.subtask for request in agent.requests] == ["Mail {{Ann}} alone."]

    @pytest.mark.parametrize(
        ("facts", "error", "message"),
        [
            ({"action": 0, "arguments": "lgtm"}, QueryError, "'lgtm': write a JSON object, such as"),
            ({"action": 0, "arguments": '{"order": "[secret]"}'}, QueryError, "hold a secret"),
            ({"action": 0, "arguments": '{"order": "1O17"}'}, QueryError, "must be of type integer"),
            ({"action": 0, "arguments": " "}, QueryError, "are empty"),
            ({"arguments": '{"order": 1}'}, ConfigError, "name its step"),
            ({"action": 0, "approved": False, "arguments": '{"order": 1}'}, ConfigError, "approved=True"),
        ],
    )
    async def test_wrong_arguments_are_refused(
        self, facts: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        shop, journal = Shop(), MemoryJournal()
        policy = Policy(approve="later", ask="actions")
        plan = FixedPlanner(plan_of(refund(), refund(1018), (0, "Write.", ())))
        conductor = Conductor(plan, [writer(), shop.worker], journal=journal, policy=policy)
        run_id = (await conductor.run("What?")).run_id
        with pytest.raises(error, match=message):
            await conductor.decide(run_id, **{"approved": True, **facts})
        assert ((await conductor.resume(run_id)).status, shop.refunds) == ("waiting", [])

    async def test_wrong_arguments_that_only_the_journal_has_seen(self) -> None:
        """The worker checks them when the run is resumed, and the action waits again."""
        shop, journal = Shop(), MemoryJournal()
        policy = Policy(approve="later", ask="actions")
        plan = FixedPlanner(plan_of(refund(), (0, "Write.", (0,))))
        conductor = Conductor(plan, [writer(), shop.worker], journal=journal, policy=policy)
        run_id = (await conductor.run("What?")).run_id
        await decide(journal, run_id, approved=True, action=0, arguments='{"order": "1O17"}')
        for _ in range(2):
            result = await conductor.resume(run_id)
            assert (result.status, shop.refunds) == ("waiting", [])
            assert "must be of type integer, not '1O17'" in problem_of(result).message
        await decide(journal, run_id, approved=True, action=0, arguments='{"order": 1017}')
        assert ((await conductor.resume(run_id)).status, shop.refunds) == ("ok", [1017])


async def test_what_acts() -> None:
    tool = Shop().worker
    workers = [tool, writer(), FunctionWorker(lambda step: "x")]
    assert [worker.acts for worker in workers] == [True, False, False]
    tool.acts = False
    result = await run(plan_of(refund(), (0, "Write.", ())), writer(), tool)
    assert (result.status, result.actions) == ("ok", ())


def _payers(down: set[str]) -> tuple[list[str], list[Worker]]:
    """Return what was paid, and a payer whose first call for b has an unknown end, with a writer."""
    paid = list[str]()

    async def pay(step: StepInput) -> str:
        paid.append(step.subtask)
        if paid in (["b"], ["a", "b"]):
            raise WorkerTimeout("late", maybe_paid=True)
        return f"paid {step.subtask}"

    async def write(step: StepInput) -> str:
        if step.subtask in down:
            raise WorkerUnavailable("down")
        return step.subtask

    payer = FunctionWorker(pay, card=Card(name="payer", price=FREE), acts=True)
    return paid, [payer, FunctionWorker(write, card=Card(name="writer", price=FREE))]


async def test_an_unknown_end_stays_after_a_resume_that_skips_the_step() -> None:
    """It is not carried out again."""
    paid, workers = _payers({"get 1"})
    conductor = Conductor(FixedPlanner(""), workers, journal=MemoryJournal(), retry=ONCE)
    for number in range(4):
        plan = Plan((Step(1, f"get {number}"), Step(0, "b", (0,)), Step(1, "end", (1,))))
        result = await (conductor.resume("R", plan=plan) if number else conductor.run(plan, run_id="R"))
        assert (result.status, paid) == ("failed", ["b"])
        assert ends(result) == [("payer", "unknown")]


async def test_an_unknown_end_stays_when_another_step_gets_its_number() -> None:
    """The action of that step is not taken for it."""
    paid, workers = _payers(set())
    conductor = Conductor(FixedPlanner(""), workers, journal=MemoryJournal(), retry=ONCE)
    await conductor.run(Plan((Step(0, "a"), Step(0, "b"), Step(1, "end", (0, 1)))), run_id="R")
    plan = Plan((Step(1, "new"), Step(0, "a"), Step(0, "b"), Step(1, "end", (0, 1, 2))))
    for changed in (plan, None, None):
        result = await conductor.resume("R", plan=changed, refresh=True)
        assert (result.status, paid) == ("partial", ["a", "b"])
        assert ends(result) == [("payer", "done"), ("payer", "unknown")]
        assert [each.name for each in result.actions] == ["1", "2"]
        assert "podium decide R --action 2 done|not-done" in problem_of(result).message
    await conductor.decide("R", action=2, done=False)
    result = await conductor.resume("R", refresh=True)
    assert (result.status, paid) == ("ok", ["a", "b", "b"])


async def test_a_decision_is_on_one_of_two_actions_with_one_number() -> None:
    """A changed plan has carried out another action in the place of the one whose end is unknown."""
    paid, workers = _payers(set())
    conductor = Conductor(FixedPlanner(""), workers, journal=MemoryJournal(), retry=ONCE)
    await conductor.run(Plan((Step(0, "a"), Step(0, "b"), Step(1, "end", (0, 1)))), run_id="R")
    plan = Plan((Step(0, "a"), Step(0, "c"), Step(0, "b"), Step(1, "end", (0, 1, 2))))
    await conductor.resume("R", plan=plan)
    assert paid == ["a", "b", "c"]
    await conductor.decide("R", action=2, done=False)
    result = await conductor.resume("R", refresh=True)
    assert (result.status, paid) == ("ok", ["a", "b", "c", "b"])


def _late_payer() -> tuple[list[str], Worker]:
    """Return what was paid, and a payer whose first two calls have an unknown end."""
    paid = list[str]()

    async def pay(step: StepInput) -> str:
        paid.append(step.subtask)
        if len(paid) <= 2:
            raise WorkerTimeout("late", maybe_paid=True)
        return f"paid {step.subtask}"

    return paid, FunctionWorker(pay, card=Card(name="payer", price=FREE), acts=True)


async def test_a_changed_plan_has_one_numbering() -> None:
    """An action has the number of the step that asks for it, in the messages, the result and decisions."""
    paid, payer = _late_payer()
    journal = MemoryJournal()
    conductor = Conductor(FixedPlanner(""), [payer, writer()], journal=journal, retry=ONCE)
    await conductor.run(Plan((Step(0, "a"), Step(0, "b"), Step(1, "end", (0, 1)))), run_id="R")
    assert paid == ["a", "b"]
    changed = Plan((Step(0, "b"), Step(0, "a"), Step(1, "end", (0, 1))))
    result = await conductor.resume("R", plan=changed)
    assert [(each.name, each.asked) for each in result.actions] == [("1", "a"), ("0", "b")]
    for outcome in result.rounds[-1].outcomes[:2]:
        asked = changed.steps[outcome.step].subtask
        assert f"(payer {asked}, step {outcome.step} of round 1" in str(outcome.problem)
    assert "--action 1 done|not-done" in problem_of(result).message
    state = fold(entry.event for entry in await journal.read("R"))
    assert state.result().actions == result.actions
    await conductor.decide("R", action=0, done=False)
    await conductor.decide("R", action=1, done=True)
    result = await conductor.resume("R", refresh=True)
    assert (result.status, paid) == ("ok", ["a", "b", "b"])
    assert [(each.name, each.asked, each.end) for each in result.actions] == [
        ("1", "a", "done"),
        ("0", "b", "done"),
    ]


async def test_two_actions_with_one_number_are_told_apart() -> None:
    """A changed plan has no step for the one, and the other in the place of it."""
    paid, payer = _late_payer()
    conductor = Conductor(FixedPlanner(""), [payer], journal=MemoryJournal(), retry=ONCE)
    await conductor.run(Plan((Step(0, "a"),)), run_id="R")
    result = await conductor.resume("R", plan=Plan((Step(0, "b"),)))
    keys = {each.asked: each.key for each in result.actions if each.step == 0}
    with pytest.raises(ConfigError, match=r"of several plans: name one of payer a.*, payer b") as caught:
        await conductor.decide("R", action=0, done=True)
    assert all(f"--action {key[:12]}" in str(caught.value) for key in keys.values())
    await conductor.decide("R", action=keys["a"], done=True)
    await conductor.decide("R", action=keys["b"][:12], done=False)
    result = await conductor.resume("R")
    assert (result.status, paid) == ("ok", ["a", "b", "b"])
    assert ends(result) == [("payer", "done"), ("payer", "done")]


async def test_a_failed_attempt_of_another_plan_is_not_of_an_action() -> None:
    """A changed plan has a step that fails once in the place of an action that was carried out."""
    paid, tries = list[str](), list[str]()

    async def write(step: StepInput) -> str:
        tries.append(step.subtask)
        if tries.count(step.subtask) == 1 and step.subtask == "flaky":
            raise WorkerUnavailable("down")
        return step.subtask

    workers = [
        FunctionWorker(
            lambda step: paid.append(step.subtask) or "paid", card=Card(name="payer", price=FREE), acts=True
        ),
        FunctionWorker(write, card=Card(name="writer", price=FREE)),
    ]
    conductor = Conductor(FixedPlanner(""), workers, journal=MemoryJournal(), retry=Retry(attempts=2))
    act, end = Step(0, "a"), Step(1, "end", (0,))
    for number, plan in enumerate(
        [Plan((act, end)), Plan((Step(1, "flaky"), act, end)), Plan((act, Step(1, "new"), end))]
    ):
        result = await (conductor.resume("R", plan=plan) if number else conductor.run(plan, run_id="R"))
        assert (result.status, paid) == ("ok", ["a"])


async def test_equal_actions_with_unknown_ends_are_decided_step_by_step() -> None:
    paid, payer = _late_payer()
    conductor = Conductor(FixedPlanner(""), [payer, writer()], journal=MemoryJournal(), retry=ONCE)
    plan = Plan((Step(0, "a"), Step(0, "a"), Step(1, "end", (0, 1))))
    result = await conductor.run(plan, run_id="R")
    with pytest.raises(ConfigError, match=r"several equal actions: name one of the steps 0, 1"):
        await conductor.decide("R", action=result.actions[0].key, done=True)
    await conductor.decide("R", action=f"0@{result.actions[0].key}", done=True)
    result = await conductor.resume("R", refresh=True)
    assert [(each.name, each.end) for each in result.actions] == [("0", "done"), ("1", "unknown")]
    assert "--action 1 done|not-done" in problem_of(result).message
    await conductor.decide("R", action=1, done=False)
    result = await conductor.resume("R", refresh=True)
    assert (result.status, paid) == ("ok", ["a", "a", "a"])


async def test_a_plan_that_is_left_and_brought_back() -> None:
    """Its steps have their outcomes again, in the result and in the record."""
    journal = MemoryJournal()
    conductor = Conductor(FixedPlanner(""), [writer()], journal=journal, retry=ONCE)
    whole = Plan((Step(0, "one"), Step(0, "two"), Step(0, "three", (0, 1))))
    await conductor.run(whole, run_id="R")
    await conductor.resume("R", plan=Plan(whole.steps[:2]))
    result = await conductor.resume("R", plan=whole)
    for each in (result, fold(await recorded(journal, "R")).result()):
        assert [outcome.status for outcome in each.rounds[-1].outcomes[:3]] == ["ok", "ok", "ok"]
