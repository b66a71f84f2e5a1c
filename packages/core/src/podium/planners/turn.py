"""A planner that speaks turn by turn: each message of its model calls one worker, or is the answer."""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from podium.errors import ConfigError, PlanSyntaxError
from podium.plan_text.parser import MAX_CHARS, PlanReader
from podium.planners.chat import ChatPlanner, asked_question, remembers, told_left
from podium.planners.planner import PlanRequest, PlanText
from podium.prompts.prompt import fill
from podium.types.messages import Completion, Message, Part, Sampling, Tools, storable
from podium.types.plan import Plan
from podium.workers.openai.chat import merge_sampling
from podium.workers.worker import Card, Request, Worker

_REQUEST = "request"
"""The argument of each tool: what the worker is to do."""
_SEES = {
    True: "A worker that is a model sees the question, and the results of your earlier calls.",
    False: "A worker that is a model sees the results of your earlier calls, not the question.",
}
_ACTS = "A call may change something, and is carried out each time."
_CALL, _RESULT = "tool_call", "tool_response"


class TurnPlanner(ChatPlanner):
    """Calls a chat model that works turn by turn with tool calls, such as NVIDIA's Orchestrator-8B.

    Each worker is a tool. Each message of the model is a round: its tool call is a plan of one step, whose
    result the model reads in the next round. The step of a worker that reads prose sees the outputs of all
    turns before. If a message has several tool calls, only the first one is made. A message without a tool
    call is the answer.

    Args:
        worker: the worker that calls the model; the planner has the name and the price of this worker.
        rounds: maximum number of messages, in place of `Limits.rounds`; repairs of invalid messages are not
            counted.
        native: whether requests have the tools in the field `tools`, and their calls in `tool_calls`. With
            `False`, and for workers that take no tools, they are text between `<tool_call>` tags, for
            servers without a parser of tool calls (Hermes format). Answers are read in both forms.
        sampling: the sampling settings; `None` means the worker's.

    Raises:
        ConfigError: `rounds` is below 2.
    """

    rounds: int

    def __init__(
        self, worker: Worker, *, rounds: int = 50, native: bool = True, sampling: Sampling | None = None
    ) -> None:
        super().__init__(worker, constrain=False, sampling=sampling)
        if type(rounds) is not int or rounds < 2:
            raise ConfigError(f"rounds is {rounds!r:.40}: use a whole number from 2, one for the answer")
        self.rounds = rounds
        self._native = native and worker.takes_tools

    def messages(self, request: PlanRequest) -> tuple[Message, ...]:
        """Return the conversation: the question, and the model's messages with their results."""
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in _tools(request))
        tools = "" if self._native else "\n" + fill("hermes", tools=listed)
        system = fill("turns", sees=_SEES[request.shows_question], tools=tools)
        messages = [Message("system", system), Message("user", asked_question(request))]
        for number, turn in enumerate(request.turns):
            try:
                said, call, _ = _split(turn.text)
            except PlanSyntaxError:
                said, call = turn.text, None
            if call is None:
                messages += [Message("assistant", said), Message("user", turn.feedback)]
            elif self._native:
                own = f"call_{number}"
                function = {"name": call["name"], "arguments": json.dumps(call.get("arguments", {}))}
                calls = ({"id": own, "type": "function", "function": function},)
                messages += [Message("assistant", said, calls), Message("tool", turn.feedback, (), own)]
            else:
                made = _tagged(_CALL, storable(json.dumps(call, ensure_ascii=False)))
                written = f"{said}\n{made}".strip()
                messages += [Message("assistant", written), Message("user", _tagged(_RESULT, turn.feedback))]
        hints = [] if request.left is None else [told_left(request.left, "left_turns")]
        hints += [fill("last_turn")] if request.is_last else []
        last = messages[-1]
        return (*messages[:-1], replace(last, content="\n\n".join([last.text, *hints])))

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its whole message; only its end decides whether it is the answer."""
        async with aclosing(super().plan(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    yield piece

    def read(self, request: PlanRequest, rest: str, reader: PlanReader) -> Plan:
        """Return the tool call of a message as a plan of one step, or its text as the answer."""
        if len(rest) > MAX_CHARS:
            message = f"the message is longer than {MAX_CHARS:,} characters: write a shorter one"
            raise PlanSyntaxError("too_long", message, position=MAX_CHARS)
        said, call, more = _split(rest)
        if call is None:
            if not said:
                message = "the message is empty: call a tool, or write the answer"
                raise PlanSyntaxError("no_plan", message, position=len(rest))
            return Plan((), answer=storable(said))
        names = [card.name for card in request.cards]
        worker = _tool_names(request.cards).get(call["name"], call["name"])
        reads_prose = worker in names and names.index(worker) not in request.fills
        access = ["previous"] if reads_prose and reader.previous else []
        row = {"worker": worker, "subtask": _subtask(call.get("arguments", "")), "access": access}
        plan = reader.close(json.dumps({"steps": [row]}))
        told = f"{more} further tool call(s) were left out, because a turn makes one"
        return replace(plan, notes=(*plan.notes, told)) if more else plan

    def _call(self, request: PlanRequest) -> Request:
        asked = super()._call(request)
        return replace(asked, tools=Tools(tuple(_tools(request)))) if self._native else asked

    def _constrained(self, request: PlanRequest) -> Sampling:
        return merge_sampling(super()._constrained(request), request.sampling)

    def _whole(self, completion: Completion, asked: Request) -> PlanText:
        whole, calls = super()._whole(completion, asked), list[str]()
        for call in completion.tool_calls:
            function = call.get("function", {})
            name, arguments = json.dumps(function.get("name")), function.get("arguments") or "{}"
            calls.append(_tagged(_CALL, f'{{"name": {name}, "arguments": {arguments}}}'))
        text = "\n".join([completion.text, *calls]).strip()
        finish = "stop" if whole.finish_reason == "tool_calls" else whole.finish_reason
        return replace(whole, text=text, finish_reason=finish)


def _tagged(tag: str, text: str) -> str:
    """Return `text` between tags that it cannot close."""
    inside = text.replace(f"</{tag}", f"<\\/{tag}")
    return f"<{tag}>\n{inside}\n</{tag}>"


def _split(text: str) -> tuple[str, dict[str, Any] | None, int]:
    """Return a message without its reasoning and calls, its first tool call, and the number of the others."""
    spoken = text.rpartition("</think>")[2]
    if spoken.lstrip().startswith("<think>"):
        message = "the reasoning is not closed: write </think>, and a tool call or the answer after it"
        raise PlanSyntaxError("no_plan", message, position=len(text))
    said, tag, rest = spoken.partition(f"<{_CALL}>")
    if not tag:
        return said.strip(), None, 0
    start, call, why = rest.lstrip(), None, ""
    try:
        call, end = json.JSONDecoder(strict=False).raw_decode(start)
    except (ValueError, RecursionError) as error:
        why = f" ({error})"
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        message = f"the tool call is not a JSON object with name and arguments{why}: write it again"
        raise PlanSyntaxError("bad_value", message, position=len(text) - len(start))
    return said.strip(), call, start.count(f"<{_CALL}>", end)


def _subtask(arguments: object) -> str:
    """Return the subtask of a tool call: the request, or other arguments as JSON."""
    if isinstance(arguments, Mapping) and arguments.keys() == {_REQUEST}:
        arguments = arguments[_REQUEST]
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _tools(request: PlanRequest) -> list[Part]:
    """Return the workers as functions in OpenAI's form."""
    tools: list[Part] = []
    for index, (name, card) in enumerate(zip(_tool_names(request.cards), request.cards, strict=True)):
        acts, told = _ACTS if index in request.acts else "", remembers(card)
        about = " ".join(filter(None, [card.description or card.name, acts, told and f"It {told}."]))
        what = "The input: text, or the JSON object that the tool expects."
        if index not in request.fills:
            what = "What the worker is to do, with all that it needs to know."
        form = {"type": "object", "properties": {_REQUEST: {"type": "string", "description": what}}}
        function = {"name": name, "description": about, "parameters": {**form, "required": [_REQUEST]}}
        tools.append({"type": "function", "function": function})
    return tools


def _tool_names(cards: Sequence[Card]) -> dict[str, str]:
    """Return the name of each worker by the name of its tool, which has fewer characters."""
    names: dict[str, str] = {}
    for card in cards:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", card.name)[:50]
        while name in names:
            name += "_"
        names[name] = card.name
    return names
