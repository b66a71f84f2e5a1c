"""Asks hand-wired graphs and the same graphs with one node the same questions, and prints what each took.

    python compare.py https://api.openai.com/v1 --lead MODEL --coder MODEL --writer SMALL-MODEL

Calls are those of models; tokens are what the models' server reports, prompts and answers.
Both are counted by the same callback. The times of one run say little: models vary.
"""

import argparse
import asyncio
from time import perf_counter
from typing import Any

import conducted
import hand_wired
import invoices
import rag
from job import INVOICES, QUESTIONS, SEARCHED, Team, make_team
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult


class Taken(AsyncCallbackHandler):
    """Counts what models and retrievers are asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.tokens_in = 0
        self.tokens_out = 0
        self.lookups = 0

    async def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Count a model's answer."""
        self.calls += 1
        generation = response.generations[0][0]
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            usage = generation.message.usage_metadata
            self.tokens_in += usage["input_tokens"] if usage else 0
            self.tokens_out += usage["output_tokens"] if usage else 0

    async def on_retriever_end(self, *_: Any, **__: Any) -> None:
        """Count a look-up."""
        self.lookups += 1


def jobs(team: Team) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the jobs: a name, the input, and the graphs that do it."""
    desk = {"hand-wired": hand_wired.build(team), "conducted": conducted.build(team)}
    loop = {"hand-wired": rag.hand_wired(team), "conducted": rag.conducted(team)}
    mapped = {"hand-wired": invoices.hand_wired(team), "conducted": invoices.conducted(team)}
    read: dict[str, Any] = {"question": "Add the invoices up.", "invoices": list(INVOICES)}
    return [
        *(("desk", {"question": question}, desk) for question in QUESTIONS),
        ("loop", {"question": SEARCHED}, loop),
        ("map", read, mapped),
    ]


async def compare(base_url: str, models: dict[str, str]) -> None:
    """Ask, and print a line for each question and graph."""
    print(f"{'':12}{'calls':>7}{'look-ups':>10}{'tokens in':>11}{'out':>7}{'seconds':>9}")
    for name, given, graphs in jobs(make_team(base_url, models)):
        print(f"\n{name}: {given['question']}")
        for kind, graph in graphs.items():
            taken, began = Taken(), perf_counter()
            state = await graph.ainvoke(given, {"callbacks": [taken]})
            counted = f"{taken.calls:>7}{taken.lookups:>10}{taken.tokens_in:>11}{taken.tokens_out:>7}"
            print(f"{kind:12}{counted}{perf_counter() - began:>9.2f}   {' '.join(state['answer'].split())}")
            if "podium" in state:
                print(state["podium"]["mermaid"] if name != "desk" else plan_of(state["podium"]))


def plan_of(run: dict[str, Any]) -> str:
    """Return the plan of a run, a line for each step."""
    steps = run["plan"]["steps"]
    lines = [f"{run['workers'][s['worker']]} sees {s['access'] or 'nothing'}" for s in steps]
    return "\n".join(f"{'':14}step {number}: {line}" for number, line in enumerate(lines))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compare a hand-wired graph with one conductor node.")
    parser.add_argument("base_url", help="of any endpoint that speaks chat completions")
    for role in ("lead", "coder", "reviewer", "writer"):
        parser.add_argument(f"--{role}", default=role, metavar="MODEL")
    given = vars(parser.parse_args())
    asyncio.run(compare(given.pop("base_url"), given))


if __name__ == "__main__":
    main()
