"""The SDKs of OpenAI, Anthropic and Vercel for JavaScript: texts, streams, tools, objects and errors."""

import json
import subprocess
from pathlib import Path

import pytest
from server.clients.page import blocks
from servers.podium_server import Served

HELLO = "Hello to you, too."
LOOP = {"text": "The tools say sun in Paris.", "steps": 3}
"""Both steps of the plan call the tool, each once."""
CITY = '{"city": "Paris"}'
FOUND = {
    "openai chat usage": True,
    "openai chat helper": HELLO,
    "openai chat parse": CITY,
    "openai chat streamed tool": "weather",
    "openai responses background": "response.completed",
    "openai responses helper": HELLO,
    "openai responses parse": CITY,
    "anthropic models": ["team", "one"],
    "anthropic streamed tool": "tool_use",
    "vercel compatible object": {"city": "Paris"},
    "vercel openai chat object": {"city": "Paris"},
    "vercel anthropic object": {"city": "Paris"},
    "openai models": ["team", "one"],
    "openai chat": HELLO,
    "openai chat stream": HELLO,
    "openai chat loop": "The tools say sun in Paris.",
    "openai chat error": "404 model_not_found",
    "openai responses": HELLO,
    "openai responses stream": HELLO,
    "anthropic message": HELLO,
    "anthropic loop": "The tools say sun in Paris.",
    "anthropic stream": HELLO,
    "vercel openai chat": HELLO,
    "vercel openai responses": HELLO,
    "vercel openai responses loop": LOOP,
    "vercel openai chat loop": LOOP,
    "vercel openai object": {"city": "Paris"},
    "vercel compatible": HELLO,
    "vercel compatible loop": LOOP,
    "vercel anthropic": HELLO,
    "vercel anthropic loop": LOOP,
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
        example.write_text(
            text.replace('podium("podium")', 'podium("team")').replace(': "podium",', ': "team",')
        )
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
