"""Workers of a few lines: a Python function, scripted answers, and outputs gathered, joined or voted on."""

from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, ClassVar

import anyio
import anyio.to_thread

from podium.errors import ConfigError, WorkerFailed, WorkerRefused
from podium.secrets import Boundary
from podium.types.messages import Completion, estimate_usage, storable
from podium.types.references import compact, is_object, read_json, written
from podium.workers.worker import FREE, Card, Price, Request, StepInput, VisibleStep, Worker, step_input_of

Returned = str | Completion | dict[str, Any] | list[Any] | float
"""What the function of a `FunctionWorker` returns."""


class FunctionWorker(Worker):
    """Calls a function with the input of the step.

    References (`{{n}}`) in the subtask are replaced by the outputs.

    Args:
        function: the function. Its argument is a `StepInput` (subtask, visible steps, question). It returns
            the answer: text, a `Completion` with a cost, or a value (dict, list or number), whose JSON is the
            answer. A coroutine function is awaited. A plain function runs in a thread, which a cancellation
            or a timeout cannot stop.
        card: the worker's card; by default with the name of the function and its docstring as description.
        price: the price on the default card: `FREE`, or `None` for an unknown price.
        acts: whether a call is an action: see `Worker.acts`.

    A function that raises an exception or returns no text is not retried (`worker_failed`).

    Raises:
        ConfigError: both a card and a price are given.
    """

    reads_prose = False

    def __init__(
        self,
        function: Callable[[StepInput], Returned | Awaitable[Returned]],
        *,
        card: Card | None = None,
        price: Price | None = None,
        acts: bool = False,
    ) -> None:
        if card is not None and price is not None:
            raise ConfigError("both card and price are given: put the price on the card")
        self._function = function
        self.acts = acts
        self._is_async = iscoroutinefunction(function)
        name = getattr(function, "__name__", type(function).__name__)  # a callable object has no name
        self.card = card or Card(name=name, description=(function.__doc__ or "").strip(), price=price)
        self.uses_tokens = self.card.price not in (None, FREE)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the function with the input of the step."""
        step_input = step_input_of(request)
        with Boundary(f"worker {self.card.name!r}", partial(WorkerFailed, maybe_paid=True)):
            if self._is_async:
                returned = self._function(step_input)
            else:
                returned = await anyio.to_thread.run_sync(self._function, step_input, abandon_on_cancel=True)
            if isawaitable(returned):
                returned = await returned
        answer = self._read(returned)
        if request.stream:
            yield answer.text
        yield answer

    def _read(self, returned: object) -> Completion:
        """Return the answer from the function's return value; raise `WorkerFailed` if it has none."""
        if isinstance(returned, Completion):
            return returned
        if isinstance(returned, dict | list | int | float):
            try:
                returned = compact(returned)
            except (TypeError, ValueError, RecursionError) as error:
                told = f"worker {self.card.name!r} returned a value that is not JSON: {error}"
                raise WorkerFailed(told, maybe_paid=True) from error
        if isinstance(returned, str) and returned.strip():
            return Completion(storable(returned))
        what = "an empty text" if isinstance(returned, str) else f"a {type(returned).__name__}"
        told = f"worker {self.card.name!r} returned {what}: return the answer as text"
        raise WorkerFailed(told, maybe_paid=True)


Reply = str | Completion | Exception
"""An answer, an answer with usage, or an exception to raise."""


