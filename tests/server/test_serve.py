"""`podium serve` as its user runs it: the demo, the check, wrong input, and signals."""

import signal
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, config, process, team
from servers.chat_server import Call, ChatServer, Pause, Reply, whole
from typer.testing import Result

from podium.aio import run_sync
from podium.journal import SqlJournal

Run = Callable[..., Result]


@pytest.mark.long
def test_without_a_config_it_serves_the_demo(tmp_path: Path) -> None:
    """It answers without a model, key or network, ends with 0 on SIGTERM, and keeps no file."""
    journal = tmp_path / "state" / "podium" / "journal.db"
    journal.parent.mkdir(parents=True)
    journal.write_text("not a database")
    with process(tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), TMPDIR=str(tmp_path)) as running:
        (made,) = tmp_path.glob("podium-demo-*")
        assert (made / "runs.db").exists()
        with openai.OpenAI(base_url=running.url, api_key="none", max_retries=0) as client:
            asked: Any = [{"role": "user", "content": "What is 17.5% of 2,340?"}]
            answer = client.chat.completions.create(model="podium", messages=asked)
        assert "409.5" in (answer.choices[0].message.content or "")
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    assert not made.exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_end(number: signal.Signals, folder: Path, upstream: ChatServer) -> None:
    """Within `drain_seconds`; no further connection is accepted."""

    def reply(call: Call) -> Reply:
        made = team(call)
        if call.body["model"] != "two":
            return made
        running.send_signal(number)
        return Reply((Pause(0.4), *made.parts))

    upstream.reply = reply
    with process(folder) as running:
        with openai.OpenAI(base_url=running.url, api_key="none", max_retries=0) as client:
            answer = client.chat.completions.create(model="podium", messages=ASKED)
        assert answer.choices[0].message.content == "the answer"
        assert running.wait(20) == (0 if number == signal.SIGTERM else 130)
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(running.url)


def check(podium: Run, folder: Path, *words: str, port: str = "0") -> Result:
    return podium("serve", *words, "--port", port, "--config", str(folder / "podium.toml"))


def test_the_check(folder: Path, podium: Run) -> None:
    done = check(podium, folder, "--check")
    assert done.exit_code == 0, done.output
    told = ["✓ API keys: there are none", "✓ model podium: podium-", "! endpoint http://127.0.0.1:"]
    told += ["✓ journal: works", "✓ address: http://127.0.0.1:"]
    assert [each for each in told if each not in done.stdout] == []
    assert "no model was called" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("base_url", 'key_env = "NO_SUCH_KEY"\nbase_url', "variable NO_SUCH_KEY is not set"),
        ('"runs.db"', '"/proc/none/runs.db"', "journal: the journal in"),
        ('"runs.db"', '"text.db"', "journal: the journal in"),
        ('"runs.db"', '"future.db"', "999"),
        ("[server]", '[models.a]\nworker = "three"\n[server]', "'worker' in [models.a] names 'three'"),
        ("http://127.0.0.1:", "http://127.0.0.1:1/", "no connection to http://127.0.0.1:1/"),
        ("[server]", '[server]\nhost = "0.0.0.0"', "address: 0.0.0.0 can be reached from other machines"),
    ],
    ids=["key", "path", "no database", "version", "worker", "endpoint", "host"],
)
def test_the_check_of_something_missing(old: str, new: str, told: str, folder: Path, podium: Run) -> None:
    (folder / "text.db").write_text("not a database")
    run_sync(SqlJournal(folder / "future.db").runs)
    with sqlite3.connect(folder / "future.db") as database:
        database.execute("UPDATE podium_schema SET version = 999")
    database.close()
    file = folder / "podium.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    done = check(podium, folder, "--check")
    assert done.exit_code == 1, done.output
    (line,) = [line for line in done.stdout.splitlines() if told in line]
    assert line.startswith("✗")
    assert "✓ address: http://" in done.stdout


def test_the_check_of_a_port_in_use(folder: Path, podium: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = check(podium, folder, "--check", port=port)
        assert (done.exit_code, "✗ address: cannot listen on 127.0.0.1" in done.stdout) == (1, True)
        again = check(podium, folder, port=port)
        assert (again.exit_code, "cannot listen" in again.stderr) == (2, True)


def test_the_check_of_the_names_of_models(folder: Path, podium: Run, upstream: ChatServer) -> None:
    """A model that the endpoint neither lists nor knows is an error; without a list, it is a warning."""
    cases: list[tuple[list[str] | None, str, str, str]] = [
        (["one", "two", "planer"], "", "✗", "has no model 'planner': did you mean 'planer'?"),
        (["models/one", "two", "other"], "planner", "✓", "has the models one, two, planner"),
        (["other"], "", "✗", "has no model 'one': it lists 1 other model"),
        ([], "", "!", "it has no list of models, so the names one, two, planner were not checked"),
    ]
    for listed, known, mark, told in cases:

        def reply(call: Call, listed: list[str] | None = listed, known: str = known) -> Reply:
            name = call.path.removeprefix("/v1/models/")
            if call.path == "/v1/models":
                return whole({"data": [{"id": each} for each in listed or ()]})
            return whole({"id": name}) if name == known else whole({"error": {"message": "no"}}, status=404)

        upstream.reply = reply
        done = check(podium, folder, "--check")
        assert done.exit_code == (mark == "✗"), done.output
        (line,) = [line for line in done.stdout.splitlines() if "endpoint" in line]
        assert (line[0], told in line) == (mark, True), line
    upstream.calls.clear()
    upstream.reply = lambda call: whole({"error": {"message": "no"}}, status=401)
    done = check(podium, folder, "--check")
    assert (done.exit_code, "answered 401" in done.stdout) == (1, True)
    assert [call.path for call in upstream.calls] == ["/v1/models"]


def test_what_is_refused_before_the_start(tmp_path: Path, podium: Run) -> None:
    file = tmp_path / "podium.toml"
    for table, told in (
        ("port = 70000", "'port' in [server]"),
        ("requests = 0", "'requests' in [server]"),
        ('host = "0.0.0.0"', "has no API keys"),
        ("prot = 1", "did you mean 'port'?"),
        ("read_seconds = -1", "'read_seconds' in [server]"),
    ):
        file.write_text(config("http://127.0.0.1:1/v1", server=table))
        done = podium("serve", "--config", str(file))
        assert (done.exit_code, told in done.stderr) == (2, True), done.output
    text = config("http://127.0.0.1:1/v1")
    file.write_text(text.replace("base_url", 'key_env = "NO_SUCH_KEY"\nbase_url', 1))
    for words, told in (
        (("--config", str(file)), "NO_SUCH_KEY"),
        (("--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines"),  # noqa: S104 - it is refused
        (("--port", "99999"), "99999"),
        (("--config", "/no/such/podium.toml"), "/no/such/podium.toml"),
    ):
        done = podium("serve", *words)
        assert (done.exit_code, told in done.stderr) == (2, True), done.output
