"""The SDKs of OpenAI, Anthropic and Vercel for JavaScript: texts, streams, tools, objects and errors."""

import json
import subprocess
from pathlib import Path

import pytest
from server.clients.conftest import blocks
from servers.podium_server import Served

HELLO = "Hello to you, too."
LOOP = {"text": "The tools say sun in Paris.", "steps": 3}
"""Both steps of the plan call the tool, each once."""
CITY = '{"city": "Paris"}'
SAYS_HELLO = {
    "openai": ("chat", "chat stream", "chat helper", "responses", "responses stream", "responses helper"),
    "anthropic": ("message", "stream"),
    "vercel": ("openai chat", "openai responses", "compatible", "anthropic"),
}
OBJECTS = ("openai", "openai chat", "compatible", "anthropic")
FOUND = {
    **{f"{sdk} {name}": HELLO for sdk, names in SAYS_HELLO.items() for name in names},
    **{f"vercel {name} loop": LOOP for name in SAYS_HELLO["vercel"]},
    **{f"vercel {name} object": {"city": "Paris"} for name in OBJECTS},
    **dict.fromkeys(("openai chat loop", "anthropic loop"), LOOP["text"]),
    **dict.fromkeys(("openai chat parse", "openai responses parse"), CITY),
    **{f"{sdk} models": ["team", "one"] for sdk in ("openai", "anthropic")},
    "openai chat usage": True,
    "openai chat streamed tool": "weather",
    "openai chat error": "404 model_not_found",
    "openai responses background": "response.completed",
    "anthropic streamed tool": "tool_use",
}


@pytest.mark.long
def test_sdks_for_javascript(team: Served, npm_programs: Path) -> None:
    told = node(Path(__file__).parent / "sdks.mjs", team.root, str(npm_programs.parents[1]))
    assert json.loads(told) == FOUND


@pytest.mark.long
def test_the_examples_of_the_page(team: Served, npm_programs: Path) -> None:
    folder = npm_programs.parents[1]
    for number, block in enumerate(blocks("SDKs for JavaScript")):
        example = folder / f"example_{number}.mjs"  # beside the packages, where Node.js looks for them
        text = block.replace("http://localhost:8000", team.root).replace("…", "none")
        text = text.replace('podium("podium")', 'podium("team")')
        example.write_text(text.replace(': "podium",', ': "team",'))
        assert node(example) == HELLO


def node(script: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["node", str(script), *arguments],  # noqa: S607 - on the PATH, as `npm_programs` checks
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.stdout
