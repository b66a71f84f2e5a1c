"""The answer of a run, as its request asked for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from podium.hosts import ChatAnswer
from podium.hosts.results import lack_after
from podium.types import Part, Problem
from podium.usage import Usage
from podium_server.errors import actions_form, without_urls
from podium_server.turn.asked import Asked
from podium_server.turn.usage import answer_usage

if TYPE_CHECKING:
    from podium_server.turn.answer_form import AnswerForm


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a run."""

    asked: Asked
    run_id: str
    answer: ChatAnswer
    acts: bool
    """Whether the model acts."""
    misfit: Problem | None
    """Why the answer does not have the requested form."""

    @property
    def tool_calls(self) -> Sequence[Part]:
        """The tool calls of the answer; only the first, if the request allows no parallel calls."""
        calls = self.answer.tool_calls
        return calls if self.asked.is_parallel else calls[:1]

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """Why the answer ended: `length` also for an incomplete answer whose text cannot say so."""
        answer = self.answer
        return answer.finish_reason if self.asked.sampling.constraint is None else answer.host_finish_reason

    @property
    def extra(self) -> Mapping[str, Any]:
        """What the provider answered to fields of its own, such as `logprobs` and further `choices`."""
        outcomes = self.answer.result.outcomes if self.asked.sampling.extra else ()
        return next((each.data for each in outcomes if each.data is not None), {})

    @property
    def usage(self) -> Usage:
        """The tokens of the run, divided into those of the answer and those of the orchestration."""
        return answer_usage(self.answer.result)

    @property
    def summary(self) -> dict[str, Any]:
        """The id and the status of the run, as plain JSON.

        It has the problem of an incomplete answer, a note if calls are charged without a reported usage,
        whether the model acts, and the actions of the run, if there are any.
        """
        problem, result = self.problem, self.answer.result
        return {
            "run_id": self.run_id,
            "status": "ok" if problem is None and result.status == "ok" else "partial",
            "problem": None if problem is None else {"code": problem.code, "message": problem.message},
            "usage_note": result.usage_note or None,
            "acts": self.acts,
            **({"actions": actions_form(result.actions)} if result.actions else {}),
        }

    @property
    def problem(self) -> Problem | None:
        """Why the answer is incomplete, or not in the requested form; `None` for a good answer."""
        problem = self.answer.result.problem or self.misfit
        return None if problem is None else Problem(problem.code, without_urls(problem.message))


async def checked_answer(asked: Asked, run_id: str, answer: ChatAnswer, *, acts: bool) -> Answered:
    """Return an answer after a check of its form."""
    form, misfit = form_of(asked), None
    if form is not None and not answer.tool_calls:
        misfit = await anyio.to_thread.run_sync(form.problem, answer.text)  # it may take seconds
    if form is None and answer.finish_reason == "stop":
        answer = replace(answer, lack=lack_after(answer.result))
    return Answered(asked=asked, run_id=run_id, answer=answer, acts=acts, misfit=misfit)


def form_of(asked: Asked) -> "AnswerForm | None":
    """Return the form that a request asks for.

    Raises:
        ConfigError: its JSON schema is invalid.
    """
    if asked.sampling.constraint is None:
        return None
    from podium_server.turn.answer_form import AnswerForm  # noqa: PLC0415 - jsonschema is slow to import

    return AnswerForm(asked.sampling.constraint)
