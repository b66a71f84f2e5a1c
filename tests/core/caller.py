"""Workers that call the caller's tools, and a caller that executes the calls and sends the results."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from core.execution.flows import asked_of, saw_of

from podium import Card, Conductor, Message, ScriptedWorker
from podium.hosts import ChatAnswer, ChatCall, ContinuationStore, tool_call
from podium.run import RunOptions
from podium.types import Completion, Part, Tools
from podium.workers import FREE, Request

ASK = (Message("user", "Mend it."),)


def tool(name: str) -> Part:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


MOST_TURNS = 100
TOOLS = Tools((tool("look"), tool("edit")))


def called(request: Request) -> list[str]:
    """Return the arguments of the calls that a worker is shown, each with its result."""
    calls = [call for each in request.messages for call in each.tool_calls]
    names = {call["id"]: call["function"]["arguments"] for call in calls}
    shown = [each for each in request.messages if each.role == "tool"]
    return [f"{names[str(each.tool_call_id)]} -> {each.text}" for each in shown]


class Maker(ScriptedWorker):
    """Calls tools in the subtasks of a table: so many calls in each of its turns; then answers.

    Args:
        name: its name, or its card.
        calls: by subtask, how many calls it makes in each turn, as in `(2, 1)`.
        answers: by subtask, its answer; by default what it saw.
    """

    takes_tools = True

    def __init__(self, name: str | Card, calls: Mapping[str, Any], answers: Any = None) -> None:
        ids = count(1)
        card = name if isinstance(name, Card) else Card(name=name, price=FREE)

        def reply(request: Request) -> Completion:
            subtask, given = asked_of(request), called(request)
            turn = sum(bool(each.tool_calls) for each in request.messages)
            turns = calls.get(subtask, ())
            if turn < len(turns) and request.tools is not None and request.tools.choice != "none":
                made = [
                    tool_call(f"{card.name}-{next(ids)}", "look", {"of": subtask, "n": len(given) + number})
                    for number in range(turns[turn])
                ]
                return Completion("", "tool_calls", tool_calls=tuple(made))
            told = ", ".join([*saw_of(request), *(each.rpartition(" -> ")[2] for each in given)])
            return Completion((answers or {}).get(subtask) or f"{subtask}({told})")

        super().__init__(card, reply)

    @property
    def asked(self) -> list[tuple[str, int]]:
        """The subtasks that it was asked, each with the number of results that it was shown."""
        return [(asked_of(each), len(called(each))) for each in self.requests]


@dataclass
class Caller:
    """Sends the conversation, executes the calls, and sends it again, until there is an answer."""

    conductor: Conductor
    options: RunOptions = field(default_factory=RunOptions)
    store: ContinuationStore | None = None
    """`None` carries the continuation in the conversation, as JSON."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further arguments of each call."""
    execute: Callable[[Any], str] = lambda arguments: f"{arguments['of']}{arguments['n']}"
    said: list[Message] = field(default_factory=lambda: [*ASK])
    turns: list[list[str]] = field(default_factory=list)
    """The calls of each turn, by subtask and number, as in `a 0`."""
    answers: list[ChatAnswer] = field(default_factory=list)

    async def turn(self, **more: Any) -> ChatAnswer:
        """Send the conversation once, and add the answer, and the results of its calls."""
        carried = self.answers[-1].continuation if self.answers else None
        given: dict[str, Any] = {"tools": TOOLS, "continuation": carried, "store": self.store}
        given |= {"options": self.options, **self.more, **more}
        answer = await ChatCall(self.conductor, self.said, **given).run()
        self.answers.append(answer)
        self.said.append(Message("assistant", answer.text, answer.tool_calls))
        told = [json.loads(call["function"]["arguments"]) for call in answer.tool_calls]
        self.turns += [[f"{each['of']} {each['n']}" for each in told]] if told else []
        self.said += [
            Message("tool", self.execute(arguments), (), call["id"])
            for arguments, call in zip(told, answer.tool_calls, strict=True)
        ]
        return answer

    async def run(self) -> ChatAnswer:
        for _ in range(MOST_TURNS):
            if not (answer := await self.turn()).tool_calls:
                return answer
        raise AssertionError(f"no answer after {MOST_TURNS} turns: {self.turns}")
