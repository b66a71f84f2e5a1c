"""Converts results and messages for hosts."""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, Literal, cast, get_args

from pydantic_core import to_jsonable_python

from podium.errors import AnswerRefused, ConfigError, RunFailed, RunWaiting, WorkerFailed
from podium.run.approval import how_to_decide
from podium.secrets import scrub, scrub_data
from podium.types import Completion, Message, Outcome, Part, Plan, Problem, Result, Sampling
from podium.types.messages import storable
from podium.types.outcome import tell_actions
from podium.types.result import LACK, answer_of, used
from podium.types.scope import Place
from podium.types.steps import static_place, task_of, worker_of
from podium.usage import Usage
from podium.workers import FREE, Card
from podium.workers.openai.chat_response import AnswerReader, read_finish

Partial = Literal["return", "raise"]
"""Whether an incomplete answer is returned, or raises `RunFailed`."""
_TEXT_CALL: Final = "Action Input:"
"""In the text of a model, agents of several hosts read what follows as the arguments of a tool."""


def check_partial(partial: object) -> Partial:
    """Return `partial`, or raise `ConfigError` if it is not valid."""
    if partial not in get_args(Partial):
        raise ConfigError(f"partial is {partial!r:.40}: it must be {' or '.join(get_args(Partial))}")
    return cast("Partial", partial)


def answered(result: Result, *, partial: Partial = "return") -> Result:
    """Return the result if it has an answer, or raise `RunFailed` or `RunWaiting`."""
    problem = result.problem
    reason = "" if problem is None else f" ({problem.code}: {problem.message})"
    if result.status == "failed":
        raise run_failed(f"there is no answer{reason}", result)
    if result.status == "waiting":
        asks = "waits for an answer" in reason
        how, what = how_to_decide(result.run_id, asks=asks), "an answer" if asks else "approval"
        how += f"; or give {'PersonWorker(ask' if asks else 'Policy(approve'}=...) a function"
        waiting = RunWaiting(f"run {result.run_id} waits for {what}{reason}: {how}")
        waiting.result, waiting.actions = result, result.actions
        raise waiting
    if result.status == "partial" and partial == "raise":
        raise run_failed(f"the answer is partial{reason}", result)
    return result


def lack_of(problem: Problem) -> str:
    """Return the sentence that says why an answer is incomplete: `(Not complete: …)`, on one line."""
    return f"{LACK}{' '.join(scrub(problem.message).split())})"


def lack_after(result: Result) -> str:
    """Return the end of the text of an incomplete answer; empty for text that the host parses."""
    is_parsed = bool(result.tool_calls) or _TEXT_CALL in result.answer
    is_told = is_parsed or _told_lack(result.answer) is not None
    if result.status != "partial" or result.problem is None or is_told:
        return ""
    return f"\n\n{lack_of(result.problem)}"


def text_answer(result: Result) -> str:
    """Return the answer for users who see only its text: an incomplete answer ends with `lack_after`."""
    return result.answer + lack_after(result)


def with_lack(completion: Completion) -> Completion:
    """Return a completion; if its text ends with the sentence of `lack_of`, that is what is missing."""
    lack = _told_lack(completion.text)
    return completion if lack is None or completion.missing else replace(completion, missing=lack)


def _told_lack(text: str) -> str | None:
    last = text.rstrip().rpartition("\n")[2]
    return last[len(LACK) : -1] if last.startswith(LACK) and last.endswith(")") else None


def run_failed(message: str, result: Result) -> RunFailed:
    """Return the error for a result without a usable answer; its message has the run's id."""
    error = RunFailed(f"run {result.run_id}: {message}")
    error.result = result
    tell_actions(error, result.actions)
    return error


