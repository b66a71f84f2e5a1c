"""A workflow in which somebody looks at the plan before it costs anything.

The conductor plans and waits; the question is in the workflow's stream of events. With the answer the run
continues, and nothing is planned or paid for twice, also if the same command is given again after a crash:

    python approve.py http://127.0.0.1:11434/v1 llama3.2 haiku-1 "Write a haiku about rain, then judge it."
"""

import argparse
import asyncio
from pathlib import Path

from llama_index.core.workflow import HumanResponseEvent
from llama_index.llms.openai_like import OpenAILike

from llama_index_podium import ConductorWorkflow, as_worker
from llama_index_podium.events import PersonAskedEvent, ProgressEvent
from podium.errors import RunFailed
from podium.journal import SqlJournal
from podium.policy import Policy


async def answer(workflow: ConductorWorkflow, question: str, run_id: str) -> None:
    """Run the workflow, ask at the terminal, and print the answer as it comes."""
    handler = workflow.run(question, run_id=run_id)
    async for event in handler.stream_events():
        if isinstance(event, PersonAskedEvent):
            said = await asyncio.to_thread(input, f"{event.prefix}\n> ")
            handler.ctx.send_event(HumanResponseEvent(response=said, name=event.name))
        elif isinstance(event, ProgressEvent):
            print(event.progress + event.delta, end="", flush=True)
    print()
    try:
        await handler
    except RunFailed as error:
        print(error)


async def main() -> None:
    """Ask one question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url", help="the server's base URL")
    parser.add_argument("model", help="the model's name there")
    parser.add_argument("run", help="the run's name, to continue it")
    parser.add_argument("question")
    parser.add_argument("--journal", type=Path, default=Path("approve.db"), help="where runs are kept")
    args = parser.parse_args()
    llm = OpenAILike(model=args.model, api_base=args.url, api_key="none", is_chat_model=True, max_retries=0)
    async with SqlJournal(args.journal) as journal:
        workflow = ConductorWorkflow(
            planner=llm,
            workers=[
                as_worker(llm, name="poet", description="Writes."),
                as_worker(llm, name="judge", description="Judges."),
            ],
            show_steps=True,
            policy=Policy(approve="later"),
            journal=journal,
        )
        await answer(workflow, args.question, args.run)


if __name__ == "__main__":
    asyncio.run(main())
