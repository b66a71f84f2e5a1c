"""Asks the person at a crew with CrewAI's provider of human input: the terminal, or the user's own."""

import os
import sys
from collections.abc import Awaitable, Callable
from stat import S_ISCHR, S_ISREG
from time import time
from typing import Any, Final

import anyio
from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.parser import AgentFinish
from crewai.core.providers.human_input import SyncHumanInputProvider, get_provider

from crewai_podium.events import show
from podium.conductor import Conductor
from podium.errors import QueryError
from podium.hosts.decisions import asked_text, record_decision, waiting_of
from podium.types import ApprovalAsked, Result

_LEAVE: Final = "Enter leaves the run waiting."
Again = Callable[[str], Awaitable[str]]


class _Said(Exception):
    """What the person wrote."""


class _Asking:
    """What the provider needs of an agent's executor."""

    def __init__(self, crew: Crew, agent: BaseAgent, again: Again | None) -> None:
        self.crew, self.agent, self.llm, self.task = crew, agent, agent.llm, None
        self.messages: list[Any] = []
        self.ask_for_human_input = True
        self._again = again

    def _is_training_mode(self) -> bool:
        return False

    def _format_feedback_message(self, feedback: str) -> dict[str, str]:
        return {"role": "user", "content": feedback}

    async def _ainvoke_loop(self) -> AgentFinish:
        said = self.messages[-1]["content"]
        if self._again is None:
            raise _Said(said)
        return _finish(await self._again(said))


async def review(crew: Crew, agent: BaseAgent, answer: str, again: Again) -> None:
    """Show an answer to the person, and call `again` with feedback until there is none."""
    show("The answer", answer)

    async def shown(feedback: str) -> str:
        new = await again(feedback)
        show("The answer", new)
        return new

    asking: Any = _Asking(crew, agent, shown)
    await get_provider().handle_feedback_async(_finish(answer), asking)


async def decide(conductor: Conductor, result: Result, crew: Crew, agent: BaseAgent) -> bool:
    """Ask the person for all that a run waits for, and record the decisions.

    Returns:
        Whether the run can be resumed: not if the person wrote nothing, or there is nobody to ask.
    """
    for asked in await waiting_of(conductor, result.run_id):
        problem = ""
        while not asked.is_late:
            told = asked_text(asked, conductor.pool.names, problem)
            said = await _ask(told, asked, crew, agent)
            if said == "":
                return False
            if said is None:
                break
            try:
                await record_decision(conductor, asked, said, by="human_input")
                break
            except (QueryError, ValueError) as error:
                problem = str(error)
    return True


async def _ask(told: str, asked: ApprovalAsked, crew: Crew, agent: BaseAgent) -> str | None:
    """Return what the person writes; empty without a terminal, `None` at the deadline of the question."""
    told += f"\n{_LEAVE}"
    show("An approval" if asked.question is None else "A question", told)
    provider = get_provider()
    if type(provider) is SyncHumanInputProvider and _is_file(sys.stdin):
        return ""  # CrewAI would wait for ever, because asyncio waits for no file
    until = None if asked.question is None else asked.question.until
    asking: Any = _Asking(crew, agent, None)
    with anyio.move_on_after(None if until is None else until - time()):
        try:
            await provider.handle_feedback_async(_finish(told), asking)
        except _Said as said:
            return str(said).strip()
        except EOFError:
            pass
        return ""
    return None


def _is_file(stdin: Any) -> bool:
    """Return whether the input is a file, or a device such as `/dev/null`, but no terminal."""
    try:
        number = stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    mode = os.fstat(number).st_mode
    return S_ISREG(mode) or (S_ISCHR(mode) and not os.isatty(number))


def _finish(text: str) -> AgentFinish:
    return AgentFinish(thought="", output=text, text=text)
