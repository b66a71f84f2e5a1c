"""Asks three silos, a calculator and a writer one question, and shows where the answer comes from.

The silos are this project's guides, its decisions, and a folder of your own. Any server that
speaks OpenAI's chat completions will do for the model:

    pip install llama-index-llms-openai-like
    python ask.py http://127.0.0.1:11434/v1 llama3.2 notes "What of our contract do the guides rule out?"
"""

import argparse
import asyncio
from pathlib import Path

from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.llms.openai_like import OpenAILike
from silos import REPOSITORY, Silo

from llama_index_podium import ConductorQueryEngine, as_worker
from podium import Limits
from podium.workers import FREE, Calculator


def engine_of(url: str, model: str, folder: Path) -> ConductorQueryEngine:
    """Return the query engine: five workers, and the model as planner and writer."""
    llm = OpenAILike(model=model, api_base=url, api_key="none", is_chat_model=True, max_retries=0)
    guides, decisions = REPOSITORY / "docs", REPOSITORY / "docs" / "decisions"
    workers = [
        as_worker(Silo(guides), name="guides", description="How to use Podium.", price=FREE),
        as_worker(Silo(decisions), name="decisions", description="Why Podium is as it is.", price=FREE),
        as_worker(Silo(folder), name="folder", description="Our own notes and contracts.", price=FREE),
        Calculator(),
        as_worker(llm, name="writer", description="Writes answers from what it is shown."),
    ]
    return ConductorQueryEngine(workers=workers, planner=llm, streaming=True, limits=Limits(seconds=120))


async def main() -> None:
    """Ask, and print the answer as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url", help="the server's base URL")
    parser.add_argument("model", help="the model's name there")
    parser.add_argument("folder", type=Path, help="a folder of .md and .txt")
    parser.add_argument("question")
    args = parser.parse_args()
    response = await engine_of(args.url, args.model, args.folder).aquery(args.question)
    assert isinstance(response, AsyncStreamingResponse)
    await response.print_response_stream()
    facts = response.metadata or {}
    print(f"\n{facts['status']}: {facts['usage']['total_tokens']} tokens")
    for step in facts["steps"]:
        print(f"  step {step['step']} {step['worker']}: {step['status']}: {step['subtask']}")
    for node in response.source_nodes:
        print(f"  {node.metadata['file_name']}: found by step {node.metadata['podium_steps']}")


if __name__ == "__main__":
    asyncio.run(main())
