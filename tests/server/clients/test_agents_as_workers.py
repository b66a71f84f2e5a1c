"""The real Claude Code and Codex as workers: they change a repository, and Podium is killed meanwhile."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from server.scene import until
from servers.agent_models import Run, Turn, agent_model
from servers.chat_server import ChatServer

PLAN = """{"steps": [
  {"worker": "codex", "subtask": "Write add.py.", "access": []},
  {"worker": "claude", "subtask": "Write mul.py.", "access": []},
  {"access": [0, 1], "until": {"ref": "{{1.green}}", "is": true}, "most": 3, "steps": [
    {"worker": "fixer", "subtask": "Merge the branches. Mend this: {{previous.log}}", "access": ["outer"]},
    {"worker": "checker", "subtask": "Run the tests.", "access": [0],
     "returns": {"type": "object", "properties": {"green": {"type": "boolean"}, "log": {"type": "string"}},
                 "required": ["green", "log"], "additionalProperties": false}}
  ]}
]}"""
CODEX = """type = "command"
preset = "codex"
command = ["codex", "-m", "gpt-5", "-c", 'model_provider="scripted"', "-c", '{provider}']
folder = "repository"
most_cost = 1.0
price = {{ input = 1.0, output = 10.0 }}
env_from = ["OPENAI_API_KEY"]
"""
CLAUDE = """type = "command"
preset = "claude"
folder = "repository"
most_cost = 1.0
env = {{ ANTHROPIC_BASE_URL = "{url}", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1" }}
env_from = ["ANTHROPIC_API_KEY"]
"""
CONFIG = f"""
[workers.codex]
{CODEX}
worktree = true

[workers.claude]
{CLAUDE}
worktree = true

[workers.fixer]
{CLAUDE}
command = ["claude", "--allowedTools", "Bash(git *)"]

[workers.checker]
{CODEX}
acts = false

[planner]
type = "fixed"
plan = "plan.json"

[limits]
cost = 10.0

[journal]
path = "runs.db"
lease = 0.5
"""
DRIVER = """
import json, sys
import anyio
from podium.config import load_config

async def main(what):
    conductor = load_config("podium.toml").conductor()
    if what == "run":
        result = await conductor.run("Build it.", run_id="build")
    else:
        if what != "resume":
            await conductor.decide("build", action=what, done=False)
        result = await conductor.resume("build")
    ends = {action.name: action.end for action in result.actions}
    print(json.dumps([result.status, result.answer, result.cost, ends]))

anyio.run(main, sys.argv[1])
"""


class Model:
    """The model of both agents; it counts the calls of each, and may never answer one of them."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.stalls_at = ""
        self.is_stalling = False

    def think(self, turn: Turn) -> Run | str | None:
        who = next(name for name, word in WORDS.items() if word in turn.prompt)
        if who == "fixer" and "Mend this: mul" in turn.prompt:
            who = "second fixer"
        if not turn.results:
            self.calls[who] += 1
            if who == self.stalls_at:
                self.is_stalling = True
                return None
            return Run(self.command(who, turn.prompt))
        if who == "checker":
            green = "rc=0" in turn.results[-1]
            return json.dumps({"green": green, "log": "" if green else "mul is wrong"})
        return "Done."

    def command(self, who: str, prompt: str) -> str:
        branches = sorted(set(re.findall(r"podium/[\w-]+", prompt)))
        return {
            "codex": "echo 'def add(a, b): return a + b' > add.py",
            "claude": "echo 'def mul(a, b): return a + b' > mul.py",
            "fixer": f"git merge --quiet --no-edit {' '.join(branches)}",
            "second fixer": "echo 'def mul(a, b): return a * b' > mul.py",
            "checker": f"{sys.executable} -B test.py; echo rc=$?",
        }[who]


WORDS = {"checker": "Run the tests", "fixer": "Merge the", "codex": "Write add.py", "claude": "Write mul.py"}
"""For each agent a part of its prompt, which earlier ones are not shown."""


def working_in(folder: Path) -> list[str]:
    """Return the processes whose working folder is in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text())
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_agents_change_a_repository_until_its_tests_pass(npm_programs: Path, tmp_path: Path) -> None:
    """Podium is killed twice: what had ended is not repeated, and no agent outlives it."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    test = "from add import add\nfrom mul import mul\nassert (add(2, 3), mul(2, 3)) == (5, 6)\n"
    (repository / "test.py").write_text(test)
    made = "git init -q -b main && git config user.name a && git config user.email a@localhost"
    subprocess.run(f"{made} && git add . && git commit -q -m One", shell=True, cwd=repository, check=True)  # noqa: S602
    model = Model()
    env = {"HOME": str(tmp_path / "home"), "PATH": f"{npm_programs}:{os.environ['PATH']}"}
    env |= {"TMPDIR": str(tmp_path / "tmp")}  # Codex needs a home elsewhere to call its sandbox by bubblewrap
    env |= {"OPENAI_API_KEY": "sk-of-the-test-only", "ANTHROPIC_API_KEY": "sk-of-the-test-only"}
    with ChatServer(agent_model(model.think)).in_thread() as server:
        root = server.url.removesuffix("/v1")
        told = f'name="s", base_url="{root}/v1", env_key="OPENAI_API_KEY", wire_api="responses"'
        provider = f"model_providers.scripted={{{told}}}"
        (tmp_path / "podium.toml").write_text(CONFIG.format(url=root, provider=provider))
        (tmp_path / "plan.json").write_text(PLAN)

        def podium(what: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", DRIVER, what]
            return subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)

        def killed(what: str, stalls_at: str) -> None:
            model.stalls_at, model.is_stalling = stalls_at, False
            with podium(what) as process:
                assert until(lambda: model.is_stalling, 120)
                process.kill()
            assert until(lambda: not working_in(repository), 120)
            model.stalls_at = ""

        def ended(what: str) -> tuple[str, str, float, dict[str, str]]:
            with podium(what) as process:
                output, _ = process.communicate(timeout=120)
            status, answer, cost, ends = json.loads(output)
            return status, answer, cost, ends

        killed("run", "checker")
        assert model.calls == {"codex": 1, "claude": 1, "fixer": 1, "checker": 1}
        killed("resume", "second fixer")
        status, _, _, ends = ended("resume")
        assert status != "ok"
        unknown = [name for name, end in ends.items() if end == "unknown"]
        assert len(unknown) == 1
        status, answer, cost, ends = ended(unknown[0])
    assert (status, json.loads(answer)) == ("ok", {"green": True, "log": ""})
    assert model.calls == {"codex": 1, "claude": 1, "fixer": 1, "checker": 3, "second fixer": 2}
    assert set(ends.values()) == {"done"}
    assert 0 < cost < 10
    kept = sorted(path.name for path in repository.with_name("repository.worktrees").iterdir())
    assert [name.rpartition("-")[0] for name in kept] == ["build-1-0-1", "build-1-1-1"]
    assert not working_in(tmp_path)