def result_metadata(
    result: Result, *, usage: Callable[[Usage], Mapping[str, Any]] = asdict, outputs: bool = False
) -> dict[str, Any]:
    """Return a result as plain JSON data for a host's metadata, without secrets.

    The keys are `run_id`, `status`, `problem`, `planner` (`name`, `why`, `is_fallback`), `plan`,
    `workers`, `labels` (of the answer), `steps`, `actions` (see `Result.actions`), `usage`,
    `estimated_usage` (the part of `usage` that was estimated from text), `cost` (USD, or `None` when
    unknown), `maybe_paid` (whether part of `cost` may not be billed), `usage_note` (how many calls are
    charged without a reported usage; empty if none are) and `seconds`.
    Each step also has `estimated`, `maybe_paid` and `charged`.

    Args:
        result: the result of a run.
        usage: converts a `Usage` to the form of the host.
        outputs: whether to include the `output` of each step.
    """
    plans = {current.number: current.plan for current in result.rounds}
    metadata: dict[str, Any] = scrub_data(
        {
            "run_id": result.run_id,
            "status": result.status,
            "problem": None if result.problem is None else asdict(result.problem),
            "planner": None if result.planner is None else asdict(result.planner),
            "plan": plan_metadata(result.plans[-1]) if result.plans else None,
            "workers": list(result.workers),
            "labels": sorted(result.labels),
            "steps": [
                _step(outcome, plans[outcome.round], usage) | ({"output": outcome.text} if outputs else {})
                for outcome in result.outcomes
            ],
            "actions": [asdict(action) for action in result.actions],
            "usage": dict(usage(result.usage)),
            "estimated_usage": dict(usage(result.estimated_usage)),
            "cost": result.cost,
            "maybe_paid": result.maybe_paid,
            "usage_note": result.usage_note,
            "seconds": result.seconds,
        }
    )
    return metadata


