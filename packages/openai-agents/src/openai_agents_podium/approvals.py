"""What a run waits for, as calls of tools that need approval, and a person's decisions about them.

The SDK's runner interrupts a run at such a call. After `RunState.approve` or `reject`, the model gets the
conversation with the outputs of the calls, records the decisions, and continues the conductor's run.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from agents import AgentBase, FunctionTool, Tool

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.hosts import tool_call
from podium.hosts.decisions import ASK, asked_call, conversation_of, step_of, waiting_of
from podium.secrets import scrub
from podium.types import ApprovalAsked, Message, Part

_MARK: Final = "podium_"
"""The beginning of the ids of our calls."""
_BY: Final = "openai_agents"
_TOOLS: Final = {
    "approve_plan": "Asks a person whether a plan may run.",
    "approve_action": "Asks a person whether a worker may do something.",
    "approve_items": "Asks a person whether a step may start for all of its items.",
    ASK: "Asks a person a question.",
}


class _ApprovalTool(FunctionTool):
    """A tool that only a `ConductorModel` calls."""


def approval_tools() -> list[Tool]:
    """Return the tools with which the runs of a `ConductorModel` ask people, for the `tools` of its agent.

    A run that waits then interrupts the agent's run, in place of the error `RunWaiting`. The interruptions
    are calls of `approve_plan`, `approve_action`, `approve_items` and `ask_person`. `state.approve` approves
    or, with a `rejection_message` as the reason, `state.reject` refuses. A question is answered with
    `state.approve` and `state.add_input(answer)`.

    Raises:
        ConfigError: from each run: the output of the agent's first tool is its answer (`tool_use_behavior`),
            so a decision would be.
    """
    return [
        _ApprovalTool(
            name=name,
            description=description,
            params_json_schema={"type": "object", "properties": {}, "additionalProperties": True},
            on_invoke_tool=_approved,
            strict_json_schema=False,
            needs_approval=True,
            is_enabled=_continues,
        )
        for name, description in _TOOLS.items()
    ]


def _continues(_context: object, agent: AgentBase[Any]) -> bool:
    """Return `True`, or raise `ConfigError` for an agent that ends with the output of its first tool."""
    if getattr(agent, "tool_use_behavior", None) == "stop_on_first_tool":
        told = f"agent {agent.name!r} stops on its first tool, so a decision would be its answer"
        raise ConfigError(f"{told}: name the tools on which it stops (StopAtTools)")
    return True


async def _approved(context: Any, _arguments: str) -> str:
    return _approval(context.tool_call_id)


def _approval(call_id: str) -> str:
    """Return the output of an approved call, which no reason of a refusal is."""
    return f"approved {call_id}"


def is_approval_tool(tool: object) -> bool:
    """Return whether this is one of `approval_tools`."""
    return isinstance(tool, _ApprovalTool)


def is_own(item: Mapping[str, Any]) -> bool:
    """Return whether an item of a conversation is one of our calls, or its output."""
    return str(item.get("call_id") or "").startswith(_MARK)


class Decisions:
    """A person's decisions at the end of a conversation, and the next questions."""

    def __init__(self, conductor: Conductor, items: Sequence[Mapping[str, Any]]) -> None:
        self._conductor = conductor
        self._texts = list[str]()
        """The texts of the user after the decisions."""
        self._reasons = dict[tuple[str, str, str], str | None]()
        """By run, step and kind of question: why it was refused; `None` if it was approved."""
        self._problems = dict[str, str]()
        """What was wrong with an answer, by the step of its question."""
        rest, outputs = list(items), dict[str, str]()
        while rest and rest[-1].get("role") == "user":
            self._texts.insert(0, _text(rest.pop()))
        while rest and is_own(item := rest.pop()):
            call_id = item["call_id"]
            if "output" in item:
                outputs[call_id] = str(item["output"])
            elif (output := outputs.get(call_id)) is not None:
                facts = json.loads(item["arguments"])
                reason = None if output == _approval(call_id) else output
                self._reasons.setdefault((facts["run_id"], facts["step"], item["name"]), reason)

    async def record(self) -> tuple[str, Sequence[Message]] | None:
        """Record the decisions; return the id and the conversation of the run that continues.

        Repeated decisions, and those about late questions, are ignored.

        Returns:
            `None` if there are no decisions, or the user has a new question after a run that has ended.

        Raises:
            QueryError: there is a text beside the decisions that is not an answer.
            RunUnknown: the run is not in the journal.
        """
        if not self._reasons:
            return None
        (run_id,) = {run_id for run_id, _, _ in self._reasons}
        decided = {step: reason for (_, step, _), reason in self._reasons.items()}
        left = [asked for asked in await self._waiting(run_id) if step_of(asked) in decided]
        is_answered = any(kind == ASK and why is None for (_, _, kind), why in self._reasons.items())
        answer, more = (self._texts[:1], self._texts[1:]) if is_answered else ([], self._texts)
        if more and left:
            told = "the run waits for decisions alone, and for one text for a question"
            raise QueryError(f"{told}: send other texts after its answer")
        if more:
            return None
        for asked in left:
            await self._decide(asked, decided[step_of(asked)], answer)
        return run_id, await conversation_of(self._conductor, run_id)

    async def asks(self, run_id: str) -> list[Part]:
        """Return a call for each approval that a run waits for, and for its first question."""
        calls, names, is_asking = list[Part](), self._conductor.pool.names, False
        for asked in await self._waiting(run_id):
            if is_asking and asked.question is not None:
                continue  # the text after a decision is the answer to one question
            is_asking = is_asking or asked.question is not None
            name, facts = asked_call(asked, names, self._problems.get(step_of(asked), ""))
            calls.append(tool_call(f"{_MARK}{uuid4().hex}", name, facts))
        return calls

    async def _waiting(self, run_id: str) -> list[ApprovalAsked]:
        return [asked for asked in await waiting_of(self._conductor, run_id) if not asked.is_late]

    async def _decide(self, asked: ApprovalAsked, reason: str | None, answer: Sequence[str]) -> None:
        said: dict[str, Any] = {"approved": reason is None, "why": scrub(reason or "")}
        if reason is None and asked.question is not None:
            if not answer:
                self._problems[step_of(asked)] = "there is no answer: give it with state.add_input(…)"
                return
            said = {"answer": answer[0]}
        try:
            await self._conductor.decide(asked.run_id, action=step_of(asked) or None, by=_BY, **said)
        except QueryError as error:
            self._problems[step_of(asked)] = str(error)


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())
