"""A line with a question in Podium's own form, and what the request of any line returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from pydantic import Field

from podium.hosts import RecordedRun
from podium.hosts.chat import whole_answers
from podium.hosts.completions import Body
from podium.types import Message, Plan, Problem, Result, RunEnded
from podium.types.messages import read_conversation
from podium_server.api.runs.requests import Name, PlanBody
from podium_server.http import BadRequest
from podium_server.keys import Caller
from podium_server.models import ServedModel
from podium_server.turn import Asked, Recorded, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a line's run."""

    result: Result
    status: str
    """The status of the result; `partial` also if the answer lacks the requested form."""
    problem: Problem | None = None
    body: Mapping[str, Any] | None = None
    """The body of OpenAI's response; `None` for a line that is not of OpenAI's form."""


class Request(Protocol):
    """What a line asks for."""

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the model cannot answer the request."""

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the conversation, with the question last."""

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the request, and return its answer."""


class Question(Body):
    """A line of a batch."""

    id: Annotated[Annotated[str, Field(min_length=1)] | int, Field(union_mode="left_to_right")] | None = None
    query: str | list[dict[str, Any]] | None = None
    question: str | None = None
    messages: list[dict[str, Any]] | None = None
    model: Name | None = None
    context: dict[str, str] = Field(default_factory=dict)
    plan: PlanBody | None = None
    labels: list[Name] = Field(default_factory=list)
    failure: Any = None
    """Ignored: a line of a file with failures has it."""

    @property
    def conversation(self) -> Sequence[Message]:
        """The question as messages."""
        given = [each for each in (self.query, self.question, self.messages) if each is not None]
        if len(given) != 1:
            raise BadRequest("write one question, as `query`, `question` or `messages`")
        asked = given[0]
        wires = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        messages = [Message.from_wire(wire) for wire in wires]
        read_conversation(messages)
        return messages

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the question as messages, which is the same for each model."""
        del model
        return self.conversation

    def content(self) -> Mapping[str, Any]:
        """Return what the run depends on, except the model."""
        given = self.model_dump(mode="json", include={"context", "plan", "labels"}, exclude_unset=True)
        return {**given, "messages": [message.to_wire() for message in self.conversation]}

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the plan does not fit the model, or the model uses no plan and no texts."""
        if model.is_worker and (self.plan is not None or self.context):
            told = f"the model {model.name} is a worker that answers as itself, without `plan` and `context`"
            raise BadRequest(f"{told}: leave them out, or name another model")
        if self.plan is not None:
            self._plan(self.plan, model)

    def _plan(self, body: PlanBody, model: ServedModel) -> Plan:
        plan, conductor = body.plan(model.workers), model.conductor
        plan.fit(len(model.workers), conductor.limits.plan_steps)
        return plan

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the question; see `Request.answer`."""
        if recorded is not None:
            return _answer(recorded.result)
        messages = self.conversation
        asked = Asked(model=model.name, messages=messages, run_id=run_id, may_exist=True)
        async with turns.admitted_run(Caller(), asked) as turn:
            options = turn.options.copy()
            options["middleware"] = whole_answers(options.get("middleware"))
            options["context"], options["labels"] = self.context, frozenset(self.labels)
            given: Sequence[Message] | Plan = messages
            if self.plan is not None:
                given = replace(self._plan(self.plan, model), query=tuple(messages))
            result: Result | None = None
            async for event in RecordedRun(turn.conductor, given, options).events():
                if isinstance(event, RunEnded) and event.run_id == run_id:
                    result = event.result
                    turn.settle(result)
            assert result is not None  # a run without a result raises
            return _answer(result)


def _answer(result: Result) -> Answer:
    return Answer(result=result, status=result.status, problem=result.problem)
