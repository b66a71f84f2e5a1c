"""One question that needs two silos, put to a conductor and to LlamaIndex's own engines for such questions.

All have the same retrievers and the same model. Printed are its calls, tokens and seconds, and
the answer; then the same with one silo out of order, to see who says that something is missing:

    python compare.py http://127.0.0.1:11434/v1 llama3.2 notes "How many calls ... ?"
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent
from llama_index.core.query_engine import RetrieverQueryEngine, RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.selectors import LLMMultiSelector, LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from llama_index.llms.openai_like import OpenAILike
from silos import REPOSITORY, Silo

from llama_index_podium import ConductorQueryEngine, as_worker

ABOUT = {"guides": "How to use Podium.", "folder": "Our own notes and contracts."}


class Broken(BaseRetriever):
    """A silo that is out of order."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ConnectionError(f"the silo cannot be searched for {query_bundle.query_str!r}")


class Meter(BaseEventHandler):
    """Counts the calls of models, and their tokens."""

    calls: int = 0
    tokens: int = 0
    unknown: int = 0
    """Calls whose server did not report tokens."""

    def handle(self, event: Any, **_: Any) -> None:
        """Count one."""
        if isinstance(event, LLMChatEndEvent) and event.response is not None:
            usage = event.response.raw.usage
            self.calls += 1
            self.unknown += usage is None
            self.tokens += 0 if usage is None else usage.total_tokens


@dataclass
class Arm:
    """What one engine came to."""

    name: str
    calls: int
    tokens: int
    seconds: float
    answer: str


def engines(llm: OpenAILike, silos: dict[str, BaseRetriever]) -> dict[str, Callable[[], BaseQueryEngine]]:
    """Return what makes each engine, over the same silos and model."""
    synthesizer = get_response_synthesizer(llm=llm)
    tools = [
        QueryEngineTool.from_defaults(RetrieverQueryEngine(silo, synthesizer), name, ABOUT[name])
        for name, silo in silos.items()
    ]
    writer = as_worker(llm, name="writer", description="Writes answers from what it is shown.")

    def conductor(workers: list[Any]) -> BaseQueryEngine:
        return ConductorQueryEngine(workers=[*workers, writer], planner=llm)

    def sub_questions() -> BaseQueryEngine:
        asking = LLMQuestionGenerator.from_defaults(llm=llm)
        return SubQuestionQueryEngine(asking, synthesizer, tools, verbose=False)

    def router(selector: Any) -> BaseQueryEngine:
        return RouterQueryEngine(selector.from_defaults(llm=llm), tools, llm=llm)

    retrievers = [as_worker(silo, name=name, description=ABOUT[name]) for name, silo in silos.items()]
    return {
        "conductor, retrievers as workers": lambda: conductor(retrievers),
        "conductor, the same engines as workers": lambda: conductor(list(tools)),
        "SubQuestionQueryEngine": sub_questions,
        "RouterQueryEngine, one choice": lambda: router(LLMSingleSelector),
        "RouterQueryEngine, several choices": lambda: router(LLMMultiSelector),
    }


async def measured(name: str, engine: BaseQueryEngine, question: str) -> Arm:
    """Ask one engine."""
    meter, root = Meter(), get_dispatcher()
    root.add_event_handler(meter)
    begun = time.perf_counter()
    try:
        answer = " ".join(str(await engine.aquery(question)).split())
    except Exception as error:  # noqa: BLE001 - that is what it came to
        answer = f"raises {type(error).__name__}: {error}"
    finally:
        root.event_handlers.remove(meter)
    assert not meter.unknown, "a server that reports no tokens cannot be compared on"
    return Arm(name, meter.calls, meter.tokens, time.perf_counter() - begun, answer)


async def main() -> None:
    """Ask all of them, with both silos in order and with one out of order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url", help="the server's base URL")
    parser.add_argument("model", help="the model's name there")
    parser.add_argument("folder", type=Path, help="a folder of .md and .txt")
    parser.add_argument("question")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # where LlamaIndex tells of a sub-question that failed
    llm = OpenAILike(model=args.model, api_base=args.url, api_key="none", is_chat_model=True, max_retries=0)
    await llm.acomplete("Hello.")  # the first call of a client takes longer than others, of the sync one too
    await asyncio.to_thread(llm.complete, "Hello.")
    guides = Silo(REPOSITORY / "docs")
    for title, folder in (("both silos in order", Silo(args.folder)), ("one silo out of order", Broken())):
        print(f"\n{title}\n{'engine':40}{'calls':>6}{'tokens':>8}{'seconds':>9}  answer")
        for name, make in engines(llm, {"guides": guides, "folder": folder}).items():
            arm = await measured(name, make(), args.question)
            print(f"{arm.name:40}{arm.calls:6}{arm.tokens:8}{arm.seconds:9.2f}  {arm.answer}")


if __name__ == "__main__":
    asyncio.run(main())
