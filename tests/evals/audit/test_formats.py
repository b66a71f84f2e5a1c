"""The same calls, exported by different tools, give the same figures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Json, Made, lines

from podium import Card, ChatPlanner, Conductor, Price, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.execution import Retry
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium_evals.audit import Report, audit

ASKED = {"role": "user", "content": "How many?"}
CALLS = (
    Made(id="c1"),
    Made(id="c2", at=2.0, prompt=(ASKED, {"role": "assistant", "content": "Which?"}), finish="length"),
    Made(id="c3", at=3.0, prompt=({"role": "user", "content": "May I?"},), answer=None, refusal="No."),
)
COST = (600 * 0.15 + 400 * 0.075 + 100 * 0.6) / 1e6


def found(report: Report) -> dict[str, int]:
    return {row.kind: row.count for row in report.findings}


@pytest.mark.parametrize(
    "row",
    [
        exports.langsmith,
        exports.current,
        exports.openllmetry,
        exports.openinference,
        exports.pair,
        exports.responses_pair,
    ],
)
def test_all_formats_have_the_same_figures(row: Callable[[Made], Json], tmp_path: Path) -> None:
    """Tokens, costs, steps, times and findings do not depend on the tool."""
    report = audit([lines(tmp_path / "export.jsonl", map(row, CALLS))])
    total = report.total
    assert (report.queries, total.calls, total.failed) == (1, 3, 0)
    assert (total.input_tokens, total.cached_tokens) == (3000, 1200)
    assert (total.output_tokens, total.reasoning_tokens) == (300, 60)
    assert total.cost == pytest.approx(3 * COST)
    assert report.latency.p50 == pytest.approx(4.0)
    assert [(each.name, each.amounts.calls) for each in report.models] == [("gpt-4o-mini", 3)]
    assert [(each.name, each.amounts.calls) for each in report.steps] == [("answer", 3)]
    assert found(report) == {"cut": 1, "refusal": 1}
    assert report.expensive[0].question == "How many?"
    assert report.bad_rows == 0


def test_errors_have_their_class(tmp_path: Path) -> None:
    """A failed call has no tokens, and its model is known from the request."""
    call = Made(error="RateLimitError", read=None, written=None, cached=0, reasoning=0, answer=None)
    for row in (exports.langsmith, exports.current, exports.openinference, exports.pair):
        report = audit([lines(tmp_path / "export.jsonl", [row(call)])])
        assert (report.total.failed, report.total.unbilled, report.total.cost) == (1, 1, 0.0)
        assert report.models[0].name == "gpt-4o-mini"
        assert found(report) == {"failed_call": 1, "rate_limit": 1}
        assert next(iter(report.errors)) in ("RateLimitError", "error")


def test_failed_tools(tmp_path: Path) -> None:
    """Their errors are counted with those of calls; a step is named by the run around the call."""
    outer = exports.langsmith_step()
    tool = exports.langsmith_step(
        id="tool", parent_run_id="root", run_type="tool", error="ValueError('no such x')"
    )
    call = exports.langsmith(Made(step="", parent="root"))
    report = audit([lines(tmp_path / "export.jsonl", [call, tool, outer])])
    assert (report.queries, report.total.calls, report.latency.p50) == (1, 1, pytest.approx(5.0))
    assert report.steps[0].name == "pipeline"
    assert report.errors == {"ValueError": 1}


def test_stored_completions_and_responses(tmp_path: Path) -> None:
    """Responses that continue each other are one query; others are queries of their own."""
    first = exports.response_body(Made(id="a"))
    second = exports.response_body(Made(id="b", at=2.0)) | {"previous_response_id": "resp_a"}
    third = exports.response_body(Made(id="c", at=4.0)) | {"previous_response_id": "resp_b"}
    stored = {"object": "list", "data": [third, exports.chat_body(Made(id="d")), second, first]}
    report = audit([lines(tmp_path / "stored.jsonl", [stored])])
    assert (report.queries, report.total.calls) == (2, 4)
    assert report.expensive[0].calls == 3
    assert report.expensive[0].seconds == pytest.approx(5.0)
    assert report.doubts["without_prompt"] == 4


def test_a_call_around_calls_is_not_counted(tmp_path: Path) -> None:
    """Two libraries often trace the same call, one inside the other; agents have the sum of their calls."""
    agent = exports.otlp(
        Made(id="agent", seconds=9.0),
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.agent.name": "a",
        },
    )
    wrapper = exports.current(Made(id="outer", parent="agent"))
    inner = exports.current(Made(id="inner", parent="outer"))
    report = audit([lines(tmp_path / "export.jsonl", [exports.resource(agent, wrapper, inner)])])
    assert (report.total.calls, report.total.input_tokens, report.doubts["wrappers"]) == (1, 1000, 1)
    assert audit([lines(tmp_path / "agent.jsonl", [exports.resource(agent)])]).total.input_tokens == 1000
    bare = exports.current(Made(id="inner", parent="outer", read=None, written=None, cached=0, reasoning=0))
    report = audit([lines(tmp_path / "bare.jsonl", [exports.resource(wrapper, bare)])])
    assert (report.total.calls, report.total.input_tokens, report.doubts["wrappers"]) == (1, 1000, 1)


def test_a_run_nested_in_a_run(tmp_path: Path) -> None:
    """Its calls count once, in the query of the outer run."""
    price = Price(input=1.0, output=2.0)
    journal = SqlJournal(tmp_path / "runs.db")
    inner = Conductor(
        FixedPlanner('{"worker": 0, "subtask": "Write.", "access": []}'),
        [ScriptedWorker(Card(name="writer", price=price), "some words")],
        card=Card(name="team"),
        journal=journal,
    )
    outer = Conductor(
        FixedPlanner('{"worker": 0, "subtask": "Ask the team.", "access": []}'), [inner], journal=journal
    )
    result = outer.run_sync("How many?")
    assert result.status == "ok"
    report = audit([journal])
    assert (report.queries, report.total.calls) == (1, 1)
    assert report.total.cost == pytest.approx(result.cost)
    assert report.total.input_tokens == result.usage.input_tokens


PLAN = (
    '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


def test_runs_of_a_journal(tmp_path: Path) -> None:
    """Calls have the costs that the run recorded; planners and failed attempts are calls."""
    price = Price(input=1.0, output=2.0)
    tries = iter([WorkerUnavailable("too many requests", status=429), "a thought"])

    def thinks(_: object) -> str | Exception:
        return next(tries)

    pool = [
        ScriptedWorker(Card(name="thinker", price=price), thinks),
        ScriptedWorker(Card(name="writer", price=price), "42"),
    ]
    planner = ChatPlanner(ScriptedWorker("planner", PLAN))
    journal = SqlJournal(tmp_path / "runs.db")
    conductor = Conductor(planner, pool, journal=journal, retry=Retry(first_wait=0.001))
    result = conductor.run_sync("How many?")
    assert result.status == "ok"
    report = audit([journal])
    assert (report.queries, report.total.calls, report.total.failed) == (1, 4, 1)
    assert report.total.cost == pytest.approx(sum(o.cost or 0.0 for o in result.outcomes))
    assert {each.name for each in report.models} == {"planner", "thinker", "writer"}
    assert report.expensive[0].question == "How many?"
    assert found(report) == {"failed_call": 1, "rate_limit": 1}
    assert report.total.exported == 4


def test_runs_of_wrapped_clients(tmp_path: Path) -> None:
    """LangSmith's wrapper of OpenAI's client exports OpenAI's own objects."""
    made = Made()
    chat = exports.langsmith(made) | {
        "inputs": {"messages": list(made.prompt), "model": made.model},
        "outputs": exports.chat_body(replace(made, finish="length")),
    }
    answered = exports.langsmith(replace(made, id="c2")) | {
        "inputs": {"input": "How many?", "model": made.model},
        "outputs": exports.response_body(replace(made, refusal="No.")),
        "prompt_tokens": None,
        "completion_tokens": None,
    }
    answered["extra"]["metadata"]["usage_metadata"] = {"input_tokens": 10, "output_tokens": 5}
    report = audit([lines(tmp_path / "export.jsonl", [chat, answered])])
    assert report.total.input_tokens == 1010
    assert found(report) == {"cut": 1, "refusal": 1, "repeat": 1}
