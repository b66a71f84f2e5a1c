"""A worker made of a Python function."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction

import anyio.to_thread

from podium.errors import ConfigError, WorkerFailed
from podium.secrets.boundary import Boundary
from podium.types.messages import Completion, storable
from podium.workers.worker import FREE, Card, Price, Request, StepInput, Worker, step_input_of


class FunctionWorker(Worker):
    """Calls a function with what the step's worker is shown.

    In the subtask, outputs stand in place of references (`{{n}}`).

    Args:
        function: takes a `StepInput` (subtask, visible steps, question) and returns an
            answer: text, or a `Completion` that also states what it cost. A plain
            function runs in a thread and cannot be stopped there: after a cancel or a
            timeout it is left behind. A coroutine function is awaited.
        card: `None` names the worker after the function, described by its docstring.
        price: what a default card says it costs; a function reports no tokens, so this
            says whether its work is `FREE` or (`None`) of unknown price.

    A function that raises, or that returns no text, is not called again (`worker_failed`).

    Raises:
        ConfigError: there are both a card and a price.
    """

    reads_prose = False

    def __init__(
        self,
        function: Callable[[StepInput], str | Completion | Awaitable[str | Completion]],
        *,
        card: Card | None = None,
        price: Price | None = None,
    ) -> None:
        if card is not None and price is not None:
            raise ConfigError("a price beside a card would not count: put it on the card")
        self._function = function
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
        """Return the answer in what the function returned; raise `WorkerFailed` if there is none."""
        if isinstance(returned, Completion):
            return returned
        if isinstance(returned, str) and returned.strip():
            return Completion(storable(returned))
        what = "an empty text" if isinstance(returned, str) else f"a {type(returned).__name__}"
        told = f"worker {self.card.name!r} returned {what}: return the answer as text"
        raise WorkerFailed(told, maybe_paid=True)
