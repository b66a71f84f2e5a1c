"""Tools and resources of MCP servers as workers, over stdio and HTTP."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from contracts.worker_contract import WorkerContract
from core.actors import plan_of
from servers import mcp_server
from servers.mcp_server import make_server
from servers.web_thread import Served, serving_mcp

from podium import Conductor, Message, Plan, Retry, Step
from podium.errors import ConfigError, ToolFailed, WorkerFailed, WorkerRefused, WorkerUnavailable
from podium.mcp import McpServer, Stdio, StreamableHttp
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Request, Worker, complete

pytestmark = pytest.mark.anyio
SCRIPT = mcp_server.__file__


def stdio(log: Path, **options: float) -> McpServer:
    command = Stdio(sys.executable, [SCRIPT, str(log)], env={"PET": "a-cat-of-mine"})
    return McpServer("test", command, **options)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """Serve HTTP; yield the server and the file of what happened."""
    path = tmp_path_factory.mktemp("mcp") / "log.txt"
    with serving_mcp(make_server(path)) as found:
        yield found, path


@pytest.fixture
def log(http: tuple[Served, Path]) -> Path:
    http[1].write_text("")
    return http[1]


@pytest.fixture
def served(http: tuple[Served, Path], log: Path) -> Served:
    http[0].status = None
    return http[0]


@pytest.fixture
def server(served: Served) -> McpServer:
    return McpServer("test", StreamableHttp(served.url, {"Authorization": "Bearer quartz-lantern-7"}))


@pytest.fixture(params=[pytest.param("stdio", marks=pytest.mark.long), "http"])
def either(request: pytest.FixtureRequest, log: Path) -> McpServer:
    return stdio(log) if request.param == "stdio" else request.getfixturevalue("server")


async def ask(server: McpServer, tool: str, subtask: str = "") -> Completion:
    (worker,) = await server.workers(tools=[tool])
    return await complete(worker, request(subtask))


def request(subtask: str) -> Request:
    return Request(messages=(Message("user", subtask),))


def lines(log: Path) -> list[str]:
    return log.read_text("utf-8").split("\n")[:-1]


async def until(log: Path, line: str) -> None:
    with anyio.fail_after(10):
        while line not in lines(log):  # noqa: ASYNC110  (another process writes it)
            await anyio.sleep(0.02)


class TestContract(WorkerContract):
    """A tool with one text argument keeps the contract of workers."""

    begins_within = 1.0  # the SDK's server misses a cancellation that arrives with the request

    @pytest.fixture
    async def worker(self, either: McpServer) -> Worker:
        return (await either.workers(tools=["echo"]))[0]

    @pytest.fixture(params=[pytest.param("stdio", marks=pytest.mark.long), "http"])
    async def slow_worker(self, request: pytest.FixtureRequest, log: Path) -> AsyncIterator[Worker]:
        with serving_mcp(make_server(log)) as served:
            at = StreamableHttp(served.url)
            server = stdio(log) if request.param == "stdio" else McpServer("test", at)
            (worker,) = await server.workers(tools=["slow"])
            async with worker:  # starting a process takes longer than the test waits
                await server.request(lambda client: client.listed("tools"))
                yield worker


async def test_cards_tell_names_descriptions_and_arguments(server: McpServer, served: Served) -> None:
    """Each tool is a worker; hints say which may be called again; headers are sent, and shown nowhere."""
    workers = {worker.card.name: worker for worker in await server.workers()}
    assert served.authorization == "Bearer quartz-lantern-7"
    assert "quartz-lantern-7" not in repr(server)
    assert {"test.echo", "test.add", "test.send"} <= workers.keys()
    assert workers["test.echo"].card.description == "Say what it is told."
    assert '"a" (integer), "b" (integer)' in workers["test.add"].card.description
    assert not workers["test.echo"].acts
    assert workers["test.send"].acts
    with pytest.raises(ConfigError, match=r"has no tool 'sing': it has add, data"):
        await server.workers(tools=["sing"])


RESULTS = {"add": ('{"a": 1, "b": "2"}', "3"), "data": ("", 'done\n\n{"rows": [1, 2]}')}
RESULTS["nothing"] = ("", "The tool succeeded and returned nothing.")
"""The text of each tool's result: text is not doubled by structured content that repeats it."""
FAILURES = [
    ("fail", "it rains", ToolFailed, r"tool 'test.fail' failed: no: it rains"),
    ("picture", '{"caption": false}', WorkerFailed, "returned no text; not passed on"),
    ("add", '{"a": "one", "b": 2}', WorkerRefused, r"argument 'a' .* must be of type integer"),
]


async def test_results(either: McpServer) -> None:
    async with either:
        for tool, (subtask, told) in RESULTS.items():
            assert (await ask(either, tool, subtask)).text == told
        for tool, subtask, kind, why in FAILURES:
            with pytest.raises(kind, match=why):
                await ask(either, tool, subtask)


