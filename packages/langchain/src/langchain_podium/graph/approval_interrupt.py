"""Interrupt for the approval of a plan or an action until the decision is valid."""

from dataclasses import replace

from langgraph.types import interrupt

from langchain_podium.graph.approval import (
    read_decision,
    read_response,
    read_verdict,
    shown,
    shown_action,
    shown_question,
)
from langchain_podium.graph.graph_node import Data
from podium.conductor import Conductor
from podium.errors import PlanError, QueryError
from podium.journal import Journal
from podium.run_state import fold
from podium.run_state.state import for_pool
from podium.types import ApprovalAsked, Message, Plan, RunStarted


async def ask_approval(
    conductor: Conductor,
    journal: Journal,
    view: Data,
    query: tuple[Message, ...],
    edited: Plan | None,
    *,
    is_flat: bool,
) -> None:
    """Ask for a decision about what the view waits for, and record it; do nothing if it is already recorded.

    Args:
        conductor: the conductor that plans and executes the run.
        journal: the journal in which the run waits.
        view: the view of the run in the state.
        query: the query of the run.
        edited: the plan of the view with the pool's current worker numbers, if it was edited in the state.
        is_flat: whether plans can have no maps, branches and blocks.

    Raises:
        GraphInterrupt: there is no answer yet.
        JournalError: the decision cannot be recorded.
    """
    run_id, then, now = view["run_id"], view["workers"], conductor.pool.names
    async with journal:
        events = [entry.event for entry in await journal.read(run_id)]
    plan, problem = Plan.from_json(view["plan"]), ""
    texts = next((event.context for event in events if isinstance(event, RunStarted)), None)
    forecast = conductor.forecast(replace(for_pool(plan, then, now), query=query), context=texts)
    asked = next((each for each in fold(events).waiting if each.step == view.get("waits_for")), None)
    if asked is not None and asked.question is not None:
        await _ask_question(conductor, journal, view, asked)
        return
    while asked is not None and asked.step is not None:
        said = interrupt(shown_action(view, asked, problem))
        try:
            decision = read_verdict(said)
        except PlanError as error:
            problem = str(error)
        else:
            await conductor.decide(
                run_id,
                approved=decision.approved,
                action=asked.name,
                again=decision.again,
                by="interrupt",
                why=decision.why,
                journal=journal,
            )
            return
    while asked is not None:
        said = interrupt(shown(view, forecast, problem))
        try:
            # The answer uses the workers' numbers at the time of planning.
            decision = read_decision(said, plan, then, conductor.limits.plan_steps)
            changed = edited if decision.plan is None else for_pool(decision.plan, then, now)
            if changed is not None and is_flat:
                changed.check_flat()
            await conductor.decide(
                run_id,
                approved=decision.approved,
                plan=changed if decision.approved else None,
                again=decision.again,
                by="interrupt",
                why=decision.why,
                journal=journal,
            )
        except PlanError as error:
            problem = str(error)
        else:
            return


async def _ask_question(conductor: Conductor, journal: Journal, view: Data, asked: ApprovalAsked) -> None:
    """Ask the question of a step until the answer is valid; do nothing after its deadline."""
    problem = ""
    while not asked.is_late:
        said = interrupt(shown_question(view, asked, problem))
        try:
            decision = read_response(said)
            approved = None if decision.approved else False
            await conductor.decide(
                asked.run_id,
                approved=approved,
                answer=decision.answer,
                action=asked.name,
                by="interrupt",
                why=decision.why,
                journal=journal,
            )
        except (PlanError, QueryError) as error:
            problem = str(error)
        else:
            return
