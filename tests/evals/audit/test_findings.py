"""The failures and loops of queries."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Json, Made, lines

from podium_evals.audit import FindingRow, Report, audit

FIRST = {"role": "user", "content": "How many?"}
ONE = (600 * 0.15 + 400 * 0.075 + 100 * 0.6) / 1e6
"""The cost of a call, in USD."""


def audited(tmp_path: Path, rows: Sequence[Json], turns: int = 10) -> Report:
    return audit([lines(tmp_path / "export.jsonl", rows)], turns=turns)


def row(report: Report, kind: str) -> FindingRow:
    (found,) = [each for each in report.findings if each.kind == kind]
    return found


def conversation(calls: int) -> list[Made]:
    """Return calls each of which sends all messages before it again."""
    prompt: tuple[Json, ...] = (FIRST,)
    made = []
    for number in range(calls):
        made.append(Made(id=f"c{number:02}", at=2.0 * number, prompt=prompt, cached=0))
        said = {"role": "assistant", "content": f"step {number}"}
        prompt = (*prompt, said, {"role": "tool", "content": "7"})
    return made


def test_failed_calls(tmp_path: Path) -> None:
    """A call that repeats a failed one is no repeated prompt."""
    failed = Made(id="c1", error="APIError", cached=0, reasoning=0, written=0)
    again = Made(id="c2", at=2.0, error="APIError", read=None, written=None, cached=0, reasoning=0)
    report = audited(tmp_path, [exports.current(each) for each in (Made(id="c3", at=4.0), again, failed)])
    (found,) = report.findings
    assert (found.kind, found.count, found.examples) == ("failed_call", 2, ["t1/c1", "t1/c2"])
    assert found.wasted == pytest.approx(1000 * 0.15 / 1e6)


def test_the_same_prompt_again(tmp_path: Path) -> None:
    """In the same query and to the same model; another model or query is no repeat."""
    calls = [
        Made(id="c1"),
        Made(id="c2", at=1.0),
        Made(id="c3", at=2.0, answer="It is 43."),
        Made(id="c4", at=3.0, model="gpt-4o"),
        Made(id="c5", trace="t2"),
    ]
    report = audited(tmp_path, [exports.current(each) for each in calls])
    found = row(report, "repeat")
    assert (found.count, found.queries, found.examples) == (2, 1, ["t1/c2", "t1/c3"])
    assert (found.wasted, report.wasted) == (pytest.approx(2 * ONE), pytest.approx(2 * ONE))


def test_conversations_that_a_server_keeps(tmp_path: Path) -> None:
    """A response that continues another one is a further turn, although the request shows no history."""
    rows = []
    for number in range(4):
        answered = exports.response_body(Made(id=f"c{number}"))
        before = {"previous_response_id": f"resp_c{number - 1}"} if number else {}
        request = {"model": "gpt-4o-mini", "input": f"And {number}?"} | before
        rows.append({"request": request, "response": answered})
    assert row(audited(tmp_path, rows, turns=3), "many_turns").examples == ["resp_c0/resp_c3"]


def test_turns_of_an_agent(tmp_path: Path) -> None:
    """The turns of a loop are counted, with the cost of those beyond the limit."""
    rows = [exports.langsmith(each) for each in conversation(6)]
    found = row(audited(tmp_path, rows, turns=4), "many_turns")
    assert (found.count, found.examples) == (1, ["t1/c04"])
    assert found.wasted == pytest.approx(2 * (1000 * 0.15 + 100 * 0.6) / 1e6)
    assert not [each for each in audited(tmp_path, rows, turns=6).findings if each.kind == "many_turns"]


def test_calls_at_the_same_time_are_no_turns(tmp_path: Path) -> None:
    """An agent may ask many models at once."""
    agent = exports.otlp(Made(id="agent", seconds=9.0), {"gen_ai.operation.name": "invoke_agent"})
    prompts = [({"role": "user", "content": f"Part {n}?"},) for n in range(6)]

    def apart(seconds: float) -> Report:
        made = (Made(id=f"c{n}", parent="agent", prompt=prompts[n], at=seconds * n) for n in range(6))
        return audited(tmp_path, [agent, *map(exports.current, made)], turns=3)

    assert (apart(0).findings, row(apart(2), "many_turns").count) == ((), 1)


def test_answers_that_cannot_be_used(tmp_path: Path) -> None:
    """Cut, empty and refused answers; an answer with a tool call is none of these."""
    calls = [
        Made(id="c1", trace="t1", finish="length"),
        Made(id="c2", trace="t2", answer=""),
        Made(id="c3", trace="t3", answer=None, refusal="No."),
        Made(id="c4", trace="t4", finish="content_filter"),
        Made(id="c5", trace="t5", answer="", finish="tool_calls", tools=[{"name": "look", "args": {}}]),
    ]
    for made in (exports.langsmith, exports.current):
        report = audited(tmp_path, [made(each) for each in calls])
        assert {each.kind: each.examples for each in report.findings} == {
            "cut": ["t1/c1"],
            "empty": ["t2/c2"],
            "refusal": ["t3/c3", "t4/c4"],
        }


def test_unknown_prices_stay_unknown(tmp_path: Path) -> None:
    """They are counted, and are in no sum."""
    calls = [Made(id="c1", model="our-own-model"), Made(id="c2", model="our-own-model"), Made(trace="t2")]
    report = audited(tmp_path, [exports.pair(each) for each in calls])
    assert (report.total.unpriced, report.total.cost) == (2, pytest.approx(ONE))
    assert (row(report, "repeat").wasted, row(report, "repeat").unpriced) == (0.0, 1)
    assert [(each.cost, each.unpriced) for each in report.expensive] == [(pytest.approx(ONE), 0), (None, 2)]


def test_circles_end(tmp_path: Path) -> None:
    """Calls that continue each other in a circle, and spans around each other, are read like others."""
    calls = [exports.response_body(Made(id=f"c{n}")) for n in range(5)]
    for number, other in enumerate((1, 2, 0, 0, 3)):
        calls[number]["previous_response_id"] = f"resp_c{other}"
    spans = [exports.current(Made(id="a", parent="b")), exports.current(Made(id="b", parent="a"))]
    assert (audited(tmp_path, calls).total.calls, audited(tmp_path, spans).queries) == (5, 1)