class ScriptedWorker(Worker):
    """Answers from a table or a function after a fixed delay, and keeps its requests.

    The usage of a scripted text is computed from the text, and counts as measured. A scripted `Completion`
    has its own usage, to which the rules for the usage of servers apply.

    Args:
        name: its name, or its card.
        replies: one reply for every request, a table, or a function of the request. In a table, the first key
            that occurs in the request's text selects the reply.
        latency: delay before the first piece, in seconds.
        piece: characters per piece when streaming; `None` sends the text in one piece.
    """

    def __init__(
        self,
        name: str | Card,
        replies: Reply | Mapping[str, Reply] | Callable[[Request], Reply],
        *,
        latency: float = 0.0,
        piece: int | None = None,
    ) -> None:
        self.card = name if isinstance(name, Card) else Card(name=name, price=FREE)
        self._replies = replies
        self._latency = latency
        self._piece = piece
        self.requests: list[Request] = []
        """All requests so far, in order."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as scripted."""
        self.requests.append(request)
        if self._latency:
            await anyio.sleep(self._latency)
        reply = self._reply(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            reply = Completion(reply, usage=replace(estimate_usage(request.messages, reply), estimated=False))
        if request.stream:
            size = self._piece or len(reply.text) or 1
            for start in range(0, len(reply.text), size):
                yield reply.text[start : start + size]
        yield reply

    def _reply(self, request: Request) -> Reply:
        if callable(self._replies):
            return self._replies(request)
        if isinstance(self._replies, Mapping):
            text = request.messages[-1].text
            unknown = WorkerFailed(f"no scripted reply of {self.card.name!r} fits {text[:80]!r}")
            return next((reply for key, reply in self._replies.items() if key in text), unknown)
        return self._replies


class OutputsWorker(FunctionWorker):
    """Works on the outputs of earlier steps, without a model.

    Args:
        name: its name in plans; by default the name of the class, in small letters.
        labels: labels for the rules of a policy.
    """

    does: ClassVar[str]
    """Its description on the card."""

    def __init__(self, name: str = "", *, labels: Iterable[str] = ()) -> None:
        name = name or type(self).__name__.lower()
        card = Card(name=name, description=self.does, price=FREE, labels=frozenset(labels))
        super().__init__(self.work, card=card)

    @abstractmethod
    async def work(self, step_input: StepInput) -> str:
        """Return the answer; raise `WorkerRefused` if there is nothing to work on."""


def _section(shown: VisibleStep) -> str:
    heading = " ".join(shown.subtask.split())
    # Bold text, because headings in the output would end a real heading.
    text = f"(no output: {shown.gap})" if shown.gap else shown.output.strip()
    return f"**{heading.replace('*', chr(92) + '*')}**\n\n{text}"


class Gather(OutputsWorker):
    """Joins the outputs of its visible steps into one Markdown text, each under its subtask.

    The outputs are not changed, so that sources stay in place. The output of a single visible step is
    returned without a heading.

    `OutputsWorker` describes the arguments.
    """

    does = "Gathers the outputs of earlier steps into one answer, word for word; adds nothing of its own."

    async def work(self, step_input: StepInput) -> str:  # noqa: D102 - see the base class
        visible = step_input.visible
        if not any(shown.output for shown in visible):
            raise WorkerRefused("there is nothing to gather: give this step access to earlier ones")
        return visible[0].output if len(visible) == 1 else "\n\n".join(map(_section, visible))


class Join(OutputsWorker):
    """Joins texts in order, with an empty line between them, and adds nothing.

    The texts are the items of the list that is its subtask, as in `{{1.summary}}`. A subtask that has other
    references, or is a JSON object, or sees no step, is returned with the values in it. For any other
    subtask, the texts are the outputs of its visible steps; of a single one, the items of its list. `null`,
    the output of a failed item, is left out.

    `OutputsWorker` describes the arguments.
    """

    does = (
        "Joins the outputs of earlier steps, or the texts of a list in its subtask, in order; adds nothing."
    )

    async def work(self, step_input: StepInput) -> str:  # noqa: D102 - see the base class
        values = _listed(step_input.subtask)
        if values is None:
            sees, subtask = step_input.visible, step_input.subtask
            is_text = not sees or "{{" in step_input.template or is_object(subtask)
            values = [subtask] if is_text else _visible_values(step_input)
        return "\n\n".join(written(each).strip() for each in _known(values))


class Vote(OutputsWorker):
    """Returns the most frequent of several values; of equally frequent values, the first.

    The values are the items of the list that is its subtask, as in `{{1.verdict}}`; for any other subtask,
    the outputs of its visible steps, or of a single one the items of its list. They are compared as JSON.
    `null`, the output of a failed item, is not a vote.

    `OutputsWorker` describes the arguments.
    """

    does = "Returns the most frequent of the outputs of earlier steps, or of the values of a list in its "
    does += "subtask."

    async def work(self, step_input: StepInput) -> str:  # noqa: D102 - see the base class
        found = _listed(step_input.subtask)
        votes = _known(map(_value, _visible_values(step_input)) if found is None else found)
        keys = [_key(vote) for vote in votes]
        most, _ = Counter(keys).most_common(1)[0]
        return written(votes[keys.index(most)])


def _visible_values(step_input: StepInput) -> list[Any]:
    """Return the outputs of the visible steps; of a single one, the items of its list."""
    texts = [shown.output.strip() for shown in step_input.visible if not shown.gap]
    found = _listed(texts[0]) if len(step_input.visible) == 1 and texts else None
    return texts if found is None else found


def _known(values: Iterable[Any]) -> list[Any]:
    """Return the values without those that are `null`; raise `WorkerRefused` if there are none."""
    if not (known := [value for value in values if value is not None]):
        told = "there is nothing to join or to vote on: give this step access to earlier ones with an output"
        raise WorkerRefused(told)
    return known


def _listed(text: str) -> list[Any] | None:
    """Return the items of a text that is a JSON list; `None` for other texts."""
    value = _value(text)
    return value if isinstance(value, list) else None


def _value(text: Any) -> Any:
    """Return the value of a text that is JSON; other values as they are."""
    try:
        return read_json(text)
    except (TypeError, ValueError):
        return text


def _key(value: Any) -> Hashable:
    """Return what equal JSON values have in common: 1 equals 1.0, and not `true`."""
    if isinstance(value, list):
        return (list, *map(_key, value))
    if isinstance(value, dict):
        return frozenset((name, _key(each)) for name, each in value.items())
    return (bool, value) if isinstance(value, bool) else value
