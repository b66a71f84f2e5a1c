"""Programs as workers: a real script in a process group, in a folder or a git worktree."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from contracts.worker_contract import WorkerContract
from core.actors import plan_of

from podium import Card, Conductor, Limits, Message, Price
from podium.errors import AgentFailed, AnswerTooLong, ConfigError, WorkerBroken, WorkerError, WorkerRefused
from podium.planners import FixedPlanner
from podium.usage import Usage
from podium.workers import FREE, CommandWorker, Request, Worker, complete
from podium.workers.command import Preset

pytestmark = pytest.mark.anyio
ECHO = 'read -r line; echo "You asked: $line"'
REPORTS = json.loads(Path(__file__).with_name("reports.json").read_text())
"""What the real programs wrote about a call of two requests to a scripted model."""


def shell(script: str, folder: Path, **options: object) -> CommandWorker:
    card = Card(name="sh", price=FREE)
    return CommandWorker(["/bin/sh", "-c", script], **{"folder": folder, "card": card, **options})  # type: ignore[arg-type]


def asked(text: str = "hello") -> Request:
    return Request(messages=(Message("user", text),))


class TestCommand(WorkerContract):
    @pytest.fixture
    def worker(self, tmp_path: Path) -> Worker:
        return shell(ECHO, tmp_path)

    @pytest.fixture
    def slow_worker(self, tmp_path: Path) -> Worker:
        return shell("sleep 60", tmp_path)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "file.txt").write_text("one\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "One")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


async def test_the_environment_is_what_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-podium-itself")
    found = await complete(shell("env", tmp_path, env={"ITS_KEY": "of-the-program"}), asked())
    names = {line.partition("=")[0] for line in found.text.splitlines()}
    assert "ITS_KEY" in names
    assert names <= {"PATH", "HOME", "LANG", "TMPDIR", "ITS_KEY", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize(
    ("script", "kind", "told"),
    [
        ("echo broken >&2; exit 3", AgentFailed, "failed with exit code 3: broken"),
        ("kill -9 $$", WorkerBroken, "killed by signal 9"),
        ("yes", AnswerTooLong, "wrote more than"),
    ],
)
async def test_how_a_program_fails(script: str, kind: type[WorkerError], told: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=told) as raised:
        await complete(shell(script, tmp_path), asked())
    assert raised.value.maybe_paid


async def test_a_program_that_is_not_there_was_not_called(tmp_path: Path) -> None:
    worker = CommandWorker(["no-such-program"], folder=tmp_path, card=Card(name="none"))
    with pytest.raises(WorkerRefused, match="'no-such-program' was not found") as raised:
        await complete(worker, asked())
    assert not raised.value.maybe_paid


def test_wrong_settings(tmp_path: Path) -> None:
    card = Card(name="agent", price=Price(input=1.0, output=2.0))
    with pytest.raises(ConfigError, match="set most_cost"):
        CommandWorker(preset="codex", folder=tmp_path, card=card)
    for preset in (None, "acp"):
        with pytest.raises(ConfigError, match="has no command"):
            CommandWorker(preset=preset, folder=tmp_path, card=Card(name="agent"))
    with pytest.raises(ConfigError, match="does not exist"):
        CommandWorker(["true"], folder=tmp_path / "none", card=Card(name="agent"))


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def number_in(file: Path) -> int:
    """Return the number that a program writes to a file; 0 until then."""
    return int(file.read_text() or 0) if file.exists() else 0


def has_ended(process: int) -> bool:
    """Return whether a process has ended; it may not be collected yet."""
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


async def test_a_cancel_ends_the_process_group(tmp_path: Path) -> None:
    """Also what the program has started."""
    worker, child = shell("sleep 60 & echo $! >child; wait", tmp_path), tmp_path / "child"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(complete, worker, asked())
        await anyio.to_thread.run_sync(until, lambda: number_in(child))
        tasks.cancel_scope.cancel()
    until(lambda: has_ended(number_in(child)))


CHILD = """
import sys
import anyio
from podium.workers import Card, CommandWorker, Request, complete
from podium.types import Message
command = ["/bin/sh", "-c", "echo $$ >child; sleep 60"]
worker = CommandWorker(command, folder=sys.argv[1], card=Card(name="sh"))
anyio.run(complete, worker, Request(messages=(Message("user", "x"),)))
"""


@pytest.mark.long
def test_a_killed_podium_leaves_no_program(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)]) as podium:
        until(lambda: number_in(tmp_path / "child"))
        podium.kill()
    until(lambda: has_ended(number_in(tmp_path / "child")))


@pytest.mark.long
async def test_a_worktree_is_kept_if_something_changed(repository: Path) -> None:
    writes = shell("echo two >>file.txt; echo done", repository / "part", worktree=True)
    reads = shell("cat file.txt", repository / "part", worktree=True)
    assert (await complete(reads, asked())).text == "one"
    text = (await complete(writes, asked())).text
    branch = git(repository, "branch", "--format=%(refname:short)", "--list", "podium/*").strip()
    top = repository.with_name("repository.worktrees") / branch.removeprefix("podium/")
    assert text == f"done\n\n(The changes are on the branch {branch}, in the worktree {top}.)"
    assert git(repository, "show", f"{branch}:part/file.txt") == "one\ntwo\n"
    assert git(repository, "status", "--porcelain") == ""
    assert [path.name for path in top.parent.iterdir()] == [top.name]
    fails = shell("echo three >>file.txt; exit 1", repository / "part", worktree=True)
    with pytest.raises(AgentFailed, match="failed with exit code 1; the changes are on the branch podium/"):
        await complete(fails, asked())


def agent(preset: Preset, report: str, code: int, folder: Path, **facts: object) -> CommandWorker:
    """Return a worker whose program writes a report, and keeps its arguments."""
    (folder / "report").write_text(report)
    program = folder / "agent"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >arguments\ncat report\nexit {code}\n')
    program.chmod(0o700)
    card = Card(name="agent", **facts)  # type: ignore[arg-type]
    return CommandWorker([str(program), "--model", "m"], preset=preset, folder=folder, card=card)


@pytest.mark.parametrize(
    ("preset", "answer", "usage", "cost"),
    [
        ("claude", "I wrote claude.txt.", Usage(2300, 40, 100), 0.01162),
        ("codex", "I wrote codex.txt.", Usage(2000, 60, 800, 10), None),
        ("gemini", "I wrote gemini.txt.", Usage(1000, 60, 200, 20), None),
    ],
)
async def test_the_reports_of_agents(preset: Any, answer: str, usage: Any, cost: Any, tmp_path: Path) -> None:
    found = await complete(agent(preset, REPORTS[preset], 0, tmp_path), asked())
    assert (found.text, found.usage, found.cost, found.missing) == (answer, usage, cost, None)


async def test_claude_code_at_its_budget(tmp_path: Path) -> None:
    """It is told the most that a call may cost; what it has spent is counted."""
    worker = agent("claude", REPORTS["claude at its budget"], 1, tmp_path, most_cost=0.005)
    with pytest.raises(AgentFailed, match=r"Reached maximum budget \(\$0.005\)") as raised:
        await complete(worker, asked())
    assert (raised.value.usage, raised.value.cost) == (Usage(1150, 20, 50), 0.00581)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments[arguments.index("--max-budget-usd") + 1] == "0.005000"
    assert arguments[arguments.index("--permission-mode") + 1] == "acceptEdits"


async def test_an_agent_that_is_denied_or_fails(tmp_path: Path) -> None:
    found = await complete(agent("claude", REPORTS["claude without permission"], 0, tmp_path), asked())
    assert found.missing == "it was not permitted to use Bash"
    with pytest.raises(AgentFailed, match="unexpected status 404 Not Found"):
        await complete(agent("codex", REPORTS["codex fails"], 1, tmp_path), asked())


async def test_the_most_that_a_call_costs_is_reserved(tmp_path: Path) -> None:
    limits, plan = Limits(cost=2.5), FixedPlanner(plan_of((0, "a", ()), (0, "b", (0,))))
    worker = agent("claude", REPORTS["claude"], 0, tmp_path)
    with pytest.raises(ConfigError, match=r"the price of 'agent' is unknown.*most_cost"):
        await Conductor(plan, [worker], limits=limits).run("x")
    worker = agent("claude", REPORTS["claude"], 0, tmp_path, most_cost=1.0)
    ended = await Conductor(plan, [worker], limits=limits).run("x")
    assert (ended.status, ended.cost) == ("ok", pytest.approx(0.02324))
    worker = agent("claude", REPORTS["claude"], 0, tmp_path, most_cost=3.0)
    ended = await Conductor(plan, [worker], limits=limits).run("x")
    assert (ended.status, ended.problem.code) == ("failed", "limit")