def plan_metadata(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain JSON data, without its query."""
    return replace(plan, query=()).to_json()


def plan_lines(plan: Plan, workers: Sequence[str]) -> list[str]:
    """Return a plan as text, one line per step."""
    return [
        f"{place.name}. {worker_of(place.step, workers)}: {task_of(place.step)}{_shown(place)}"
        for place in sorted(plan.outline, key=lambda place: place.path)
    ]


def _shown(place: Place) -> str:
    """Return the steps on an access list, by their names."""
    around = "".join(f"{number}." for number in place.path[:-1])
    names = [f"{around}{seen}" if isinstance(seen, int) else seen for seen in place.step.access_list]
    return f" (shown step {', '.join(names)})" if names else ""


def answer_sources(result: Result) -> tuple[Outcome, ...]:
    """Return the outcomes that the answer depends on, in the plan's order; then those inside of its maps."""
    for current in reversed(result.rounds):
        if current.plan is not None and current.plan.answer is not None:
            return tuple(outcome for outcome in result.outcomes if outcome.status == "ok")
        if answer_of(current) is not None:
            steps = used(current)
            numbers = {each.step for each in steps}
            inside = [each for each in current.outcomes if each.path and each.plan_step in numbers]
            return tuple(outcome for outcome in (*steps, *inside) if outcome.status == "ok")
    return ()


def _step(outcome: Outcome, plan: Plan | None, usage: Callable[[Usage], Mapping[str, Any]]) -> dict[str, Any]:
    place = static_place(outcome.name)
    places = () if plan is None else plan.outline
    step = next((each.step for each in places if each.name == place), None)
    return {
        "round": outcome.round,
        "step": outcome.step,
        "path": outcome.path,
        "worker": outcome.worker,
        "subtask": "" if step is None else task_of(step),
        "access": [] if step is None else step.access_list,
        "status": outcome.status,
        "problem": None if outcome.problem is None else asdict(outcome.problem),
        "usage": dict(usage(outcome.usage)),
        "estimated": outcome.usage.estimated,
        "cost": outcome.cost,
        "maybe_paid": outcome.maybe_paid,
        "charged": outcome.charged,
        "seconds": outcome.seconds,
        "attempts": outcome.attempts,
        "reused": outcome.reused,
    }


def tool_call(call_id: str | None, name: str | None, arguments: Mapping[str, Any] | str | None) -> Part:
    """Return a tool call in OpenAI's form.

    Args:
        call_id: the call's id.
        name: the tool's name.
        arguments: an object, or the text of a model, which is not changed.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": call_id or "", "type": "function", "function": {"name": name or "", "arguments": text}}


def tool_arguments(call: Part) -> dict[str, Any] | None:
    """Return the arguments of a tool call; `None` if they are not a JSON object."""
    try:
        arguments = json.loads(call["function"].get("arguments") or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def text_of(value: object) -> str:
    """Return the output of a tool or a chain as text: text unchanged, other data as JSON.

    Supports pydantic models, data classes, dates, times, UUIDs, decimals, paths and enums. `None` becomes
    empty text.

    Raises:
        WorkerFailed: the value, or a part of it, has no JSON form: a coroutine, a function, bytes, NaN.
    """
    if value is None or isinstance(value, str):
        return storable(value or "")
    try:
        return storable(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(value, Coroutine):
            value.close()  # avoids Python's warning on a coroutine that was never awaited
        returned = type(value).__name__
        told = f"the worker returned a value of type {returned} that has no JSON form ({error})"
        told += ": return text, or JSON values"
        raise WorkerFailed(storable(told), maybe_paid=True) from None


def _plain(value: object) -> Any:
    if isinstance(value, bytes | bytearray | set | frozenset):
        raise TypeError(f"JSON has no {type(value).__name__}")
    return dict(value) if isinstance(value, Mapping) else to_jsonable_python(value)


def sampling_arguments(sampling: Sampling) -> dict[str, Any]:
    """Return the sampling settings of a request with the names that clients of chat models use.

    These are `temperature`, `top_p`, `max_tokens`, `seed` and `stop`; settings that are not set are left out.
    """
    names = ("temperature", "top_p", "max_tokens", "seed")
    arguments = {name: value for name in names if (value := getattr(sampling, name)) is not None}
    return arguments | ({"stop": list(sampling.stop)} if sampling.stop else {})


def spent_completion(
    text: str,
    usage: Usage | None,
    card: Card,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Completion:
    """Return the answer of an object whose models used these tokens; `None` if they are unknown."""
    finish = None if finish_reason is None else read_finish(finish_reason)
    if finish == "content_filter" or refusal:
        told = f"the last model behind worker {card.name!r}, or its content filter, refused to answer"
        told += f": {storable(refusal)[:300]!r}" if refusal else ""
        raise AnswerRefused(told, maybe_paid=True, usage=usage)
    uses_tokens = usage != Usage() or card.price not in (None, FREE)
    ending: Literal["length", "stop"] = "length" if finish == "length" else "stop"
    done = Completion(text, finish_reason=ending, usage=usage or Usage(), uses_tokens=uses_tokens)
    return with_lack(done)


def read_completion(  # noqa: PLR0913 - the facts of one answer
    messages: Sequence[Message],
    *,
    text: str,
    finish_reason: str | None,
    tool_calls: Sequence[Part] = (),
    refusal: str | None = None,
    usage: Usage | Mapping[str, Any] | None = None,
    model: str | None = None,
) -> Completion:
    """Return the answer of a host's chat model, with the same checks as for Podium's chat workers.

    Args:
        messages: the messages that were sent, from which missing usage is estimated.
        text: the text of the answer.
        finish_reason: the provider's finish reason; `None` if there is none, which means that the
            answer was cut off.
        tool_calls: the tool calls, in the form of `tool_call`.
        refusal: the text with which the model refused to answer.
        usage: the reported tokens, in Podium's form or a provider's; `None` if none are reported.
        model: the model that answered.

    Raises:
        AnswerRefused: the model or its provider's filter refused to answer.
        WorkerBroken: the answer is incomplete or empty, or its finish reason is unknown.
    """
    message = {"content": text, "tool_calls": list(tool_calls), "refusal": refusal}
    reader = AnswerReader(usage if isinstance(usage, Usage) else None)
    raw = None if isinstance(usage, Usage) else usage
    choices = [{"message": message, "finish_reason": finish_reason}]
    reader.feed({"choices": choices, "usage": raw, "model": model})
    return with_lack(reader.completion(messages))
