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
    conductor: Conductor, journal: Journal, view: Data, query: tuple[Message, ...], edited: Plan | None
) -> None:
    """Ask for a decision on a plan, and record it; a plan that was decided out of band is not asked about.

    Args:
        conductor: whose plan it is.
        journal: where the run waits.
        view: the run's, as it stands in the state.
        query: what it is to answer.
        edited: the plan of the view, numbered as the pool is now, if it was edited in the state.

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
            changed = edited if decision.plan is None else renumbered(decision.plan, then, now)
            await conductor.decide(
                run_id,
                approved=decision.approved,
                plan=changed if decision.approved else None,
                by="interrupt",
                why=decision.why,
                journal=journal,
            )
        except PlanError as error:
            problem = str(error)
        else:
            return
