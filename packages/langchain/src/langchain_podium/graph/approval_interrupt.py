"""A plan at an interrupt, until somebody has said something of it that can be done."""

from dataclasses import replace

from langgraph.types import interrupt

from langchain_podium.graph.approval import read_decision, shown
from langchain_podium.graph.graph_node import Data
from podium.conductor import Conductor
from podium.errors import PlanError
from podium.journal import Journal
from podium.resume import renumbered, waiting_for
from podium.types import Message, Plan, RunStarted


async def ask_approval(
    conductor: Conductor, journal: Journal, view: Data, query: tuple[Message, ...]
) -> None:
    """Ask, and record what was decided; nothing is asked that was decided out of band.

    Args:
        conductor: whose plan it is.
        journal: where the run waits.
        view: the run's, as it stands in the state.
        query: what it is to answer.

    Raises:
        GraphInterrupt: nobody has answered yet.
        JournalError: the decision cannot be recorded.
    """
    run_id, then, now = view["run_id"], view["workers"], conductor.pool.names
    async with journal:
        events = [entry.event for entry in await journal.read(run_id)]
    plan, problem = Plan.from_json(view["plan"]), ""
    texts = next((event.context for event in events if isinstance(event, RunStarted)), None)
    forecast = conductor.forecast(replace(renumbered(plan, then, now), query=query), context=texts)
    while waiting_for(events) is not None:
        said = interrupt(shown(view, forecast, problem))
        try:
            # Whoever answers has read the workers' numbers as they were when it was planned.
            decision = read_decision(said, plan, then, conductor.limits.plan_steps)
            await conductor.decide(
                run_id,
                approved=decision.approved,
                plan=decision.plan and renumbered(decision.plan, then, now),
                by="interrupt",
                why=decision.why,
                journal=journal,
            )
        except PlanError as error:
            problem = str(error)
        else:
            return