async def test_tools_with_an_output_schema_have_typed_outputs(server: McpServer) -> None:
    """Their text is the JSON of the structured content, without the object that SDKs put around lists."""
    workers = await server.workers(tools=["found", "first", "add", "echo", "data"])
    types = [None if worker.card.returns is None else worker.card.returns["type"] for worker in workers]
    assert types == ["array", "object", "integer", None, None]
    steps = (Step(0, "a"), Step(1, "{{0.0.path}}", (0,)), Step(2, '{"a": "{{1.line}}", "b": 4}', (1,)))
    result = await Conductor(FixedPlanner(Plan(steps)), workers).run("q")
    one = '{"path":"%s.py","line":3}'
    assert [outcome.text for outcome in result.outcomes] == [f"[{one % 'a'}]", one % "a.py", "7"]


async def test_ends_of_a_step(server: McpServer) -> None:
    workers = await server.workers(tools=["fail", "picture"])
    ends = []
    for step in ((0, "it rains", ()), (1, '{"caption": true}', ())):
        result = await Conductor(FixedPlanner(plan_of(step)), workers).run("q")
        (outcome,) = result.outcomes
        ends.append((result.status, outcome.attempts, outcome.problem.code, result.answer))
    told = "not passed on, since the output of a step is text: an image (image/png, 15 bytes)"
    assert ends[0] == ("failed", 1, "tool_failed", "")
    assert ends[1] == ("partial", 1, "partial", f"A pixel.\n\n[{told}]")


async def test_resources_are_read(server: McpServer) -> None:
    async with server:
        today, notes, seal = await server.workers(tools=[], resources=["notes://today", "notes", "seal"])
        assert today.card.description == "Reads notes://today: What is planned today. It takes no arguments."
        assert (await complete(today, request("anything"))).text == "Water the plants."
        written = request('{"day": "Monday", "topic": "rain"}')
        assert (await complete(notes, written)).text == "rain on Monday"
        with pytest.raises(WorkerFailed, match=r"the resource notes://seal \(image/png, 15 bytes\)"):
            await complete(seal, request(""))
        with pytest.raises(ConfigError, match="has no resource 'poems'"):
            await server.workers(resources=["poems"])


async def test_a_cancelled_call_is_cancelled_on_the_server(either: McpServer, log: Path) -> None:
    slow, echo = await either.workers(tools=["slow", "echo"])
    async with either:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(complete, slow, request("a"))
            await until(log, "slow a")
            tasks.cancel_scope.cancel()
        await until(log, "cancelled")
        assert (await complete(echo, request("b"))).text == "You said: b"


@pytest.mark.long
async def test_calls_share_one_process(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-of-this-process")
    server = stdio(log)
    assert "a-cat-of-mine" not in repr(server)
    workers = await server.workers(tools=["environment"])
    conductor = Conductor(FixedPlanner(plan_of((0, "look", ()), (0, "look again", (0,)))), workers)
    async with conductor:
        first, second = await conductor.run("q"), await conductor.run("q")
    seen = [json.loads(outcome.text) for result in (first, second) for outcome in result.outcomes]
    assert len({each["PID"] for each in seen}) == 1
    assert (seen[0]["PET"], "SOME_API_KEY" in seen[0]) == ("a-cat-of-mine", False)


@pytest.mark.long
async def test_a_server_that_died_is_started_again(log: Path) -> None:
    workers = await stdio(log).workers(tools=["look"])
    conductor = Conductor(FixedPlanner(plan_of((0, "cats", ()))), workers, retry=Retry(first_wait=0.01))
    result = await conductor.run("q")
    assert (result.answer, lines(log)) == ("Looked for cats", ["look cats", "look cats"])
    problem = result.outcomes[0].calls[0].problem
    assert problem.code == "worker_broken"
    assert "closed the connection before it answered; it wrote:" in problem.message
    assert "something went wrong" in problem.message


async def test_a_tool_that_was_not_reached_is_called_again(served: Served, log: Path) -> None:
    workers = await McpServer("test", StreamableHttp(served.url)).workers(tools=["data"])
    conductor = Conductor(FixedPlanner(plan_of((0, "get it", ()))), workers, retry=Retry(first_wait=0.3))
    served.status = 503

    async def recover() -> None:
        await anyio.sleep(0.1)
        served.status = None

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recover)
        result = await conductor.run("q")
    assert result.status == "ok"


async def test_a_server_that_cannot_be_reached() -> None:
    for transport, kind, told in (
        (Stdio("no-such-program"), WorkerRefused, "cannot be started"),
        (Stdio(sys.executable, ["-c", "1/0"]), WorkerUnavailable, "ZeroDivisionError"),
        (StreamableHttp("http://127.0.0.1:1/mcp"), WorkerUnavailable, "cannot be reached"),
    ):
        with pytest.raises(kind, match=told) as raised:
            await McpServer("test", transport).workers()
        assert not raised.value.maybe_paid


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (partial(StreamableHttp, "ftp://x"), "the URL of an MCP server"),
        (partial(StreamableHttp, "http://[bad"), "the URL of an MCP server"),
        (partial(StreamableHttp, "http://user:secret@host/mcp"), "user name or password"),
        (partial(Stdio, " "), "command"),
        (partial(McpServer, "test", Stdio("x"), seconds=0), "above 0"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        make()
    assert "secret" not in str(raised.value)
