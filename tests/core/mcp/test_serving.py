"""A conductor as an MCP server, called by the SDK's own client."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from core.actors import plan_of
from servers.mcp_client import approves, connect, http_of, stdio_of
from servers.web_thread import serving_mcp

from podium import Card, Conductor, FunctionWorker, __version__
from podium.journal import SqlJournal
from podium.mcp import McpServer, StreamableHttp, make_server
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, PersonWorker, StepInput

pytestmark = pytest.mark.anyio
CONFIG = '[workers.calculator]\ntype = "calculator"\n[planner]\ntype = "rule"\n[journal]\npath = "runs.db"\n'


@contextmanager
def served(conductor: Conductor) -> Iterator[str]:
    """Serve a conductor over HTTP, from a thread; yield its URL."""
    with serving_mcp(make_server(conductor)) as serving:
        yield serving.url


def greet(step_input: StepInput) -> str:
    """Greet somebody."""
    return f"Hello, {step_input.subtask}"


def team(**options: object) -> Conductor:
    workers = [FunctionWorker(greet, price=FREE)]
    plan = plan_of((0, "Ada", ()), (0, "Bob and {{0}}", (0,)))
    return Conductor(FixedPlanner(plan), workers, **options)  # type: ignore[arg-type]


@pytest.mark.long
async def test_podium_mcp_on_stdio(tmp_path: Path) -> None:
    config = tmp_path / "podium.toml"
    config.write_text(CONFIG, encoding="utf-8")
    process = stdio_of(sys.executable, "-m", "podium", "serve", "--mcp", "--config", str(config))
    async with connect(process) as client:
        assert await client.tools() == ["ask", "plan", "run_plan", "list_models"]
        answer = await client.call("ask", question="What is 12.5% of 3,600?")
        assert "450" in answer["content"][0]["text"]
        facts = answer["structuredContent"]
        assert (facts["status"], facts["steps"][0]["worker"], facts["problem"]) == ("ok", "calculator", None)
        assert client.notes[0] == (0, 1, "planned 1 steps")
        assert client.notes[-1] == (1, 1, "step 0 (calculator): ok")

        planned = await client.call("plan", question="What is 10% of 50?")
        assert "0. calculator: What is 10% of 50?" in planned["content"][0]["text"]
        plan = planned["structuredContent"]["plan"]
        assert plan["steps"][0]["worker"] == "calculator"
        assert "5" in (await client.call("run_plan", plan=plan))["content"][0]["text"]
        plan["steps"][0]["subtask"] = "What is 20% of 50?"
        assert "10" in (await client.call("run_plan", plan=plan))["content"][0]["text"]


async def test_arguments() -> None:
    """A wrong name of `labels` does not switch the policy's rules off; the model is the conductor."""
    with served(team()) as url:
        async with connect(http_of(url)) as client:
            for tool in (await client.session.list_tools()).tools:
                schema = tool.model_dump(by_alias=True, mode="json")["inputSchema"]
                assert schema["additionalProperties"] is False
            (model,) = (await client.call("list_models"))["structuredContent"]["models"]
            for arguments, told in (
                ({"question": "Who?", "label": ["eu"]}, "'label' is unknown; its arguments are question"),
                ({"labels": [1]}, "'question' is missing; 'labels.0' is 1: it must be a valid string"),
                ({"question": "Who?", "model": "other"}, "config: there is no model 'other': the model is"),
            ):
                wrong = await client.call("ask", **arguments)
                assert (wrong["isError"], told in wrong["content"][0]["text"]) == (True, True), wrong
            asked = await client.call("ask", question="Who?", labels=["eu"], model=model["name"])
            assert not asked.get("isError")
            assert (await client.session.initialize()).serverInfo.version == __version__


@pytest.mark.long
async def test_what_workers_print_stays_out_of_the_protocol(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        """
import os, subprocess, sys
import anyio
from podium import Conductor, FunctionWorker, RulePlanner
from podium.mcp.server import serve_stdio

def loud(step_input):
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"], check=True)
    return "done"

anyio.run(serve_stdio, Conductor(RulePlanner(), [FunctionWorker(loud)]))
""",
        encoding="utf-8",
    )
    async with connect(stdio_of(sys.executable, str(script))) as client:
        for _ in range(2):
            assert (await client.call("ask", question="hi"))["content"] == [{"type": "text", "text": "done"}]


