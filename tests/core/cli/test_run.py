"""`podium run`, with its streams piped: results, bad input, and what it shows of secrets."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from servers.chat_server import Call, ChatServer, Reply, says, whole
from typer.testing import Result

from podium.plan_text import write_plan
from podium.types import Plan, Step

Podium = Callable[..., Result]


def test_a_question_and_its_answer(podium: Podium, config: Path, server: ChatServer) -> None:
    result = podium("run", "What is it?")
    assert (result.exit_code, result.stdout) == (0, "forty-two\n")
    assert re.fullmatch(r"podium: run [0-9a-f]{32}\n", result.stderr)
    Path("notes.md").write_text("```\ninner\n```\n")
    for args, piped, told in (
        (("-",), "Piped in?\n", "Piped in?"),
        ((), "Piped in?\n", "Piped in?"),
        (("Sum up.", "--file", "notes.md"), "", "notes.md:\n````\n```\ninner\n```\n````"),
    ):
        assert podium("run", *args, input=piped).stdout == "forty-two\n"
        assert told in server.calls[-1].body["messages"][-1]["content"]


def test_json_holds_the_whole_result(podium: Podium, config: Path) -> None:
    """With `--json` stdout is one object with all that is known."""
    said = json.loads(podium("run", "What is it?", "--json").stdout)
    assert (said["status"], said["answer"], said["problem"]) == ("ok", "forty-two", None)
    assert [o["worker"] for o in said["outcomes"]] == ["thinker", "speaker"]
    assert (said["plans"][0]["steps"][1]["access"], said["usage"]["input_tokens"]) == ([0], 633)
    assert said["cost"] is None
    assert said["run_id"] in said["explain"]
    assert said["forecast"]["calls"]["likely"] == 2
    assert said["forecast"]["within"] in (True, False)
    assert said["forecast"]["guessed"] == ["thinker", "speaker"]
    assert json.loads(podium("show", said["run_id"], "--json").stdout)["forecast"] == said["forecast"]


def test_saved_plan_names_its_workers(podium: Podium, config: Path, server: ChatServer) -> None:
    saved = podium("plan", "What is it?", "--json").stdout
    assert [step["worker"] for step in json.loads(saved)["steps"]] == ["thinker", "speaker"]
    thinker, speaker = "[workers.thinker]", "[workers.speaker]"
    told = config.read_text()
    start, end = told.index(thinker), told.index(speaker)
    config.write_text(told[:start] + told[end:].rstrip() + "\n" + told[start:end])
    Path("plan.json").write_text(saved)
    run = json.loads(podium("run", "--plan", "plan.json", "--json").stdout)
    assert [outcome["worker"] for outcome in run["outcomes"]] == ["thinker", "speaker"]
    assert run["planner"]["name"] == "thinker (according to plan.json)"  # a person may have changed the file
    Path("plan.json").write_text(saved.replace("speaker", "nobody"))
    result = podium("run", "--plan", "plan.json")
    assert result.exit_code == 2
    assert "step 1 names worker 'nobody'; the workers are speaker, thinker" in result.stderr
    assert "podium: this plan is in plan.json" in result.stderr


def test_partial_answer_exits_with_3(podium: Podium, config: Path, server: ChatServer) -> None:
    other = config.rename(config.parent / "my config.toml")
    server.reply = _fails("subtask b")
    result = podium("run", "--config", str(other), "What is it?")
    assert (result.exit_code, result.stdout) == (3, "half\n")
    assert "partial answer" in result.stderr
    assert "the answer was made without step 1 (speaker)" in result.stderr
    shown = re.search(r"with `podium (resume .*)`", result.stderr)
    assert shown is not None
    server.reply = lambda call: says(call, "forty-two")
    assert podium(*shlex.split(shown[1]), "--refresh").stdout == "forty-two\n"


def test_output_of_another_step_is_no_answer(podium: Podium, config: Path, server: ChatServer) -> None:
    """When the last step fails, stdout is empty; the outputs of the steps are shown on request."""
    server.reply = _fails("subtask c")
    result = podium("run", "What is it?")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "half" not in result.stderr
    known = re.findall(r"run ([0-9a-f]{32})", result.stderr)[0]
    again = podium("resume", known, "--outputs")
    assert (again.exit_code, again.stdout) == (1, "")
    told = "--- step 0 (thinker): ok ---\nhalf\n--- step 1 (speaker): ok ---\nhalf\n"
    assert told in again.stderr
    assert told in podium("show", known, "--outputs").stdout.replace("\n\n", "\n")
    assert "half" not in podium("show", known).stdout


def _fails(subtask: str) -> Callable[[Call], Reply]:
    rows = ((0, "subtask a", ()), (1, "subtask b", ()), (0, "subtask c", (0, 1)))

    def reply(call: Call) -> Reply:
        if "structured_outputs" in call.body:
            return says(call, write_plan(Plan(tuple(Step(*row) for row in rows)), "rows"))
        is_asked = f"Your part:\n{subtask}" in call.body["messages"][-1]["content"]
        return whole({"error": {"message": "down"}}, status=400) if is_asked else says(call, "half")

    return reply


BAD_INPUT: list[tuple[tuple[str, ...], str]] = [
    (("run", "  "), "the question is empty"),
    (("run", "Why?", "--file", "missing.txt"), "missing.txt cannot be read: it does not exist: check"),
    (("run", "Why?", "--file", "."), ". cannot be read: it is a folder: name a file in it"),
    (("run", "Why?", "--file", "binary"), "not UTF-8 text"),
    (("run", "Why?", "--file", "huge"), "huge cannot be read: it is longer than 16,777,220 bytes"),
    (("run", "--plan", "missing.json"), "no saved plan 'missing.json': [plans] has none; and there is no"),
    (("run", "--plan", "podium.toml"), "the file lacks 'steps': add it"),
    (("run", "Why?", "--seconds", "nan"), "must be above 0"),
    (("run", "Why?", "--steps", "1.5"), "'--steps': '1.5': write a whole number"),
    (("init", "--preset", "foo"), "'--preset': 'foo' is not one of"),
    (("run", "x" * (5 * 2**20)), "the question is longer than"),
]


def test_bad_input_exits_with_2(podium: Podium, config: Path, server: ChatServer) -> None:
    Path("binary").write_bytes(b"\xff\xfe\x00")
    with Path("huge").open("wb") as huge:
        huge.truncate(2**25)
    for args, told in BAD_INPUT:
        result = podium(*args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr
    result = podium("run", input=b"caf\xe9?")
    assert (result.exit_code, "stdin is not UTF-8 text" in result.stderr) == (2, True)
    assert not server.calls


def test_a_server_that_is_off(podium: Podium, config: Path) -> None:
    config.write_text(re.sub('base_url = ".*"', 'base_url = "http://127.0.0.1:9/v1"', config.read_text()))
    config.write_text(f"{config.read_text()}[retry]\nattempts = 1\n")
    result = podium("run", "What is it?", "--seconds", "5")
    assert result.exit_code == 1
    told = "no connection to http://127.0.0.1:9/v1/chat/completions (is the server up?): Connection refused"
    assert told in result.stderr
    assert "ssl:" not in result.stderr


def test_hosted_conductor_runs_too(podium: Podium, config: Path, server: ChatServer) -> None:
    """A `[hosted]` config answers and records its runs; it has no plan to show before."""
    head = config.read_text().partition("[workers.thinker]")[0]
    price = "price = { input = 1, output = 2 }"
    config.write_text(head + f'[hosted]\nendpoint = "loopback"\napi = "chat"\n{price}\n')
    server.reply = lambda call: says(call, "from afar")
    assert podium("run", "What is it?").stdout == "from afar\n"
    assert podium("plan", "What is it?").exit_code == 2
    said = json.loads(podium("check", "--json").stdout)
    assert [(part["role"], part["ok"]) for part in said["parts"]] == [("conductor", True)]
    run_id = json.loads(podium("run", "What is it?", "--json", "--max-cost", "9").stdout)["run_id"]
    assert "fugu" in podium("show", run_id).stdout


KEY = "sk-loopback-0123456789"


def test_a_key_is_hidden(podium: Podium, config: Path, server: ChatServer) -> None:
    server.reply = lambda call: whole({"error": {"message": f"bad key {KEY}"}}, status=401)
    for args in ("run Why?", "check --json"):
        result = podium(*args.split())
        assert result.exit_code == 1
        assert KEY not in result.output
    plan = '{"worker": 0, "subtask": "go", "access": []}'
    said = f"Your key is {KEY}"
    server.reply = lambda call: says(call, plan if "structured_outputs" in call.body else said)
    result = podium("run", "Why?", "--json")
    assert KEY not in result.output
    assert "[secret]" in result.output


def test_control_characters_reach_no_pipe(podium: Podium, config: Path, server: ChatServer) -> None:
    attack = "a\x1b]0;owned\x07\x9b31m\x7f\x08b\r\nc\td"
    plan = json.dumps({"worker": 0, "subtask": f"Think.{attack}", "access": []})
    server.reply = lambda call: says(call, plan if "structured_outputs" in call.body else attack)
    shown = podium("run", "What is it?")
    assert shown.stdout == "a�]0;owned��31m��b\nc\td\n"
    run_id = shown.stderr.split("run ")[1].split()[0]
    asked = ["run What? --json", "plan What?", "plan What? --json", "runs", "runs --json"]
    asked += [f"show {run_id}{form}" for form in ("", " --json", " --events", f" {run_id}")]
    asked += [f"audit export {run_id}", "plan --parse plan.txt --workers thinker"]
    Path("plan.txt").write_text(plan)
    for args in asked:
        result = podium(*args.split())
        assert result.exit_code == 0, (args, result.output)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.stdout + result.stderr), args
    assert json.loads(podium("show", run_id, "--json").stdout)["answer"] == attack
    assert podium("audit", "export", run_id, "-o", "copy.jsonl").exit_code == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", Path("copy.jsonl").read_bytes().decode())
    assert podium("audit", "verify", "copy.jsonl").exit_code == 0
