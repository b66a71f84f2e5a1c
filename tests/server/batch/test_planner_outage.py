"""`--retry-failed` after an outage of the planner: what has failed is asked for again, and nothing else."""

from pathlib import Path

import pytest
from server.batch.conftest import Batch, echo, read, write
from server.batch.test_openai_files import chat
from server.scene import PLAN
from servers.chat_server import Call, ChatServer, Reply, says, whole

PLAIN = [{"id": f"q{number}", "query": f"question {number}"} for number in range(3)]
OPENAI = [chat(f"q{number}", f"question {number}", model="team") for number in range(3)]


def working(call: Call) -> Reply:
    """Answer as a team with a planner."""
    return says(call, PLAN) if call.body["model"] == "planner" else echo(call)


def served(call: Call) -> Reply:
    """Answer as a team whose planner refuses."""
    refusal = whole({"error": {"message": "no"}}, status=400)
    return refusal if call.body["model"] == "planner" else echo(call)


def unusable(call: Call) -> Reply:
    """Answer as a team whose planner writes no plan."""
    return says(call, "I cannot plan.") if call.body["model"] == "planner" else echo(call)


@pytest.mark.long
@pytest.mark.parametrize(
    ("lines", "status"), [(PLAIN, "failed"), (OPENAI, "partial")], ids=["plain", "openai"]
)
def test_retry(
    folder: Path, batch: Batch, upstream: ChatServer, lines: list[dict[str, object]], status: str
) -> None:
    """Lines without a plan, and lines whose plan the fallback planner wrote, get a plan of the planner."""
    if status == "partial":
        config = folder / "podium.toml"
        text = config.read_text().replace('model = "planner"', 'model = "planner"\nfallback = "rule"')
        config.write_text(text)
    words = ("in.jsonl", "--model", "team")
    write(folder / "in.jsonl", lines)
    upstream.reply = served if status == "failed" else unusable
    assert f"3 {status}" in batch(*words, code=1).stderr
    still = batch(*words, "--retry-failed", code=1).stderr
    assert f"3 {status}" in still
    upstream.reply = working
    calls = len(upstream.calls)
    batch(*words, code=1)
    assert len(upstream.calls) == calls
    told = batch(*words, "--retry-failed").stderr
    assert "3 lines: 3 ok" in told
    planned = [call for call in upstream.calls[calls:] if call.body["model"] == "planner"]
    assert len(planned) == 3
    states = [row.get("podium", row) for row in read(folder / "in.results.jsonl")]
    assert [state["status"] for state in states] == ["ok"] * 3
    calls = len(upstream.calls)
    batch(*words, "--retry-failed")
    assert len(upstream.calls) == calls