async def test_errors_have_codes() -> None:
    """A plan that cannot be run, a run without an answer, and a partial one."""

    def fails(step_input: StepInput) -> str:
        raise OSError("no ink")

    workers = [FunctionWorker(greet, price=FREE), FunctionWorker(fails, price=FREE)]
    partial_plan = plan_of((0, "Ada", ()), (1, "write", ()), (0, "all", (0, 1)))
    with served(Conductor(FixedPlanner(partial_plan), workers)) as url:
        async with connect(http_of(url)) as client:
            wrong = {"steps": [{"worker": "nobody", "subtask": "x", "access": []}]}
            refused = await client.call("run_plan", plan=wrong)
            assert refused["isError"]
            assert refused["structuredContent"]["code"] == "unknown_worker"
            assert refused["content"][0]["text"].startswith("unknown_worker: ")
            assert (await client.call("ask", question=" "))["structuredContent"]["code"] == "query"
            failed = {"steps": [{"worker": "fails", "subtask": "x", "access": []}]}
            none = await client.call("run_plan", plan=failed)
            assert none["isError"]
            assert none["structuredContent"]["status"] == "failed"
            assert "no ink" in none["content"][0]["text"]
            lacking = await client.call("ask", question="q")
            assert not lacking.get("isError")
            assert lacking["structuredContent"]["status"] == "partial"
            assert lacking["content"][0]["text"] == "Hello, all"
            assert lacking["content"][1]["text"].startswith("The answer is incomplete (")


async def test_the_user_of_the_client_approves_actions(tmp_path: Path) -> None:
    asked: list[str] = []

    def user(message: str) -> dict[str, object]:
        asked.append(message)
        return approves(message)

    mail = FunctionWorker(lambda step: "sent", card=Card(name="mail", price=FREE), acts=True)
    policy = Policy(approve="later", ask="actions")
    plan = FixedPlanner(plan_of((0, "To Ada", ())))
    conductor = Conductor(plan, [mail], policy=policy, journal=SqlJournal(tmp_path / "runs.db"))
    with served(conductor) as url:
        async with connect(http_of(url), user=user) as client:
            assert (await client.call("ask", question="q"))["content"][0]["text"] == "sent"
        workers = await McpServer("it", StreamableHttp(url)).workers()
    assert asked == ["May these actions be carried out?\n0. mail: To Ada"]
    acts = {worker.card.name: worker.acts for worker in workers}
    assert acts == {"it.ask": True, "it.plan": False, "it.run_plan": True, "it.list_models": False}


async def test_the_user_of_the_client_answers_the_question_of_a_step(tmp_path: Path) -> None:
    asked, answers = list[str](), iter(["perhaps", "yes"])

    def user(message: str) -> dict[str, object]:
        asked.append(message)
        return {"action": "accept", "content": {"answer": next(answers)}}

    plan, ann = FixedPlanner(plan_of((0, "May I?", ()))), PersonWorker("ann", choices=["yes", "no"])
    with served(Conductor(plan, [ann], journal=SqlJournal(tmp_path / "runs.db"))) as url:
        async with connect(http_of(url), user=user) as client:
            assert (await client.call("ask", question="q"))["content"][0]["text"] == "yes"
    assert asked[0] == "step 0 asks: May I?\nthe answer is one of: yes, no"
    assert asked[1].startswith("the answer to step 0 is 'perhaps': write one of 'yes', 'no'\nstep 0 asks")


async def test_a_cancelled_call_cancels_the_run() -> None:
    began, ended = threading.Event(), threading.Event()

    async def slow(step_input: StepInput) -> str:
        began.set()
        try:
            await anyio.sleep(30)
        finally:
            ended.set()
        return "late"

    conductor = Conductor(FixedPlanner(plan_of((0, "wait", ()))), [FunctionWorker(slow)])
    with served(conductor) as url:
        async with connect(http_of(url)) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(client.call, "ask", question="q"))
                assert await anyio.to_thread.run_sync(began.wait, 10)
                await client.cancel_latest()
                tasks.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(ended.wait, 10)
