"""Invalid answers of servers, and the error code of each in every adapter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servers.chat_server import USAGE, Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium import Conductor, Plan, Retry, Step
from podium.planners import FixedPlanner
from podium.types import Outcome
from podium.workers import Worker

LOOK = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@dataclass(frozen=True)
class OddAnswer:
    """One invalid answer, and its error."""

    name: str
    reply: Callable[[Call], Reply]
    code: str
    says: str


def _refuses(call: Call) -> Reply:
    if call.body.get("stream"):
        begun = chunk({"role": "assistant", "content": ""})
        return events(begun, chunk({"refusal": "I would rather not"}), chunk({}, finish_reason="stop"))
    body = completion(None)
    body["choices"][0]["message"]["refusal"] = "I would rather not"
    return whole(body)


def _is_filtered(call: Call) -> Reply:
    return says(call, "Once upon", finish_reason="content_filter")


def _calls_tools(call: Call) -> Reply:
    return says(call, "", tool_calls=[LOOK], finish_reason="tool_calls")


def _talks_and_calls_tools(call: Call) -> Reply:
    return says(call, "Let me look.", tool_calls=[LOOK], finish_reason="tool_calls")


def _is_latin(call: Call) -> Reply:
    if call.body.get("stream"):
        return events(b'data: {"choices": [{"index": 0, "delta": {"content": "caf\xe9"}}]}\n\n')
    return whole(b'{"choices": [{"index": 0, "message": {"content": "caf\xe9"}, "finish_reason": "stop"}]}')


REFUSED = OddAnswer("refused", _refuses, "answer_refused", "I would rather not")
FILTERED = OddAnswer("filtered", _is_filtered, "answer_refused", "content filter refused to answer")
CALLS = OddAnswer("calls", _calls_tools, "answer_tool_calls", "called tools that nobody offered: look")
TALK = OddAnswer("talk-and-calls", _talks_and_calls_tools, "answer_tool_calls", "nobody offered: look")
LATIN = OddAnswer("latin-1", _is_latin, "answer_not_utf8", "not UTF-8")
ODD_ANSWERS = (REFUSED, FILTERED, CALLS, TALK, LATIN)
_PAGE = whole("<h1>Welcome</h1>", content_type="text/html; charset=utf-8")
OF_OTHER_SERVERS = (_PAGE, whole("OK"), whole({"status": "ok"}), whole(["ok"]))
"""What servers send that know nothing of OpenAI's API."""


ENDS: Mapping[str | None, tuple[str, str | None, str]] = {
    "stop": ("ok", None, "half an ans"),
    "length": ("partial", "cut", "half an ans"),
    "content_filter": ("failed", "answer_refused", ""),
    None: ("failed", "worker_broken", ""),
}
"""Status, code of the problem and answer of a run whose model gives this finish reason; `None` gives none."""


async def check_end(make: Callable[[str], Worker], finish: str | None, *, stream: bool) -> None:
    """Check a run whose model says half an answer with a finish reason; see `check`."""
    planner = FixedPlanner(Plan((Step(0, "Say it."),)))
    options: dict[str, Any] = {"on_event": lambda event: None} if stream else {}
    async with ChatServer(lambda call: says(call, "half an ans", finish_reason=finish)) as server:
        conductor = Conductor(planner, [make(server.url)], retry=Retry(attempts=1))
        result = await conductor.run("What?", **options)
    problem = result.outcomes[0].problem
    assert (result.status, problem and problem.code, result.answer) == ENDS[finish]
    assert finish is not None or "no finish_reason" in problem.message


async def check_wrong_url(make: Callable[[str], Worker], *, stream: bool) -> None:
    """Check that a run says what to do if the URL of a model leads to another server; see `check`."""
    planner = FixedPlanner(Plan((Step(0, "Say it."),)))
    options: dict[str, Any] = {"on_event": lambda event: None} if stream else {}
    for reply in OF_OTHER_SERVERS:
        async with ChatServer(lambda _, reply=reply: reply) as server:
            conductor = Conductor(planner, [make(server.url)], retry=Retry(attempts=1))
            result = await conductor.run("What?", **options)
        assert result.problem.code in ("worker_refused", "worker_broken"), result.problem
        assert "does the base URL lead to an OpenAI-compatible server" in result.problem.message


WRONG_URL = "wrong url"
Case = OddAnswer | str | None
"""An invalid answer, a finish reason (`None`: without one), or `WRONG_URL`."""


async def check_case(make: Callable[[str], Worker], case: Case, *, stream: bool) -> None:
    """Check what a run says of one of these cases; see `check`."""
    if isinstance(case, OddAnswer):
        await check(make, case, stream=stream)
    elif case == WRONG_URL:
        await check_wrong_url(make, stream=stream)
    else:
        await check_end(make, case, stream=stream)


async def check(make: Callable[[str], Worker], odd: OddAnswer, *, stream: bool) -> Outcome:
    """Check that a run reports the error code of the answer, and that the worker was called once.

    Args:
        make: returns a worker for the URL of a server.
        odd: the answer of the server.
        stream: whether the run is streamed.
    """
    planner = FixedPlanner(Plan((Step(0, "Say it."),)))
    options: dict[str, Any] = {"on_event": lambda event: None} if stream else {}
    async with ChatServer(odd.reply) as server:
        result = await Conductor(planner, [make(server.url)]).run("What?", **options)
        assert len(server.calls) == 1
    (outcome,) = result.outcomes
    assert (result.status, result.answer) == ("failed", "")
    assert (outcome.problem.code, outcome.attempts) == (odd.code, 1)
    assert odd.says in outcome.problem.message
    least = USAGE["completion_tokens"] if not stream and odd is not LATIN else 1
    assert outcome.usage.total_tokens >= least
    return outcome
