"""A worker that calls a Python function."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction

import anyio.to_thread

from podium.errors import ConfigError, WorkerFailed
from podium.secrets.boundary import Boundary
from podium.types.messages import Completion, storable
from podium.workers.worker import FREE, Card, Price, Request, StepInput, Worker, step_input_of


class FunctionWorker(Worker):
    """Calls a function with the input of the step.

    References (`{{n}}`) in the subtask are replaced by the outputs.

    Args:
        function: the function. Its argument is a `StepInput` (subtask, visible steps, question). It returns
            the answer: text, or a `Completion` with a cost. A coroutine function is awaited. A plain function
            runs in a thread, which a cancellation or a timeout cannot stop.
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
        function: Callable[[StepInput], str | Completion | Awaitable[str | Completion]],
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
        if isinstance(returned, str) and returned.strip():
            return Completion(storable(returned))
        what = "an empty text" if isinstance(returned, str) else f"a {type(returned).__name__}"
        told = f"worker {self.card.name!r} returned {what}: return the answer as text"
        raise WorkerFailed(told, maybe_paid=True)
