"""A run as the application's logs have it: silent until asked, ids in every record, no content."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from core.actors import boss, plan_of, rows
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import ChatWorker, Conductor, Endpoint, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.execution import Retry

pytestmark = pytest.mark.anyio
QUESTION, SUBTASK, OUTPUT = "What is a heron?", "Describe its beak.", "It is long and yellow."


def told(caplog: pytest.LogCaptureFixture, level: int = logging.NOTSET) -> list[dict[str, Any]]:
    """Return the field `podium` of the records at and above a level."""
    return [r.podium for r in caplog.records if r.name == "podium" and r.levelno >= level]  # type: ignore[attr-defined]


async def test_the_events_have_their_ids(caplog: pytest.LogCaptureFixture) -> None:
    """At `DEBUG` a record for each thing that happens, with the ids of its event."""
    caplog.set_level(logging.DEBUG, logger="podium")
    conductor = Conductor(boss(rows((0, SUBTASK, ()))), [ScriptedWorker("a", OUTPUT)])
    result = await conductor.run(QUESTION)
    fields = told(caplog)
    assert [each["event"] for each in fields] == [
        *("run_started", "planner_ended", "plan_ready", "step_started", "step_ended", "run_ended")
    ]
    assert {each["run_id"] for each in fields} == {result.run_id}
    assert [(each["round"], each["step"], each["attempt"]) for each in fields[3:5]] == [(1, 0, 1)] * 2
    assert fields[-1]["status"] == "ok"
    assert json.dumps(fields)


async def test_retries_and_failures_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """They are what someone may have to look after."""
    replies = [whole("busy", status=503)]

    def reply(call: Call) -> Reply:
        return replies.pop() if replies else says(call, "done")

    async with ChatServer(reply) as server:
        workers = [
            ChatWorker("m", endpoint=Endpoint(server.url)),
            ScriptedWorker("down", WorkerUnavailable("down for good")),
        ]
        retry = Retry(attempts=2, first_wait=0.001, max_wait=0.002)
        await Conductor(boss(""), workers, retry=retry).run(plan_of((0, "x", ()), (1, "y", (0,))))
    warned = told(caplog, logging.WARNING)
    seen = [(each["event"], each.get("step"), each.get("attempt"), each["code"]) for each in warned]
    assert seen == [
        ("attempt_failed", 0, 1, "worker_unavailable"),
        ("attempt_failed", 1, 1, "worker_unavailable"),
        ("step_ended", 1, 2, "worker_unavailable"),
        ("run_ended", None, None, "worker_unavailable"),
    ]
    assert warned[0]["worker"] == "m"
    assert warned[0]["wait"] >= 0


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
async def test_no_content_at_any_level(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Neither question, subtask, plan nor output; and what errors say only at `DEBUG`."""
    caplog.set_level(level, logger="podium")
    workers = [ScriptedWorker("a", OUTPUT), ScriptedWorker("b", WorkerUnavailable("the reason"))]
    await Conductor(boss(rows((0, SUBTASK, ()), (1, SUBTASK, (0,)))), workers, retry=Retry(attempts=1)).run(
        QUESTION
    )
    logged = caplog.text + json.dumps(told(caplog))
    assert not any(text in logged for text in (QUESTION, SUBTASK, OUTPUT))
    assert ("the reason" in logged) == (level == logging.DEBUG)


RUN = """
import sys, logging
from podium import Conductor, RulePlanner, ScriptedWorker
from podium.errors import WorkerUnavailable
{more}
Conductor(RulePlanner(), [ScriptedWorker("a", WorkerUnavailable("down"))], limits=None).run_sync("Why?")
"""


@pytest.mark.long
@pytest.mark.parametrize(("more", "lines"), [("", 0), ("logging.basicConfig(level=logging.INFO)", 5)])
def test_is_silent_until_logging_is_configured(more: str, lines: int) -> None:
    """Not even warnings are printed to a program that has not asked for logs."""
    more += "\nfrom podium.execution.retry import Retry\n"
    code = RUN.format(more=more).replace(
        "limits=None", "retry=Retry(attempts=3, first_wait=0.001, max_wait=0.002)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert len(done.stderr.splitlines()) == lines, done.stderr
    assert done.stdout == ""
