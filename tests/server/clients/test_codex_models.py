"""Codex reads the list of models: it takes the instructions and the effort of a model from there."""

from pathlib import Path

import pytest
from server.clients.conftest import run
from server.scene import CONFIG
from servers.chat_server import ChatServer, says
from servers.podium_server import serving

MODELS = """
[models.one]
worker = "one"
codex_instructions = "prompt.md"
efforts.high.worker = "high"
"""
PROVIDER = """
model = "one"
model_provider = "podium"
[model_providers.podium]
name = "Podium"
base_url = "{url}"
wire_api = "responses"
[model_providers.podium.auth]
command = "printenv"
args = ["PODIUM_KEY"]
"""


@pytest.mark.long
def test_codex_reads_the_list(npm_programs: Path, tmp_path: Path) -> None:
    """The worker gets the instructions of the file, and the effort of the list."""
    (tmp_path / "prompt.md").write_text("You are the agent of this test.")
    (tmp_path / ".codex").mkdir()
    with ChatServer(lambda call: says(call, "the answer")).in_thread() as upstream:
        text = CONFIG.format(url=upstream.url, models=MODELS, server="")
        with serving(text, tmp_path) as served:
            (tmp_path / ".codex" / "config.toml").write_text(PROVIDER.format(url=served.url))
            told = run("codex exec 'Say hello.'", tmp_path, npm_programs, PODIUM_KEY="none")
    assert "the answer" in told
    assert "fallback model metadata" not in told
    body = upstream.calls[-1].body
    assert "You are the agent of this test." in str(body["messages"][0])
    assert body["reasoning_effort"] == "high"
