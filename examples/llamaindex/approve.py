"""A workflow that has somebody look at the plan before it costs anything.

The conductor plans in one step and stops; the workflow asks; whatever is answered, the next
step goes on from the journal, and nothing is planned or paid for twice:

    python approve.py http://127.0.0.1:11434/v1 llama3.2 "Write a haiku about rain, then judge it."
"""

import argparse
import asyncio

from llama_index.core.workflow import (
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index.llms.openai_like import OpenAILike
from llama_index_podium.planner import conductor_of

from llama_index_podium import as_worker
from podium import Conductor, Result
from podium.journal import MemoryJournal
from podium.policy import Policy


class PlanToApprove(InputRequiredEvent):
    """Asks whether a plan may run."""

    run_id: str
    plan: str


class Decision(HumanResponseEvent):
    """Says whether it may."""

    run_id: str
    approved: bool


class Approved(Workflow):
    """Plans, asks, and carries out what was approved.

    Args:
        conductor: who plans and carries out; it has a journal, and a policy that waits.
    """

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(timeout=None)
        self._conductor = conductor

    @step
    async def plan(self, event: StartEvent) -> PlanToApprove | StopEvent:
        """Have the question planned."""
        result = await self._conductor.run(event.question)
        if result.status != "waiting":
            return StopEvent(result=result)
        names = self._conductor.pool.names
        steps = [f"{names[one.worker]}: {one.subtask}" for one in result.plans[0].steps]
        return PlanToApprove(run_id=result.run_id, plan="\n".join(steps))

    @step
    async def carry_out(self, decision: Decision) -> StopEvent:
        """Go on with the very plan that was shown, or end the run."""
        await self._conductor.decide(decision.run_id, approved=decision.approved, by="the user")
        return StopEvent(result=await self._conductor.resume(decision.run_id))


async def answered(conductor: Conductor, question: str) -> Result:
    """Run the workflow, and ask at the terminal."""
    handler = Approved(conductor).run(question=question)
    async for event in handler.stream_events():
        if isinstance(event, PlanToApprove):
            said = await asyncio.to_thread(input, f"{event.plan}\nRun this? [y/n] ")
            handler.ctx.send_event(Decision(run_id=event.run_id, approved=said.strip().lower() == "y"))
    result = await handler
    assert isinstance(result, Result)
    return result


async def main() -> None:
    """Ask one question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url", help="the server's base URL")
    parser.add_argument("model", help="the model's name there")
    parser.add_argument("question")
    args = parser.parse_args()
    llm = OpenAILike(model=args.model, api_base=args.url, api_key="none", is_chat_model=True, max_retries=0)
    workers = [as_worker(llm, name="poet", description="Writes."), as_worker(llm, name="judge")]
    async with MemoryJournal() as journal:
        conductor = conductor_of(llm, workers, policy=Policy(approve="later"), journal=journal)
        result = await answered(conductor, args.question)
    print(result.answer if result.status != "failed" else result.explain())


if __name__ == "__main__":
    asyncio.run(main())
